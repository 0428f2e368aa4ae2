//! Predicates and aggregations count exactly, with every consumer, and no call is half seen.

use std::sync::{Barrier, Mutex};
use std::thread;

use probe_runtime::aggregate::{Group, Groups};
use probe_runtime::selector::Predicate;
use probe_runtime::spec::attach_spec;
use probe_runtime::{Aggregate, Count, Error, Event, Latency, Profiler, point, probe, select};

fn predicate(text: &str) -> Predicate {
    text.parse().unwrap()
}

#[probe(args(bytes, peer), ret)]
fn send(bytes: u64, peer: &str) -> i64 {
    let sent = i64::try_from(bytes).unwrap();
    if peer.is_empty() { -sent } else { sent }
}

/// Exits tell the outcome, also of results whose values are no fields.
#[probe(ret)]
fn parse(text: &str) -> Result<u8, std::num::ParseIntError> {
    text.parse()
}

fn groups(groups: &Groups) -> Vec<(String, u64, f64)> {
    groups.iter().map(|it| (it.keys().join("|"), it.count(), it.sum())).collect()
}

fn row(keys: &str, count: u64, sum: f64) -> (String, u64, f64) {
    (keys.to_owned(), count, sum)
}

const SEND: &str = "consumers::predicates::send";

#[test]
fn an_entry_decides_for_its_call() {
    let _turn = probe_tests::turn::turn();
    let set = select(SEND).unwrap();
    let large = set.attach_if(&predicate("bytes > 100 && peer ~ \"10.*\""), Count::new()).unwrap();
    let times = set.attach_if(&predicate("bytes > 100"), Latency::new()).unwrap();
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for bytes in 0..201 {
                    send(bytes, "10.0.0.1");
                    send(bytes, "11.0.0.1");
                }
            });
        }
    });
    let counts = large.counts();
    // The entry and the exit.
    assert_eq!(counts.iter().map(|it| it.hits).collect::<Vec<_>>(), [400, 400]);
    let latencies = times.latencies();
    let function = latencies.function(SEND).unwrap();
    assert_eq!((function.calls(), function.unpaired().total()), (800, 0));
    assert_eq!(large.reset().total(), 800);
    send(101, "10.");
    assert_eq!(large.total(), 2);
}

#[test]
fn an_exit_decides_about_itself() {
    let _turn = probe_tests::turn::turn();
    let set = select(SEND).unwrap();
    let failed = set.attach_if(&predicate("ret < 0"), Count::new()).unwrap();
    for bytes in 1..=10 {
        send(bytes, if bytes % 5 == 0 { "" } else { "x" });
    }
    let counted: Vec<_> = failed.counts().iter().map(|it| (it.probe.kind().name(), it.hits)).collect();
    assert_eq!(counted.iter().find(|it| it.0 == "exit").unwrap().1, 2);
    assert_eq!(failed.total(), 2);
    let error = set.attach_if(&predicate("ret < 0"), Latency::new()).unwrap_err().to_string();
    assert!(error.contains("known at the exit of a call, and the consumer needs its entry"), "{error}");
    let error = set.attach_if(&predicate("bytes < 0"), Profiler::new()).unwrap_err().to_string();
    assert!(error.contains("counts most calls without looking at their fields"), "{error}");
}

#[test]
fn a_mistake_names_the_fields() {
    let _turn = probe_tests::turn::turn();
    let error = |text: &str| match select(SEND).unwrap().attach_if(&predicate(text), Count::new()) {
        Err(error @ Error::Expression { .. }) => error.to_string(),
        other => panic!("{other:?}"),
    };
    assert_eq!(
        error("bytes > 1 && byts > 2"),
        "this does not fit the probes, column 14: `byts` is not a field of any probe here; \
         there is bytes, outcome, peer, ret at consumers::predicates::send; thread and time at all\n  bytes > 1 && byts > 2\n               ^"
    );
    if cfg!(probe_portable) {
        // Types of fields are known where their sites are patched.
        return;
    }
    assert_eq!(
        error("peer > 1"),
        "this does not fit the probes, column 6: text can't be compared with an integer\n  peer > 1\n       ^"
    );
    let error = attach_spec("consumers::predicates::send=sum(byts)").unwrap_err().to_string();
    assert!(error.ends_with("\n  sum(byts)\n      ^"), "{error}");
}

#[test]
fn groups_are_counted_summed_and_measured() {
    let _turn = probe_tests::turn::turn();
    let attached = attach_spec(
        "consumers::predicates::send=count by(peer), \
         consumers::predicates::send[bytes > 1]=sum(bytes) by(peer, thread > 0 || ok)",
    );
    assert!(attached.is_err(), "a condition is no key, and there is no `ok`");
    let attached = attach_spec(
        "consumers::predicates::send=count by(peer), \
         consumers::predicates::send[bytes > 1]=sum(bytes * 2) by(peer), \
         consumers::predicates::send=latency by(peer), \
         consumers::predicates::send=max(ret), \
         consumers::predicates::send[ret < 0 || bytes == 3]=quantize(bytes) by(ret)",
    );
    // The last one mixes the entry with the exit.
    let error = attached.unwrap_err().to_string();
    assert!(error.contains("this is known at the entry, and another part of it at the exit only"), "{error}");
    let attached = attach_spec(
        "consumers::predicates::send=count by(peer), \
         consumers::predicates::send[bytes > 1]=sum(bytes * 2) by(peer), \
         consumers::predicates::send=latency by(peer), \
         consumers::predicates::send=max(ret), \
         consumers::predicates::send[ret < 0]=count by(peer, len(peer))",
    )
    .unwrap();
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| (1..=4).for_each(|bytes| _ = send(bytes, if bytes == 4 { "" } else { "a" })));
        }
    });
    let read = |at: usize| attached[at].attachment::<Aggregate>().unwrap().groups();
    assert_eq!(groups(&read(0)), [row("a", 9, 0.0), row("", 3, 0.0)]);
    assert_eq!(groups(&read(1)), [row("a", 6, 30.0), row("", 3, 24.0)]);
    let times = read(2);
    assert_eq!(times.iter().map(Group::count).collect::<Vec<_>>(), [9, 3]);
    assert!(times.iter().all(|it| it.min() > 0.0 && it.quantile(0.5) <= it.max()));
    assert_eq!(read(3).iter().map(Group::max).collect::<Vec<_>>(), [3.0]);
    assert_eq!(groups(&read(4)), [row("|0", 3, 0.0)]);
    let [json, csv] = [attached[1].to_json(), attached[1].to_csv()];
    let read: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!((&read["rows"][0]["keys"][0], &read["rows"][0]["sum"]), (&"a".into(), &30.into()));
    assert!(csv.starts_with("probe,file,line,peer,count,sum\n") && csv.contains(",a,6,30\n"), "{csv}");
    let table = attached[1].to_string();
    assert!(table.starts_with("probe"), "{table}");
    assert!(attached[3].to_string().contains("max"));
}

#[test]
fn calls_are_measured_by_their_outcome() {
    let _turn = probe_tests::turn::turn();
    let attached = attach_spec("consumers::predicates::parse=latency by(outcome)").unwrap();
    for text in ["1", "x", "2", "256", "3"] {
        assert_eq!(parse(text).is_ok(), text.len() == 1 && text != "x");
    }
    let times = attached[0].attachment::<Aggregate>().unwrap().groups();
    let calls = |outcome: &str| times.get(&[outcome]).map(Group::count);
    assert_eq!((times.len(), calls("ok"), calls("err")), (2, Some(3), Some(2)));
    assert!(times.iter().all(|it| it.min() > 0.0 && it.quantile(0.5) <= it.max()));
}

/// Keys, and conditions that `&&` joins, are each taken where they are known.
#[test]
fn a_group_has_keys_of_the_entry_and_of_the_exit() {
    let _turn = probe_tests::turn::turn();
    let set = select(SEND).unwrap();
    let attach = |text: &str| set.attach(Aggregate::new(text).unwrap()).unwrap();
    let (sorted, turned) = (attach("count by(peer, ret)"), attach("latency by(ret, len(peer), bytes)"));
    let sums = attach("sum(ret) by(peer, ret)");
    let few = Aggregate::new("count by(ret, peer)").unwrap();
    let few =
        set.attach(few.only_if(predicate("ret > 1 && bytes < 4 && len(peer) == 1 && 10 > ret"))).unwrap();
    let long = "x".repeat(300);
    for (bytes, peer) in [(1, "a"), (2, "b"), (2, "b"), (3, ""), (4, "a"), (2, &*long), (2, &*long)] {
        send(bytes, peer);
    }
    let keys = |of: &Groups| {
        let mut all: Vec<_> = of.iter().map(|it| (it.keys().join("|"), it.count())).collect();
        all.sort();
        all
    };
    let cut = format!("{}…|2", "x".repeat(56));
    let expected = [("a|1", 1), ("a|4", 1), ("b|2", 2), (&cut, 2), ("|-3", 1)];
    assert_eq!(keys(&sorted.groups()), expected.map(|(keys, count)| (keys.to_owned(), count)));
    let expected = [("-3|0|3", 1), ("1|1|1", 1), ("2|1|2", 2), ("2|300|2", 2), ("4|1|4", 1)];
    assert_eq!(keys(&turned.groups()), expected.map(|(keys, count)| (keys.to_owned(), count)));
    let mut of_peers = groups(&sums.groups());
    of_peers.sort_by(|a, b| a.0.cmp(&b.0));
    let expected = [("a|1", 1, 1.0), ("a|4", 1, 4.0), ("b|2", 2, 4.0), (&cut, 2, 4.0), ("|-3", 1, -3.0)];
    assert_eq!(of_peers, expected.map(|(keys, count, sum)| row(keys, count, sum)));
    assert_eq!(keys(&few.groups()), [("2|b".to_owned(), 2)]);
    let error = Aggregate::new("count by(len(peer) + ret)").unwrap();
    let error = set.attach(error).unwrap_err().to_string();
    assert!(error.contains("and another part of this are known at different hits of a call"), "{error}");
}

#[test]
fn samples_are_exact() {
    let _turn = probe_tests::turn::turn();
    let step = |n: u64| point!("sampled", n = n);
    let set = select("consumers::predicates::sampled").unwrap();
    let first = set.attach_if(&predicate("first 100"), Count::new()).unwrap();
    let one = set.attach_if(&predicate("1 in 10"), Count::new()).unwrap();
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| (0..1000).for_each(step));
        }
    });
    assert_eq!((first.total(), one.total()), (100, 400));
}

#[test]
fn hits_without_a_value_are_counted() {
    let _turn = probe_tests::turn::turn();
    let step = |n: u64| point!("divided", n = n);
    let set = select("consumers::predicates::divided").unwrap();
    let odd = set.attach_if(&predicate("10 / n == 5"), Count::new()).unwrap();
    let sum = set.attach(Aggregate::new("sum(100 / n)").unwrap()).unwrap();
    [0, 1, 2, 0].into_iter().for_each(step);
    assert_eq!(odd.total(), 1);
    assert!(odd.to_string().ends_with("2 hits were left out: with a division by zero"), "{odd}");
    assert_eq!(groups(&sum.groups()), [row("", 2, 150.0)]);
    assert!(sum.to_string().ends_with("2 hits were left out: with a division by zero"), "{sum}");
    if cfg!(probe_portable) {
        // Fields of unknown types are summed as floating-point numbers.
        return;
    }
    let large = set.attach(Aggregate::new("sum(n * 9223372036854775807)").unwrap()).unwrap();
    [1, 1, 2, 1].into_iter().for_each(step);
    assert_eq!(groups(&large.reset()), [row("", 1, 9_223_372_036_854_775_807.0)]);
    assert!(large.to_string().ends_with("3 hits were left out: with a number that is too large"), "{large}");
}

#[test]
fn groups_without_room_share_a_row() {
    let _turn = probe_tests::turn::turn();
    let step = |n: u64| point!("many", n = n);
    let many = select("consumers::predicates::many").unwrap();
    let many = many.attach(Aggregate::new("sum(n) by(n)").unwrap()).unwrap();
    (0..5000).for_each(step);
    (0..5000).for_each(step);
    let all = many.groups();
    assert_eq!(all.iter().map(Group::count).sum::<u64>(), 10_000);
    assert!(all.others() > 7000 && all.len() > 900, "{} {}", all.others(), all.len());
    assert!(all.iter().filter(|it| !it.is_others()).all(|it| it.count() == 2));
    let table = many.to_string();
    assert!(table.ends_with("hits are in no group of their own: there are too many"), "{table}");
}

#[probe(args(id), ret)]
async fn answered(id: u64) -> u64 {
    tokio::task::yield_now().await;
    tokio::task::yield_now().await;
    id % 2
}

#[test]
fn a_future_is_as_its_entry() {
    let _turn = probe_tests::turn::turn();
    let set = select("consumers::predicates::answered").unwrap();
    let seen = set.attach_if(&predicate("id >= 6"), Latency::new()).unwrap();
    let kinds = Mutex::new(Vec::new());
    let told = move |event: &Event<'_>| kinds.lock().unwrap().push(event.kind().name());
    let kinds = set.attach_if(&predicate("id == 3"), told).unwrap();
    let odd = set.attach(Aggregate::new("latency by(id)").unwrap().only_if(predicate("ret == 1"))).unwrap();
    let both = set.attach(Aggregate::new("count by(ret, id)").unwrap()).unwrap();
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap().block_on(async {
        let calls: Vec<_> = (0..10).map(|id| tokio::spawn(answered(id))).collect();
        for call in calls {
            call.await.unwrap();
        }
    });
    let latencies = seen.latencies();
    let function = latencies.function("consumers::predicates::answered").unwrap();
    assert_eq!((function.calls(), function.polls(), function.unpaired().total()), (4, 12, 0));
    assert!(kinds.failure().is_none());
    let mut keys: Vec<_> = odd.groups().iter().map(|it| (it.keys()[0].clone(), it.count())).collect();
    keys.sort();
    assert_eq!(keys.len(), 5, "{odd}");
    assert_eq!(keys, ["1", "3", "5", "7", "9"].map(|id| (id.to_owned(), 1)));
    let mut keys: Vec<_> = both.groups().iter().map(|it| (it.keys().to_vec(), it.count())).collect();
    keys.sort();
    let expected =
        (0..10).map(|call| (vec![(call / 5).to_string(), (call % 5 * 2 + call / 5).to_string()], 1));
    assert_eq!(keys, expected.collect::<Vec<_>>());
}

#[test]
fn a_field_has_the_unit_of_its_name_only_if_it_is_no_field() {
    let _turn = probe_tests::turn::turn();
    let timed = |time: u64| point!("timed", time = time);
    timed(0);
    let set = select("consumers::predicates::timed").unwrap();
    let most = set.attach(Aggregate::new("max(time)").unwrap()).unwrap();
    timed(2_000_000);
    let shown = most.groups().to_string();
    assert!(shown.contains(" 2000000") && !shown.contains("ms"), "{shown}");
    let set = select(SEND).unwrap();
    let since = set.attach(Aggregate::new("max(time)").unwrap()).unwrap();
    send(1, "");
    let groups = since.groups();
    let shown = groups.to_string();
    assert!(!shown.contains(&format!("{}", groups[0].max())), "{shown} is in units of time");
}

#[probe]
#[inline(never)]
fn named() {}

/// Tables have names, with a number where two threads have one name. Keys stay numbers.
#[test]
fn threads_are_keys_by_their_names() {
    let set = select("consumers::predicates::named kind=entry").unwrap();
    let counts = set.attach(Aggregate::new("count by(thread)").unwrap()).unwrap();
    let met = Barrier::new(4);
    let table = thread::scope(|scope| {
        for (name, hits) in [("reader", 1), ("worker", 2), ("worker", 3)] {
            let met = &met;
            let calls = move || {
                (0..hits).for_each(|_| named());
                met.wait();
                // No later thread uses the memory of one that lives.
                met.wait();
            };
            thread::Builder::new().name(name.to_owned()).spawn_scoped(scope, calls).unwrap();
        }
        met.wait();
        let table = counts.groups();
        met.wait();
        table
    });
    let numbers: Vec<_> = table.iter().map(|group| group.keys()[0].clone()).collect();
    assert!(numbers.iter().all(|it| it.parse::<u64>().is_ok()), "{numbers:?}");
    let text = table.to_string();
    let rows: Vec<Vec<_>> =
        text.lines().skip(1).map(|row| row.split_whitespace().skip(1).collect()).collect();
    let [third, second] = [&numbers[0], &numbers[1]].map(|it| format!("({it})"));
    assert_eq!(rows, [vec!["worker", &*third, "3"], vec!["worker", &*second, "2"], vec!["reader", "1"]]);
    assert!(table.to_json().contains(&format!("\"keys\":[\"{}\"]", numbers[2])), "{}", table.to_json());
}
