//! Recording under running threads, beside other consumers that come and go, pauses, holds and
//! detaching; with several traces; after forks; on threads that end.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use probe_runtime::patch::Visibility;
use probe_runtime::{Count, Event, ProbeSet, Trace, select};
use probe_tests::folder::Folder;
use probe_tests::scenario::in_a_child;
use probe_tests::turn::turn;
use probe_tests::whole;
use probe_trace::{Item, Kind};

use super::{HITS, call_both, events};

fn probes() -> ProbeSet {
    select("recorded_in_place::*").unwrap()
}

/// Two threads call while `operation` runs. Returns the number of their calls.
fn under_calls(operation: impl FnOnce(&dyn Fn() -> u64)) -> u64 {
    struct Over<'a>(&'a AtomicBool);

    impl Drop for Over<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }

    let (calls, is_over) = (AtomicU64::new(0), AtomicBool::new(false));
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    (0..10).for_each(call_both);
                    calls.fetch_add(10, Ordering::Relaxed);
                }
            });
        }
        // Also if it panics.
        let _over = Over(&is_over);
        operation(&|| calls.load(Ordering::Relaxed));
    });
    calls.into_inner()
}

#[test]
fn no_hit_is_missed_while_others_come_and_go() {
    const ROUNDS: u64 = 30;
    let _turn = turn();
    call_both(1);
    let trace = probes().attach(Trace::recorder().ring_size(16 << 10)).unwrap();
    let heard = AtomicU64::new(0);
    let calls = under_calls(|calls| {
        for round in 0..ROUNDS {
            let until = calls() + 20;
            let counted = (round % 2 == 0).then(|| probes().attach(Count::new()).unwrap());
            let told = (round % 3 == 0).then(|| probes().attach(|_: &Event<'_>| ()).unwrap());
            while calls() < until {
                thread::yield_now();
            }
            heard.fetch_add(counted.map_or(0, |counted| counted.total()), Ordering::Relaxed);
            drop(told);
        }
    });
    let totals = trace.totals();
    assert_eq!((totals.written, totals.lost), (2 * HITS * calls, 0));
    assert!(heard.into_inner() > 0);
}

#[test]
fn a_trace_that_is_paused_and_held_pairs_no_call_across() {
    const ROUNDS: u64 = 30;
    let _turn = turn();
    let folder = Folder::new("recorded-paused");
    let path = folder.join("paused.probetrace");
    call_both(1);
    let set = probes().visibility(Visibility::Synchronous);
    let trace = set.attach(Trace::to_file(&path)).unwrap();
    let mut while_paused = 0;
    under_calls(|calls| {
        for round in 0..ROUNDS {
            let hold = (round % 2 == 0).then(|| probes().hold().unwrap());
            if hold.is_none() {
                trace.pause();
            }
            let written = trace.totals().written;
            let until = calls() + 20;
            while calls() < until {
                thread::yield_now();
            }
            // The hits that began before may still be under way.
            while_paused += u64::from(trace.totals().written > written + 4);
            drop(hold);
            trace.resume();
            // More than both threads may have made before without counting them.
            let until = calls() + 40;
            while calls() < until {
                thread::yield_now();
            }
        }
    });
    assert_eq!(while_paused, 0);
    let totals = trace.finish().unwrap();
    let mut generations: HashMap<_, Vec<_>> = HashMap::new();
    let (mut gaps, mut written) = (0, 0);
    for item in probe_trace::Trace::open(&[&path]).unwrap().items().map(Result::unwrap) {
        match item {
            Item::Event(event) => {
                written += 1;
                generations.entry((event.thread, event.generation, gaps)).or_default().push(event);
            }
            Item::Gap(_) => gaps += 1,
            _ => (),
        }
    }
    assert_eq!(written, totals.written);
    generations.retain(|(_, generation, _), _| generation % 2 == 1);
    assert!(generations.len() as u64 >= ROUNDS / 2, "{}", generations.len());
    for ((_, generation, _), events) in generations {
        // A call that began before has no entry here.
        let events = if events[0].definition.kind == Some(Kind::Entry) { &events[..] } else { &events[1..] };
        for call in events.chunks(2) {
            let kinds: Vec<_> = call.iter().filter_map(|event| event.definition.kind).collect();
            assert!(
                [Kind::Entry, Kind::Exit].starts_with(&kinds),
                "{totals:?} {gaps} {generation}: {call:?}"
            );
            assert_eq!(call[0].definition.path, call[call.len() - 1].definition.path);
        }
    }
}

#[test]
fn memory_goes_when_no_hit_is_in_it() {
    let _turn = turn();
    call_both(1);
    let mut written = 0;
    under_calls(|calls| {
        for _ in 0..if whole::is_asked_for() { 50 } else { 15 } {
            let trace = probes().attach(Trace::recorder().ring_size(4096)).unwrap();
            let until = calls() + 4;
            while calls() < until {
                thread::yield_now();
            }
            written += trace.totals().written;
            trace.detach();
        }
    });
    assert!(written > 0);
}

#[test]
fn traces_of_other_probes_have_rings_of_their_own() {
    let _turn = turn();
    call_both(1);
    let one = |path: &str| select(path).unwrap().attach(Trace::recorder().ring_size(4096)).unwrap();
    let [bare, numbered] = ["recorded_in_place::bare", "recorded_in_place::numbered kind=entry"].map(one);
    (0..1_000).for_each(call_both);
    assert_eq!([&bare, &numbered].map(|it| it.totals().written), [2_000, 1_000]);
    bare.detach();
    call_both(1);
    assert_eq!(numbered.totals().written, 1_001);
}

#[test]
fn threads_that_end_leave_their_rings_to_later_ones() {
    let _turn = turn();
    let folder = Folder::new("recorded-threads");
    let path = folder.join("threads.probetrace");
    call_both(1);
    let trace = probes().attach(Trace::to_file(&path).ring_size(64 << 10)).unwrap();
    for _ in 0..50 {
        thread::scope(|scope| (0..2).for_each(|_| _ = scope.spawn(|| (0..3).for_each(call_both))));
    }
    let emitted = 50 * 2 * 3 * 2 * HITS;
    let totals = trace.finish().unwrap();
    assert_eq!(totals.written + totals.lost, emitted);
    let events = events(&path);
    assert_eq!(events.len() as u64, totals.written);
    let mut of_threads: HashMap<_, u64> = HashMap::new();
    events.iter().for_each(|event| *of_threads.entry(event.thread).or_default() += 1);
    assert!(of_threads.len() <= 100 && of_threads.values().all(|events| *events <= 3 * 2 * HITS));
}

#[test]
fn a_forked_child_records_in_its_own_copy() {
    let _turn = turn();
    call_both(1);
    let trace = probes().attach(Trace::recorder()).unwrap();
    call_both(1);
    let status = in_a_child(|| {
        (0..10).for_each(call_both);
        assert_eq!(trace.totals().written, 11 * 2 * HITS);
        let told = probes().attach(|_: &Event<'_>| ()).unwrap();
        call_both(1);
        drop(told);
        call_both(1);
        assert_eq!(trace.totals().written, 13 * 2 * HITS);
    });
    assert_eq!(status, 0);
    call_both(1);
    assert_eq!(trace.totals().written, 2 * 2 * HITS);
}

/// The thread that empties the rings is the parent's. No rings are written in a child, though its
/// hooks are those of its parent.
#[test]
fn a_forked_child_records_nothing_for_a_trace_that_stays_behind() {
    let _turn = turn();
    let folder = Folder::new("recorded-behind");
    call_both(1);
    let trace = probes().attach(Trace::to_file(folder.join("behind.probetrace"))).unwrap();
    call_both(1);
    let status = in_a_child(|| {
        (0..10).for_each(call_both);
        assert_eq!(trace.totals().written, 2 * HITS);
    });
    assert_eq!(status, 0);
    assert_eq!(trace.finish().unwrap().written, 2 * HITS);
}

/// An eventual pause would leave threads in the trace, whose hits the totals have and the file not.
#[test]
fn a_finished_trace_has_all_hits_whatever_the_visibility() {
    let _turn = turn();
    let folder = Folder::new("recorded-finished");
    let path = folder.join("finished.probetrace");
    call_both(1);
    let rounds = if whole::is_asked_for() { 40 } else { 5 };
    under_calls(|calls| {
        for round in 0..rounds {
            let trace = Trace::first().ring_size(1 << 20);
            let trace = if round % 2 == 0 { Trace::to_file(&path) } else { trace.in_file(&path) };
            let trace = probes().visibility(Visibility::Eventual).attach(trace).unwrap();
            let until = calls() + 4;
            while calls() < until {
                thread::yield_now();
            }
            let totals = trace.finish().unwrap();
            assert_eq!(events(&path).len() as u64, totals.written);
        }
    });
}
