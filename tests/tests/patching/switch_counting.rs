//! `Switch::count` and `deliver`: hits of one attachment counted by the runtime, or delivered,
//! changed in place. Each hit is one of the two, whatever is attached besides, and whatever threads
//! are doing.
//! A process of its own: it counts all hits of its probes.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;

use probe_runtime::consumer::DeliveryMode;
use probe_runtime::control::Switch;
use probe_runtime::patch::{TextPolicy, Visibility};
use probe_runtime::registry::ProbeId;
use probe_runtime::{Attachment, Consumer, Count, Event, point, select};

#[inline(never)]
fn work(x: u64) -> u64 {
    point!("work");
    x + 1
}

#[inline(never)]
fn other(x: u64) -> u64 {
    point!("other");
    x + 1
}

#[inline(never)]
fn crowded(x: u64) -> u64 {
    point!("crowded");
    x + 1
}

#[inline(never)]
fn inner(x: u64) -> u64 {
    point!("inner");
    x + 1
}

fn id(name: &str) -> ProbeId {
    select(&format!("patching::switch_counting::{name}")).unwrap().ids()[0]
}

fn counted(switch: &Switch, probe: ProbeId) -> u64 {
    switch.counted(&[probe])[0]
}

/// Counts the hits that are delivered to it. Its mode is `Switchable`, unless `only_hits`. It hits
/// a probe itself if `has_inner`.
#[derive(Default)]
struct Delivered {
    hits: AtomicU64,
    only_hits: bool,
    has_inner: bool,
    in_order: bool,
}

impl Consumer for Delivered {
    fn delivery_mode(&self) -> DeliveryMode {
        if self.only_hits { DeliveryMode::Delivered } else { DeliveryMode::Switchable }
    }

    fn needs_order(&self) -> bool {
        self.in_order
    }

    fn hit(&self, _event: &Event<'_>) {
        self.hits.fetch_add(1, Relaxed);
        if self.has_inner {
            inner(1);
        }
    }
}

impl Delivered {
    fn attached(self, name: &str) -> (Attachment<Self>, Switch, ProbeId) {
        let set =
            select(&format!("patching::switch_counting::{name}")).unwrap().text_policy(TextPolicy::Open);
        let attached = set.attach(self).unwrap();
        let switch = attached.switch();
        (attached, switch, id(name))
    }

    fn hits(&self) -> u64 {
        self.hits.load(Relaxed)
    }
}

#[test]
fn a_hit_is_counted_or_delivered() {
    let (delivered, switch, probe) = Delivered::default().attached("work");
    let run = |calls: u64| assert_eq!((0..calls).fold(0, |x, _| work(x)), calls);
    run(3);
    assert_eq!((delivered.hits(), counted(&switch, probe)), (3, 0));
    switch.count(&[probe, id("other")]);
    run(5);
    assert_eq!((delivered.hits(), counted(&switch, probe)), (3, 5));
    // A change of sites changes nothing about it.
    delivered.pause();
    run(1);
    delivered.resume();
    switch.off(&[probe], Visibility::Synchronous);
    run(1);
    switch.on(&[probe], Visibility::Synchronous);
    run(7);
    assert_eq!((delivered.hits(), counted(&switch, probe)), (3, 12));
    switch.deliver(&[probe]);
    run(2);
    assert_eq!((delivered.hits(), counted(&switch, probe), delivered.suppressed()), (5, 12, 0));
    let counts = delivered.counts();
    assert_eq!((counts.iter().count(), counts.total()), (1, 12), "{counts}");
    assert_eq!(counted(&switch, id("other")), 0, "not one of its probes");
    drop(delivered);
    assert_eq!(counted(&switch, probe), 0, "gone");
    switch.count(&[probe]);
}

#[test]
fn others_are_not_disturbed() {
    let (one, of_one, probe) = Delivered::default().attached("crowded");
    let run = || (0..10).fold(0, |x, _| crowded(x));
    of_one.count(&[probe]);
    run();
    let count = select("patching::switch_counting::crowded").unwrap().attach(Count::new()).unwrap();
    let (two, of_two, _) = Delivered { in_order: true, ..Delivered::default() }.attached("crowded");
    // The new hooks know that it counts.
    run();
    of_two.count(&[probe]);
    of_one.deliver(&[probe]);
    run();
    assert_eq!((one.hits(), counted(&of_one, probe)), (10, 20));
    assert_eq!((two.hits(), counted(&of_two, probe), count.total()), (10, 10, 20));
    drop(two);
    drop(count);
    run();
    assert_eq!((one.hits(), counted(&of_one, probe)), (20, 20));
}

#[test]
fn who_wants_hits_has_them() {
    let hits = Delivered { only_hits: true, ..Delivered::default() };
    let (hits, switch, probe) = hits.attached("other");
    switch.count(&[probe]);
    (0..4).fold(0, |x, _| other(x));
    assert_eq!((hits.hits(), counted(&switch, probe), hits.counts().total()), (4, 0, 0));
    let count = select("patching::switch_counting::other").unwrap().attach(Count::new()).unwrap();
    count.switch().deliver(&[probe]);
    other(0);
    assert_eq!((count.total(), counted(&count.switch(), probe)), (1, 1));
}

/// Makes a hit, whose consumer makes a hit of `inner`.
#[inline(never)]
fn outer(x: u64) -> u64 {
    point!("outer");
    x + 1
}

#[test]
fn inside_of_a_consumer_hits_are_counted_too() {
    let (of_inner, switch, probe) = Delivered::default().attached("inner");
    let (of_outer, ..) = Delivered { has_inner: true, ..Delivered::default() }.attached("outer");
    outer(1);
    assert_eq!((of_outer.hits(), of_inner.hits(), of_inner.suppressed()), (1, 0, 1));
    switch.count(&[probe]);
    outer(1);
    assert_eq!((of_inner.hits(), of_inner.suppressed(), counted(&switch, probe)), (0, 1, 1));
}

#[inline(never)]
fn shared(x: u64) -> u64 {
    point!("shared");
    x + 1
}

#[test]
fn no_hit_is_missed_while_threads_run() {
    const THREADS: u64 = 4;
    let (delivered, switch, probe) = Delivered { in_order: true, ..Delivered::default() }.attached("shared");
    let (is_over, set) = (AtomicBool::new(false), select("patching::switch_counting::shared").unwrap());
    let calls: u64 = thread::scope(|scope| {
        let worker = || {
            let mut calls = 0;
            while !is_over.load(Relaxed) {
                calls = shared(calls);
            }
            calls
        };
        let workers: Vec<_> = (0..THREADS).map(|_| scope.spawn(worker)).collect();
        // Each way continues until hits are seen to go it; all the while, somebody else comes and
        // goes, so that hooks are published anew.
        for _ in 0..100 {
            let (hits, tally) = (delivered.hits(), counted(&switch, probe));
            while delivered.hits() == hits {
                thread::yield_now();
            }
            switch.count(&[probe]);
            let count = set.attach(Count::new()).unwrap();
            while counted(&switch, probe) == tally {
                thread::yield_now();
            }
            switch.deliver(&[probe]);
            drop(count);
        }
        is_over.store(true, Relaxed);
        workers.into_iter().map(|worker| worker.join().unwrap()).sum()
    });
    assert_eq!(delivered.hits() + counted(&switch, probe), calls);
}
