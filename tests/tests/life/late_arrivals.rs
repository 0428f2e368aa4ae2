//! Threads that are on their way into a hit (they evaluate a field) while their probe is paused or
//! detached: after a pause that one hit is still counted, and delivered where the pause has waited
//! for nobody; else, and after a detach, the consumer is called no more.
//! A process of its own: its one probe is entered by one thread at a time, step by step.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use probe_runtime::patch::Visibility;
use probe_runtime::{Consumer, Count, Event, point, select};
// The tests share the probe.
use probe_tests::turn::turn;

/// A field that tells that it is being evaluated, and waits.
struct Field {
    began: Sender<()>,
    goes_on: Receiver<()>,
}

impl Field {
    fn value(&self) -> u32 {
        self.began.send(()).unwrap();
        self.goes_on.recv().unwrap();
        7
    }
}

#[inline(never)]
fn work(field: &Field) -> u32 {
    point!("on-the-way", value = field.value());
    1
}

#[derive(Default)]
struct Calls(AtomicU64);

impl Consumer for Calls {
    fn hit(&self, _event: &Event<'_>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// Runs `change` while a thread evaluates the field; the thread continues after it.
fn meanwhile<T>(change: impl FnOnce() -> T) -> T {
    let (began, has_begun) = channel();
    let (go_on, goes_on) = channel();
    // `go_on` ends with the closure, also by a panic, so that the worker never waits in vain.
    thread::scope(move |scope| {
        let worker = scope.spawn(move || {
            point!("before");
            work(&Field { began, goes_on })
        });
        has_begun.recv().unwrap();
        let result = change();
        go_on.send(()).unwrap();
        assert_eq!(worker.join().unwrap(), 1);
        result
    })
}

#[test]
fn a_hit_on_its_way_outlives_a_pause() {
    let _turn = turn();
    let hits = select("life::late_arrivals::**::on-the-way").unwrap().attach(Count::new()).unwrap();
    meanwhile(|| ());
    assert_eq!(hits.total(), 1);
    meanwhile(|| assert_eq!(hits.pause().patched(), 1));
    // Where the hook is the switch, it is read after the fields are evaluated.
    let late = u64::from(cfg!(not(probe_portable)));
    assert_eq!(hits.total(), 1 + late, "it had passed the site before the pause");
    let (go_on, goes_on) = channel();
    let (began, _has_begun) = channel();
    go_on.send(()).unwrap();
    assert_eq!(work(&Field { began, goes_on }), 1);
    assert_eq!(hits.total(), 1 + late, "no call that starts after the pause is a hit");
    assert_eq!(hits.resume().patched(), 1);
    meanwhile(|| ());
    assert_eq!(hits.total(), 2 + late);
}

/// Not its first hit, so that it takes the short way.
#[test]
fn a_thread_that_has_hit_before_counts_it_too() {
    let _turn = turn();
    let before = select("life::late_arrivals::**::before").unwrap().attach(Count::new()).unwrap();
    let hits = select("life::late_arrivals::**::on-the-way").unwrap().attach(Count::new()).unwrap();
    meanwhile(|| assert_eq!(hits.pause().patched(), 1));
    assert_eq!((before.total(), hits.total()), (1, u64::from(cfg!(not(probe_portable)))));
}

/// Data that the consumer uses may be freed after a waiting pause has returned.
#[test]
fn a_consumer_is_called_after_no_pause_that_waits() {
    let _turn = turn();
    for (visibility, late) in
        [(Visibility::Synchronous, 0), (Visibility::Eventual, u64::from(cfg!(not(probe_portable))))]
    {
        for has_hit_before in [false, true] {
            let before = has_hit_before
                .then(|| select("life::late_arrivals::**::before").unwrap().attach(Count::new()).unwrap());
            let set = select("life::late_arrivals::**::on-the-way").unwrap().visibility(visibility);
            let calls = set.attach(Calls::default()).unwrap();
            let heard = || calls.0.load(Ordering::Relaxed);
            meanwhile(|| assert_eq!(calls.pause().patched(), 1));
            assert_eq!(heard(), late, "{visibility:?}, {has_hit_before}");
            calls.resume();
            meanwhile(|| ());
            assert_eq!(heard(), late + 1, "{visibility:?}, {has_hit_before}");
            drop(before);
        }
    }
}

#[test]
fn nobody_is_called_after_a_detach() {
    let _turn = turn();
    let set = select("life::late_arrivals::**::on-the-way").unwrap();
    let (stays, leaves) = (set.attach(Calls::default()).unwrap(), set.attach(Count::new()).unwrap());
    meanwhile(|| drop(leaves));
    assert_eq!(stays.0.load(Ordering::Relaxed), 1);
    meanwhile(|| drop(stays));
}

/// Attached on the way: the hook is there before the site is active, so the hit is theirs too.
#[test]
fn who_comes_in_between_gets_the_hit() {
    let _turn = turn();
    let set = select("life::late_arrivals::**::on-the-way").unwrap();
    let first = set.attach(Count::new()).unwrap();
    let second = meanwhile(|| set.attach(Count::new()).unwrap());
    assert_eq!((first.total(), second.total()), (1, 1));
}
