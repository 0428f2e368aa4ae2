//! Consumers that misbehave: one that panics, one that hits probes itself, one that detaches
//! itself, two that are slow while somebody leaves. The program continues, nothing hangs, and
//! nobody else loses a hit. A process of its own: an operation frees what an earlier one left, so
//! the tests take turns.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Barrier, Mutex};
use std::thread;

use probe_runtime::registry::ProbeState;
use probe_runtime::{Attachment, Consumer, Count, Event, probe, select};
use probe_tests::turn::turn;
use probe_tests::waiting::Waiting;

#[probe]
#[inline(never)]
fn work(x: u64) -> u64 {
    x + 1
}

#[probe]
#[inline(never)]
fn inner(x: u64) -> u64 {
    x * 2
}

fn state(selector: &str) -> ProbeState {
    select(selector).unwrap().probes()[0].state()
}

/// Counts its calls; panics at the third.
#[derive(Default)]
struct Panics(AtomicU64);

impl Consumer for Panics {
    fn hit(&self, _event: &Event<'_>) {
        let calls = self.0.fetch_add(1, Ordering::Relaxed) + 1;
        assert!(calls < 3, "call {calls} is one too many");
    }
}

#[test]
fn a_panic_is_contained_and_detaches() {
    let _turn = turn();
    let set = select("consumers::consumer_faults::**::work kind=entry").unwrap();
    let bad = set.attach(Panics::default()).unwrap();
    assert_eq!(bad.failure(), None);
    for x in 0..10 {
        assert_eq!(work(x), x + 1);
    }
    assert_eq!(bad.0.load(Ordering::Relaxed), 3);
    let failure = "panicked at consumers::consumer_faults::work (entry): call 3 is one too many";
    assert_eq!(bad.failure(), Some(failure));
    assert_ne!(state("consumers::consumer_faults::**::work kind=entry"), ProbeState::Active);
    #[cfg(not(probe_portable))]
    probe_tests::text::Text::of_this_process().assert_as_in_file();
    assert_eq!(bad.resume().patched(), 0);
    work(0);
    assert_eq!(bad.0.load(Ordering::Relaxed), 3);
    assert_eq!(bad.detach().patched(), 0);
    assert_eq!(state("consumers::consumer_faults::**::work kind=entry"), ProbeState::Latent);
}

#[test]
fn a_panic_leaves_the_other_consumers_alone() {
    let _turn = turn();
    let set = select("consumers::consumer_faults::**::work").unwrap();
    let before = set.attach(Count::new()).unwrap();
    let bad = set.attach(Panics::default()).unwrap();
    let after = set.attach(Count::new()).unwrap();
    for x in 0..10 {
        assert_eq!(work(x), x + 1);
    }
    assert_eq!((before.total(), after.total()), (20, 20));
    assert_eq!(bad.0.load(Ordering::Relaxed), 3);
    assert!(bad.failure().unwrap().ends_with("call 3 is one too many"));
    assert_eq!(state("consumers::consumer_faults::**::work kind=entry"), ProbeState::Active);
    drop(bad);
    work(0);
    assert_eq!((before.total(), after.total()), (22, 22));
}

/// Panics at exits only, with a payload that is not text.
struct PanicsAtExit;

impl Consumer for PanicsAtExit {
    fn hit(&self, event: &Event<'_>) {
        assert!(event.is_unwinding());
        std::panic::panic_any(7_u8);
    }
}

#[probe]
#[inline(never)]
fn unwinding() {
    panic!("the program's own");
}

#[test]
fn a_panic_while_the_program_unwinds_is_contained_too() {
    let _turn = turn();
    let bad =
        select("consumers::consumer_faults::**::unwinding kind=exit").unwrap().attach(PanicsAtExit).unwrap();
    let payload = catch_unwind(AssertUnwindSafe(unwinding)).unwrap_err();
    assert_eq!(payload.downcast_ref(), Some(&"the program's own"));
    let failure = "panicked at consumers::consumer_faults::unwinding (exit): a payload that is not text";
    assert_eq!(bad.failure(), Some(failure));
    assert!(!thread::panicking());
}

/// Hits probes from inside: its own and another.
struct Recursive(AtomicU64);

impl Consumer for Recursive {
    fn hit(&self, _event: &Event<'_>) {
        self.0.fetch_add(1, Ordering::Relaxed);
        assert_eq!(work(1), 2);
        assert_eq!(inner(2), 4);
    }
}

#[test]
fn its_own_hits_do_not_recurse() {
    let _turn = turn();
    let recursive =
        select("consumers::consumer_faults::**::work").unwrap().attach(Recursive(AtomicU64::new(0))).unwrap();
    let other = select("consumers::consumer_faults::**::inner")
        .unwrap()
        .attach(Recursive(AtomicU64::new(0)))
        .unwrap();
    let tally = select("consumers::consumer_faults::**::work, consumers::consumer_faults::**::inner")
        .unwrap()
        .attach(Count::new())
        .unwrap();
    for _ in 0..5 {
        work(1);
    }
    // 5 calls, entry and exit each: 10 deliveries, each of which makes two suppressed hits of
    // either function.
    assert_eq!(recursive.0.load(Ordering::Relaxed), 10);
    assert_eq!(recursive.suppressed(), 20);
    assert_eq!(other.0.load(Ordering::Relaxed), 0);
    assert_eq!(other.suppressed(), 20);
    let counts: Vec<_> = tally.counts().iter().map(|count| count.hits).collect();
    assert_eq!(counts, [10, 10, 15, 15], "a tally is never suppressed");
}

/// Owns its attachment, and drops it at the first hit.
struct Leaves {
    own: Arc<Mutex<Option<Attachment<Self>>>>,
    calls: Arc<AtomicU64>,
    freed: Arc<AtomicBool>,
}

impl Consumer for Leaves {
    fn hit(&self, _event: &Event<'_>) {
        self.calls.fetch_add(1, Ordering::Relaxed);
        drop(self.own.lock().unwrap().take());
        assert!(!self.freed.load(Ordering::Relaxed), "still inside");
    }
}

impl Drop for Leaves {
    fn drop(&mut self) {
        self.freed.store(true, Ordering::Relaxed);
    }
}

#[test]
fn a_consumer_may_detach_itself() {
    let _turn = turn();
    let (own, calls, freed) = (Arc::default(), Arc::default(), Arc::default());
    let consumer = Leaves { own: Arc::clone(&own), calls: Arc::clone(&calls), freed: Arc::clone(&freed) };
    let set = select("consumers::consumer_faults::**::work").unwrap();
    *own.lock().unwrap() = Some(set.attach(consumer).unwrap());
    assert_eq!(work(1), 2);
    assert_eq!(calls.load(Ordering::Relaxed), 1, "detached at the entry");
    assert_eq!(state("consumers::consumer_faults::**::work kind=exit"), ProbeState::Latent);
    assert_eq!(work(1), 2);
    assert_eq!(calls.load(Ordering::Relaxed), 1);
    assert!(!freed.load(Ordering::Relaxed), "nothing was done since");
    drop(set.attach(Count::new()).unwrap());
    assert!(freed.load(Ordering::Relaxed));
}

/// Stays inside its hits until a detach waits or is over, and notices if it is freed meanwhile.
struct Slow {
    gate: Option<Arc<Barrier>>,
    detach: Arc<Waiting>,
    calls: Arc<AtomicU64>,
    freed: Arc<AtomicBool>,
    freed_inside: Arc<AtomicBool>,
}

impl Slow {
    fn new(gate: Option<Arc<Barrier>>, detach: &Arc<Waiting>) -> Self {
        let detach = Arc::clone(detach);
        Self { gate, detach, calls: Arc::default(), freed: Arc::default(), freed_inside: Arc::default() }
    }
}

impl Consumer for Slow {
    fn hit(&self, _event: &Event<'_>) {
        // Data that the test reads later must outlive the consumer, even if that is freed early.
        let (freed, freed_inside) = (Arc::clone(&self.freed), Arc::clone(&self.freed_inside));
        self.calls.fetch_add(1, Ordering::Relaxed);
        let detach = Arc::clone(&self.detach);
        if let Some(gate) = self.gate.clone() {
            gate.wait();
        }
        detach.until_it_waits();
        freed_inside.fetch_or(freed.load(Ordering::SeqCst), Ordering::SeqCst);
    }
}

impl Drop for Slow {
    fn drop(&mut self) {
        self.freed.store(true, Ordering::SeqCst);
    }
}

#[test]
fn a_detach_waits_for_a_consumer() {
    let _turn = turn();
    let gate = Arc::new(Barrier::new(2));
    let detach = Arc::new(Waiting::default());
    let slow = Slow::new(Some(Arc::clone(&gate)), &detach);
    let (calls, freed, inside) =
        (Arc::clone(&slow.calls), Arc::clone(&slow.freed), Arc::clone(&slow.freed_inside));
    let attached = select("consumers::consumer_faults::**::work kind=entry").unwrap().attach(slow).unwrap();
    thread::scope(|scope| {
        scope.spawn(|| work(1));
        gate.wait();
        detach.run(|| drop(attached));
        assert!(freed.load(Ordering::SeqCst));
    });
    assert_eq!(calls.load(Ordering::SeqCst), 1);
    assert!(!inside.load(Ordering::SeqCst));
}

/// The hit has left the first consumer, and is yet to be in the second, when the second leaves.
#[test]
fn a_detach_waits_for_the_whole_hit() {
    let _turn = turn();
    let gate = Arc::new(Barrier::new(2));
    let set = select("consumers::consumer_faults::**::work kind=entry").unwrap();
    let detach = Arc::new(Waiting::default());
    let first = set.attach(Slow::new(Some(Arc::clone(&gate)), &detach)).unwrap();
    let slow = Slow::new(None, &detach);
    let (freed, inside) = (Arc::clone(&slow.freed), Arc::clone(&slow.freed_inside));
    let second = set.attach(slow).unwrap();
    thread::scope(|scope| {
        let worker = scope.spawn(|| work(1));
        gate.wait();
        detach.run(|| drop(second));
        assert!(freed.load(Ordering::SeqCst));
        assert_eq!(worker.join().unwrap(), 2);
    });
    assert!(!inside.load(Ordering::SeqCst), "freed while a thread was inside it");
    assert_eq!(first.calls.load(Ordering::SeqCst), 1);
}
