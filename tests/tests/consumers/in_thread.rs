//! Attachments for the hits of one thread, while other threads hit the same probes.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Barrier, Mutex};
use std::thread;

use probe_runtime::calls::Unpaired;
use probe_runtime::latency::FunctionLatency;
use probe_runtime::{Aggregate, CallTree, Count, Error, Event, Latency, Profiler, probe, select};

#[probe(args(n))]
#[inline(never)]
fn inner(n: u64) -> u64 {
    std::hint::black_box(n) + 1
}

#[probe]
#[inline(never)]
fn outer(n: u64) -> u64 {
    probe!("between");
    inner(n)
}

const PROBES: &str = "consumers::in_thread::**";
const THREADS: usize = 4;

/// Runs `scenario` on several threads at once, each with a number of its own, beside threads that
/// hit all the time.
fn beside_others(scenario: impl Fn(u64) + Sync) {
    let (ended, begin) = (AtomicBool::new(false), Barrier::new(THREADS));
    thread::scope(|scope| {
        let noise = scope.spawn(|| {
            while !ended.load(Relaxed) {
                outer(0);
            }
        });
        let run = |n| {
            begin.wait();
            scenario(n);
        };
        let threads: Vec<_> = (1..).take(THREADS).map(|n| scope.spawn(move || run(n))).collect();
        let results: Vec<_> = threads.into_iter().map(thread::ScopedJoinHandle::join).collect();
        ended.store(true, Relaxed);
        noise.join().unwrap();
        results.into_iter().for_each(|result| result.unwrap());
    });
}

#[test]
fn each_thread_counts_its_own_calls() {
    beside_others(|n| {
        let set = select(PROBES).unwrap();
        let mine = set.attach_in_thread(Count::new()).unwrap();
        for round in 1..=100 {
            (0..n).for_each(|at| _ = outer(at));
            // The entry and the exit of two functions, and a point.
            assert_eq!(mine.total(), round * n * 5);
        }
        mine.reset();
        outer(n);
        assert_eq!(mine.counts().iter().map(|count| count.hits).collect::<Vec<_>>(), [1; 5]);
    });
}

#[test]
fn each_consumer_has_the_calls_of_its_thread() {
    beside_others(|n| {
        let set = select(PROBES).unwrap();
        let latency = set.attach_in_thread(Latency::new()).unwrap();
        let tree = set.attach_in_thread(CallTree::new()).unwrap();
        let sums = select("consumers::in_thread::inner kind=entry").unwrap();
        let sums = sums.attach_in_thread(Aggregate::new("sum(n) by(n)").unwrap()).unwrap();
        let seen = set.attach_in_thread(Seen::default()).unwrap();
        (0..10 * n).for_each(|_| _ = outer(n));
        let latencies = latency.latencies();
        assert_eq!(latencies.iter().map(FunctionLatency::calls).collect::<Vec<_>>(), [10 * n; 2]);
        assert!(latencies.iter().all(|it| it.unpaired() == Unpaired::default()), "{latencies}");
        let tree = tree.tree();
        assert_eq!(
            tree.iter().map(|node| (node.depth(), node.calls())).collect::<Vec<_>>(),
            [(0, 10 * n), (1, 10 * n)]
        );
        let groups = sums.groups();
        assert_eq!((groups.len(), groups[0].sum()), (1, (10 * n * n) as f64));
        let seen = seen.0.lock().unwrap();
        assert_eq!(seen.len() as u64, 10 * n * 5);
        assert!(seen.iter().all(|thread| *thread == seen[0]));
    });
}

/// The thread of each hit.
#[derive(Default)]
struct Seen(Mutex<Vec<u64>>);

impl probe_runtime::Consumer for Seen {
    fn hit(&self, event: &Event<'_>) {
        self.0.lock().unwrap().push(event.thread());
    }
}

#[test]
fn a_consumer_that_counts_most_calls_unseen_is_refused() {
    let set = select(PROBES).unwrap();
    let error = set.attach_in_thread(Profiler::default()).unwrap_err();
    assert!(matches!(&error, Error::Consumer(_)), "{error:?}");
    assert!(error.to_string().contains("it can't be attached for one thread"), "{error}");
}

#[test]
fn an_attachment_that_moves_to_another_thread_stays_with_its_own() {
    let set = select("consumers::in_thread::outer kind=entry").unwrap();
    let mine = set.attach_in_thread(Count::new()).unwrap();
    outer(1);
    let mine = thread::spawn(move || {
        outer(2);
        mine
    });
    let mine = mine.join().unwrap();
    outer(3);
    assert_eq!(mine.total(), 2);
}
