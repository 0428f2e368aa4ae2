//! `until` measures each interval from one hit to another one of the same key. It counts those that
//! it can't measure.

use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use probe_runtime::aggregate::{Group, Groups, OpenInterval};
use probe_runtime::spec::attach_spec;
use probe_runtime::{Aggregate, Attachment, point, probe, select};

fn take(lock: u64, by: &str) {
    point!("took", lock = lock, by = by);
}

fn give(lock: u64) {
    point!("gave", lock = lock, result = -1);
}

/// Points are known once they were compiled into a function that is called.
fn lists_points() {
    take(0, "");
    give(0);
}

/// The key is known at the entry, and the interval begins at the exit.
#[probe(args(lock), ret)]
fn acquire(lock: u64, succeeds: bool) -> bool {
    lock != 0 && succeeds
}

#[probe(args(id))]
fn release(id: u64) -> u64 {
    id + 1
}

fn attach(selector: &str, text: &str) -> Attachment<Aggregate> {
    let path = |text: &str| text.replace('@', "consumers::intervals::");
    select(&path(selector)).unwrap().attach(Aggregate::new(&path(text)).unwrap()).unwrap()
}

fn counts(groups: &Groups) -> Vec<(String, u64, usize)> {
    let mut counts: Vec<_> =
        groups.iter().map(|it| (it.keys().join("|"), it.count(), it.open().len())).collect();
    counts.sort();
    counts
}

fn row(keys: &str, count: u64, open: usize) -> (String, u64, usize) {
    (keys.to_owned(), count, open)
}

/// Waits until this time has passed.
fn spin(time: Duration) {
    let begun = Instant::now();
    while begun.elapsed() < time {
        std::hint::spin_loop();
    }
}

#[test]
fn each_thread_measures_its_own_intervals() {
    let _turn = probe_tests::turn::turn();
    lists_points();
    let held = attach("@took, @gave", "until(@gave) by(lock, by)");
    let begun = Instant::now();
    thread::scope(|scope| {
        for name in ["a", "b", "c", "d"] {
            scope.spawn(move || {
                for n in 0..1000 {
                    let lock = 1 + n % 2;
                    take(lock, name);
                    take(9, "outer");
                    give(lock);
                    give(9);
                }
            });
        }
    });
    let (groups, most) = (held.groups(), begun.elapsed());
    let mut expected: Vec<_> = ["a", "b", "c", "d"]
        .into_iter()
        .flat_map(|it| [1, 2].map(|n| row(&format!("{n}|{it}"), 500, 0)))
        .collect();
    expected.push(row("9|outer", 4000, 0));
    expected.sort();
    assert_eq!(counts(&groups), expected);
    assert_eq!(groups.notes(), [""; 0]);
    let most = most.as_secs_f64() * 1e9 * 1.001;
    assert!(groups.iter().all(|it| it.sum() <= 4.0 * most && it.max() <= most), "{groups}");
    assert!(groups.iter().all(|it| it.buckets().iter().map(|it| it.2).sum::<u64>() == it.count()));
}

#[test]
fn an_interval_takes_as_long_as_between_its_hits() {
    let _turn = probe_tests::turn::turn();
    lists_points();
    let held = attach("@took, @gave", "until(@gave) by(lock)");
    let around = Instant::now();
    take(1, "");
    let inside = Instant::now();
    spin(Duration::from_millis(2));
    let inside = inside.elapsed().as_secs_f64() * 1e9;
    give(1);
    let around = around.elapsed().as_secs_f64() * 1e9;
    let sum = held.groups()[0].sum();
    assert!((inside * 0.999..=around * 1.001).contains(&sum), "{inside} {sum} {around}");
}

#[test]
fn what_is_not_measured_is_told() {
    let _turn = probe_tests::turn::turn();
    lists_points();
    let held = attach("@took, @gave", "until(@gave) by(lock)");
    give(1);
    give(1);
    (0..3).for_each(|_| take(2, ""));
    (0..3).for_each(|_| give(2));
    take(3, "");
    assert_eq!(counts(&held.groups()), [row("2", 1, 0), row("3", 0, 1)]);
    assert_eq!(
        held.groups().notes(),
        [
            "2 ends were without a beginning: it was of another thread, before this was attached or switched, or \
             left out",
            "2 beginnings were inside of an interval of the same key, whose outermost one counts",
        ]
    );
    // Hits may be missed meanwhile.
    held.pause();
    give(3);
    take(3, "");
    held.resume();
    give(3);
    let groups = held.groups();
    assert_eq!(counts(&groups), [row("2", 1, 0)]);
    let switched = "1 interval was open while probes were switched, so that the end may have been missed";
    assert!(groups.notes().iter().any(|it| it == switched), "{:?}", groups.notes());
    take(3, "");
    give(3);
    assert_eq!(counts(&held.groups()), [row("2", 1, 0), row("3", 1, 0)]);
    assert!(held.groups().notes().iter().any(|it| it == switched));
    let text = held.to_string();
    assert!(text.contains("3 ends were without a beginning"), "{text}");
}

/// A report is written after its pause, and shows the intervals that were open then.
#[test]
fn a_pause_leaves_intervals_open() {
    let _turn = probe_tests::turn::turn();
    lists_points();
    let held = attach("@took, @gave", "until(@gave) by(lock)");
    take(1, "");
    take(2, "");
    give(2);
    let open = || {
        let groups = held.groups();
        assert_eq!(counts(&groups), [row("1", 0, 1), row("2", 1, 0)]);
        assert_eq!(groups.notes(), [""; 0]);
        groups.get(&["1"]).unwrap().open()[0].elapsed()
    };
    let before = open();
    held.pause();
    let paused = open();
    assert!(before < paused, "{before} {paused}");
    // Another pause changes nothing.
    held.pause();
    spin(Duration::from_micros(100));
    assert_eq!(open(), paused);
    held.resume();
    assert_eq!(counts(&held.groups()), [row("2", 1, 0)]);
    assert_eq!(held.groups().notes().len(), 1, "it was open while probes were switched");
    take(1, "");
    held.pause();
    assert_eq!(counts(&held.groups()), [row("1", 0, 1), row("2", 1, 0)]);
}

fn open_of(groups: &Groups, key: &str) -> Vec<(String, bool, bool)> {
    let mut open: Vec<_> = groups
        .get(&[key])
        .map_or(&[][..], Group::open)
        .iter()
        .map(|it| (it.thread_name().to_owned(), it.has_thread_ended(), it.may_have_ended()))
        .collect();
    open.sort();
    open
}

#[test]
fn open_intervals_have_their_threads() {
    let _turn = probe_tests::turn::turn();
    lists_points();
    let held = attach("@took, @gave", "until(@gave) by(lock)");
    let named = |name: &str| thread::Builder::new().name(name.to_owned());
    let (taken, seen) = (Barrier::new(3), Barrier::new(3));
    thread::scope(|scope| {
        for name in ["first", "second"] {
            let holds = || {
                take(5, "");
                taken.wait();
                seen.wait();
                give(5);
            };
            named(name).spawn_scoped(scope, holds).unwrap();
        }
        taken.wait();
        spin(Duration::from_micros(100));
        let groups = held.groups();
        let open = |name: &str| (name.to_owned(), false, false);
        assert_eq!(open_of(&groups, "5"), [open("first"), open("second")]);
        let longest = groups[0].open().iter().map(OpenInterval::elapsed).max().unwrap();
        assert!(longest >= 100_000, "{longest}");
        let text = groups.to_string();
        assert!(text.contains("; 1 more"), "{text}");
        seen.wait();
    });
    assert_eq!(counts(&held.groups()), [row("5", 2, 0)]);
    // A thread ends while it holds one, and so does the next, which may have its memory.
    for (ended, open) in [(0, 1), (1, 1)] {
        named("ends").spawn(|| take(6, "")).unwrap().join().unwrap();
        let groups = held.groups();
        let now = open_of(&groups, "6");
        let note = groups.notes().iter().any(|it| it.contains("open at the end of the thread"));
        // Later threads get the memory of earlier ones, or some of their own.
        assert!(now.len() + usize::from(note) == ended + open, "{groups}");
        assert!(now.iter().all(|it| *it == ("ends".to_owned(), true, false)), "{now:?}");
        assert!(groups.to_string().contains("which has ended"), "{groups}");
    }
    // Another thread ends it.
    take(7, "");
    thread::spawn(|| give(7)).join().unwrap();
    let groups = held.groups();
    assert_eq!(open_of(&groups, "7").iter().map(|it| (it.1, it.2)).collect::<Vec<_>>(), [(false, true)]);
    assert!(groups.to_csv().lines().next().unwrap().ends_with(",max_ns,open,open_ns,open_thread"));
    let json = groups.to_json();
    assert!(json.contains("\"may_have_ended\":true"), "{json}");
    assert!(groups.to_string().contains("if no other thread has ended it"), "{groups}");
    give(7);
}

#[test]
fn functions_begin_at_their_exits_and_end_at_their_entries() {
    let _turn = probe_tests::turn::turn();
    let text = "until(@release by(id)) by(lock)";
    let aggregate = Aggregate::new(&text.replace('@', "consumers::intervals::")).unwrap();
    let set = select("consumers::intervals::acquire, consumers::intervals::release").unwrap();
    let held = set.attach(aggregate.only_if("ret".parse().unwrap())).unwrap();
    for n in 1..=10 {
        if acquire(n % 3, n % 2 == 0) {
            release(n % 3);
        }
    }
    // 2 and 8 take 2, 4 and 10 take 1.
    assert_eq!(counts(&held.groups()), [row("1", 2, 0), row("2", 2, 0)]);
    assert_eq!(held.groups().notes(), [""; 0]);
    // From the entry to the exit, as `latency`; and from an exit to the next exit.
    let calls = attach("@acquire", "until(@acquire kind=exit)");
    let between = attach("@release kind=exit", "until(@release kind=exit)");
    (0..5).for_each(|n| _ = (acquire(n, true), release(n)));
    assert_eq!(counts(&calls.groups()), [row("", 5, 0)]);
    // Each of these ends an interval, and begins one.
    assert_eq!(counts(&between.groups()), [row("", 4, 1)]);
}

#[test]
fn a_text_names_both_hits() {
    let _turn = probe_tests::turn::turn();
    lists_points();
    let path = "consumers::intervals::";
    let spec = format!(
        "{path}took[by ~ \"a*\"]=until({path}gave) by(lock), {path}took=until({path}took) by(lock), {path}acquire \
         kind=entry=until({path}acquire kind=exit)"
    );
    let attached = attach_spec(&spec).unwrap();
    for n in 0..12 {
        take(n % 3, if n % 2 == 0 { "ab" } else { "b" });
        give(n % 3);
        acquire(n, true);
    }
    let groups = |at: usize| attached[at].attachment::<Aggregate>().unwrap().groups();
    assert_eq!(counts(&groups(0)), [row("0", 2, 0), row("1", 2, 0), row("2", 2, 0)]);
    assert!(groups(0).notes()[0].starts_with("6 ends were without a beginning"));
    // From each to the next one: the last is open, and the first hit has ended nothing.
    assert_eq!(counts(&groups(1)), [row("0", 3, 1), row("1", 3, 1), row("2", 3, 1)]);
    assert!(groups(1).notes()[0].starts_with("3 ends were without a beginning"));
    assert_eq!(counts(&groups(2)), [row("", 12, 0)]);
}

#[test]
fn each_of_two_selectors_names_its_own_probes() {
    let _turn = probe_tests::turn::turn();
    lists_points();
    let specs = [
        // A hit that ends an interval begins none.
        "@took, @gave=until(@gave) by(lock)",
        // The second selector may name a probe that the first one leaves out.
        "@took=until(@*, !@took, !@acquire, !@release by(lock)) by(lock)",
        "@*, !@gave, !@acquire, !@release=until(@gave) by(lock)",
    ];
    for spec in specs {
        let attached = attach_spec(&spec.replace('@', "consumers::intervals::")).unwrap();
        for n in 0..9 {
            take(n % 3, "");
            give(n % 3);
        }
        take(7, "");
        let groups = attached[0].attachment::<Aggregate>().unwrap().groups();
        let expected = [row("0", 3, 0), row("1", 3, 0), row("2", 3, 0), row("7", 0, 1)];
        assert_eq!((counts(&groups), groups.notes()), (expected.to_vec(), Vec::new()), "{spec}");
    }
}

/// The key is of the entry, whose group keeps it until the exit.
#[test]
fn keys_without_room_are_counted() {
    let _turn = probe_tests::turn::turn();
    let held = attach("@acquire, @release", "until(@release by(id)) by(lock)");
    for n in 0..3000 {
        acquire(n, true);
        release(n);
    }
    let groups = held.groups();
    let ended: u64 = groups.iter().map(Group::count).sum();
    assert!((512..=1024).contains(&ended), "{ended}");
    let left_out = 3000 - ended;
    assert_eq!(
        groups.notes(),
        [
            format!(
                "{left_out} ends were without a beginning: it was of another thread, before this was attached or \
                 switched, or left out"
            ),
            format!(
                "{left_out} beginnings were left out: there is no room for their groups, which have their keys"
            ),
        ]
    );
}

#[test]
fn mistakes_are_errors() {
    let _turn = probe_tests::turn::turn();
    lists_points();
    let failed = |selector: &str, text: &str| {
        let path = |text: &str| text.replace('@', "consumers::intervals::");
        let set = select(&path(selector)).unwrap();
        set.attach(Aggregate::new(&path(text)).unwrap()).unwrap_err().to_string()
    };
    let error = failed("@took, @gave", "until(@gave) by(by)");
    assert!(error.contains("`by` is not a field of any probe here"), "{error}");
    let error = failed("@took, @gave", "until(@gave) by(caller)");
    assert!(error.contains("the first key is that of both hits"), "{error}");
    let error = failed("@took, @gave", "held");
    assert!(error.contains("none of these probes takes anything"), "{error}");
    let held = attach("@took", "until(@gave) by(lock)");
    assert_eq!(held.groups().notes(), ["no selected probe ends intervals"]);
}
