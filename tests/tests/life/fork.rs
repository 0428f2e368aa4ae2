//! A fork while probes are active and other threads are inside of consumers: the child continues
//! counting, detaches without waiting for threads that it does not have, waits for those that it
//! has, and the parent notices nothing. A process of its own: it forks, which is no good beside
//! other tests' threads.
#![cfg(not(probe_portable))]

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::Duration;

use probe_runtime::aggregate::{Group, Groups};
use probe_runtime::registry::ProbeState;
use probe_runtime::{Aggregate, Attachment, Consumer, Count, Event, Latency, point, select};
use probe_tests::scenario::in_a_child;
use probe_tests::stops::Stops;
use probe_tests::text::Text;
use probe_tests::waiting::Waiting;

#[inline(never)]
fn work(x: u64) -> u64 {
    point!("work");
    x + 1
}

#[inline(never)]
fn blocked(x: u64) -> u64 {
    point!("blocked");
    x + 1
}

mod called {
    #[probe_runtime::probe]
    #[inline(never)]
    pub fn timed() {}
}

/// Stays inside its hit until it is told to leave.
struct Blocks {
    inside: Arc<Barrier>,
    leave: Arc<AtomicBool>,
    calls: AtomicU64,
}

impl Consumer for Blocks {
    fn hit(&self, _event: &Event<'_>) {
        self.calls.fetch_add(1, Ordering::Relaxed);
        self.inside.wait();
        while !self.leave.load(Ordering::Relaxed) {
            thread::sleep(Duration::from_millis(1));
        }
    }
}

/// Stays inside its hit until its detach waits, and notices when it is freed meanwhile.
struct Slow {
    inside: Arc<Barrier>,
    detach: Arc<Waiting>,
    freed: Arc<AtomicBool>,
    freed_inside: Arc<AtomicBool>,
}

impl Consumer for Slow {
    fn hit(&self, _event: &Event<'_>) {
        let (freed, freed_inside) = (Arc::clone(&self.freed), Arc::clone(&self.freed_inside));
        self.inside.wait();
        Arc::clone(&self.detach).until_it_waits();
        freed_inside.store(freed.load(Ordering::SeqCst), Ordering::SeqCst);
    }
}

impl Drop for Slow {
    fn drop(&mut self) {
        self.freed.store(true, Ordering::SeqCst);
    }
}

/// The child's own threads are waited for, the forked one too, though its number has changed.
fn a_detach_waits_in_the_child() {
    let inside = Arc::new(Barrier::new(2));
    let (freed, freed_inside) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let detach = Arc::new(Waiting::default());
    let slow = Slow {
        inside: Arc::clone(&inside),
        detach: Arc::clone(&detach),
        freed: Arc::clone(&freed),
        freed_inside: Arc::clone(&freed_inside),
    };
    let attached = select("life::fork::work").unwrap().attach(slow).unwrap();
    let detacher = thread::spawn(move || {
        inside.wait();
        detach.run(|| drop(attached));
    });
    assert_eq!(work(1), 2);
    detacher.join().unwrap();
    assert!(freed.load(Ordering::SeqCst));
    assert!(!freed_inside.load(Ordering::SeqCst), "freed while the forked thread was inside");
}

fn child(tally: Attachment<Count>, blocks: Attachment<Blocks>) {
    // Counts from before the fork stay, and counting continues.
    assert_eq!(tally.total(), 3);
    for _ in 0..4 {
        work(1);
    }
    assert_eq!(tally.total(), 7);
    // New threads count too.
    thread::spawn(|| work(1)).join().unwrap();
    assert_eq!(tally.total(), 8);
    // The thread that is inside this consumer exists in the parent only.
    drop(blocks);
    drop(tally);
    assert!(probe_runtime::probes().iter().all(|probe| probe.state() == ProbeState::Latent));
    Text::of_this_process().assert_as_in_file();
    a_detach_waits_in_the_child();
    let again = select("life::fork::*").unwrap().attach(Count::new()).unwrap();
    assert_eq!((work(1), blocked(1)), (2, 2));
    assert_eq!(again.total(), 2);
    // A child's child.
    let status = in_a_child(|| {
        work(1);
        assert_eq!(again.total(), 3);
    });
    assert_eq!(status, 0);
    assert_eq!(again.total(), 2);
}

#[test]
fn the_child_goes_on_and_the_parent_notices_nothing() {
    let (inside, leave) = (Arc::new(Barrier::new(2)), Arc::new(AtomicBool::new(false)));
    let blocks = Blocks { inside: Arc::clone(&inside), leave: Arc::clone(&leave), calls: AtomicU64::new(0) };
    let blocks = select("life::fork::blocked").unwrap().attach(blocks).unwrap();
    let tally = select("life::fork::work").unwrap().attach(Count::new()).unwrap();
    for _ in 0..3 {
        work(1);
    }
    let worker = thread::spawn(|| blocked(1));
    inside.wait();

    // The child gets copies of the attachments, in its own memory.
    let (mut tally, mut blocks) = (Some(tally), Some(blocks));
    let status = in_a_child(|| child(tally.take().unwrap(), blocks.take().unwrap()));
    leave.store(true, Ordering::Relaxed);
    assert_eq!(status, 0, "what the child's assertion says is on stderr");
    let (tally, blocks) = (tally.take().unwrap(), blocks.take().unwrap());

    assert_eq!(tally.total(), 3, "the child's hits are its own");
    work(1);
    assert_eq!(tally.total(), 4);
    assert_eq!(tally.probes()[0].state(), ProbeState::Active);
    assert_eq!(worker.join().unwrap(), 2);
    assert_eq!(blocks.calls.load(Ordering::Relaxed), 1);
    assert_eq!(blocks.detach().patched(), 1);

    forks_while_others_toggle(&tally);
    forks_while_others_reset();
    assert_eq!(tally.detach().patched(), 1);
    Text::of_this_process().assert_as_in_file();
}

/// Forks in the middle of other threads' operations and hits.
fn forks_while_others_toggle(tally: &Attachment<Count>) {
    let stop = AtomicBool::new(false);
    let before = tally.total();
    thread::scope(|scope| {
        let stops = Stops(&stop);
        let toggler = scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                drop(select("life::fork::*").unwrap().attach(Count::new()).unwrap());
            }
        });
        let worker = scope.spawn(|| {
            let mut calls = 0_u64;
            while !stop.load(Ordering::Relaxed) {
                work(1);
                calls += 1;
            }
            calls
        });
        for _ in 0..50 {
            let status = in_a_child(|| {
                let hits = select("life::fork::*").unwrap().attach(Count::new()).unwrap();
                assert_eq!((work(1), blocked(1)), (2, 2));
                assert_eq!(hits.total(), 2);
                drop(hits);
            });
            assert_eq!(status, 0);
        }
        drop(stops);
        toggler.join().unwrap();
        // First the worker's end: its last hit may be on its way.
        let calls = worker.join().unwrap();
        assert_eq!(tally.total() - before, calls);
    });
}

/// Forks in the middle of other threads' resets: the child finds their baselines whole, and waits
/// for no thread.
fn forks_while_others_reset() {
    let hits = select("life::fork::work").unwrap().attach(Count::new()).unwrap();
    let latency = select("life::fork::called::timed").unwrap().attach(Latency::new()).unwrap();
    let calls = Aggregate::new("count by(thread)").unwrap();
    let calls = select("life::fork::called::timed kind=entry").unwrap().attach(calls).unwrap();
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let stops = Stops(&stop);
        let resetter = scope.spawn(|| {
            let (mut told, mut timed, mut counted) = (0, 0, 0);
            while !stop.load(Ordering::Relaxed) {
                told += hits.reset().total();
                timed += latency.reset()[0].calls();
                counted += count(&calls.reset());
            }
            (told, timed, counted)
        });
        let worker = scope.spawn(|| {
            let mut calls = 0_u64;
            while !stop.load(Ordering::Relaxed) {
                work(1);
                called::timed();
                calls += 1;
            }
            calls
        });
        for _ in 0..50 {
            let status = in_a_child(|| {
                let _ = (hits.reset(), latency.reset(), calls.reset());
                work(1);
                called::timed();
                assert_eq!((hits.total(), latency.latencies()[0].calls()), (1, 1));
                assert_eq!(count(&calls.groups()), 1);
                assert_eq!((hits.reset().total(), hits.reset().total()), (1, 0));
            });
            assert_eq!(status, 0);
        }
        drop(stops);
        let (made, (told, timed, counted)) = (worker.join().unwrap(), resetter.join().unwrap());
        assert_eq!((told + hits.total(), timed + latency.latencies()[0].calls()), (made, made));
        assert_eq!(counted + count(&calls.groups()), made);
    });
}

/// Returns the number of calls in all groups.
fn count(groups: &Groups) -> u64 {
    groups.iter().map(Group::count).sum()
}
