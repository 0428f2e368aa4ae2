//! Several attachments count hits of the same probes. Each has its own counts, while others attach,
//! detach, pause, are switched, or have the same hits delivered.
//! A process of its own: it counts all hits of its probes.

mod model;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Barrier};
use std::thread;

use probe_runtime::consumer::DeliveryMode;
use probe_runtime::patch::Visibility;
use probe_runtime::{Consumer, Count, Event, point, select};

#[inline(never)]
fn crowded(x: u64) -> u64 {
    point!("crowded");
    x + 1
}

#[test]
fn one_of_several_is_paused_meanwhile() {
    let _turn = probe_tests::turn::turn();
    let set = select("consumers::counting::crowded").unwrap();
    let work = |calls: u64| assert_eq!((0..calls).fold(0, |x, _| crowded(x)), calls);
    let first = set.attach(Count::new()).unwrap();
    work(3);
    let second = set.attach(Count::new()).unwrap();
    work(5);
    second.pause();
    work(7);
    assert_eq!((first.total(), second.total()), (15, 5));
    second.resume();
    work(11);
    assert_eq!((first.total(), second.total()), (26, 16));
    first.pause();
    work(13);
    // The attachment is alone then, and does not receive the other's counts.
    drop(second);
    work(17);
    assert_eq!(first.total(), 26);
    first.resume();
    work(19);
    assert_eq!(first.total(), 45);
    let third = set.attach(Count::new()).unwrap();
    first.switch().off(set.ids(), Visibility::Synchronous);
    work(23);
    drop(third);
    first.switch().on(set.ids(), Visibility::Synchronous);
    work(29);
    assert_eq!(first.total(), 74);
}

#[inline(never)]
fn shared(x: u64) -> u64 {
    point!("shared");
    x + 1
}

const THREADS: u64 = 3;

/// One attachment has all hits; one has those of the phases in which it is not paused; one has each
/// hit once, counted or delivered. Others attach and detach.
#[test]
fn each_has_its_own_while_threads_run() {
    const PHASES: u64 = 40;
    const CALLS: u64 = 2_000;
    let _turn = probe_tests::turn::turn();
    let set = select("consumers::counting::shared").unwrap();
    let probe = set.ids()[0];
    let all = set.attach(Count::new()).unwrap();
    let at_times = set.attach(Count::new()).unwrap();
    let told = Arc::new(AtomicU64::new(0));
    let either = {
        let told = Arc::clone(&told);
        set.attach(SwitchableCount(told)).unwrap()
    };
    let switch = either.switch();
    let [begin, end] = [(); 2].map(|()| Barrier::new(1 + usize::try_from(THREADS).unwrap()));
    let running = AtomicU64::new(0);
    let (mut expected, mut said, mut due) = (0, Vec::new(), Vec::new());
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                for _ in 0..PHASES {
                    begin.wait();
                    assert_eq!((0..CALLS).fold(0, |x, _| shared(x)), CALLS);
                    running.fetch_sub(1, Relaxed);
                    end.wait();
                }
            });
        }
        for phase in 0..PHASES {
            let is_paused = phase % 3 == 1;
            if is_paused {
                at_times.pause()
            } else {
                at_times.resume()
            };
            running.store(THREADS, Relaxed);
            begin.wait();
            // At least once, even if the threads have already finished.
            loop {
                switch.count(&[probe]);
                let guest = set.attach(Count::new()).unwrap();
                switch.deliver(&[probe]);
                guest.pause();
                let paused = guest.total();
                switch.count(&[probe]);
                let other = set.attach(Count::new()).unwrap();
                said.push((guest.total(), 0));
                due.push((paused, 0));
                guest.resume();
                switch.deliver(&[probe]);
                drop(guest);
                drop(other);
                if phase % 2 == 0 {
                    switch.count(&[probe]);
                }
                if running.load(Relaxed) == 0 {
                    break;
                }
            }
            end.wait();
            expected += if is_paused { 0 } else { THREADS * CALLS };
            said.push((all.total(), at_times.total()));
            due.push(((phase + 1) * THREADS * CALLS, expected));
        }
    });
    // Not inside of the scope: after a panic, the threads would wait for ever at the barrier.
    assert_eq!(said, due);
    assert_eq!(told.load(Relaxed) + switch.counted(&[probe])[0], PHASES * THREADS * CALLS);
}

/// Counts delivered hits.
struct SwitchableCount(Arc<AtomicU64>);

impl Consumer for SwitchableCount {
    fn delivery_mode(&self) -> DeliveryMode {
        DeliveryMode::Switchable
    }

    fn hit(&self, _event: &Event<'_>) {
        self.0.fetch_add(1, Relaxed);
    }
}

#[inline(never)]
fn hurried(x: u64) -> u64 {
    point!("hurried");
    x + 1
}

/// Attachments that exist for a part of the calls count no more than the calls meanwhile, and no
/// fewer than the calls while they were surely attached.
#[test]
fn who_comes_while_threads_run_has_what_comes_after() {
    let _turn = probe_tests::turn::turn();
    let set = select("consumers::counting::hurried").unwrap();
    let all = set.attach(Count::new()).unwrap();
    let (is_over, mut seen) = (AtomicBool::new(false), Vec::new());
    let calls: u64 = thread::scope(|scope| {
        let worker = || {
            let mut calls = 0;
            while !is_over.load(Relaxed) {
                calls = hurried(calls);
            }
            calls
        };
        let workers: Vec<_> = (0..THREADS).map(|_| scope.spawn(worker)).collect();
        for _ in 0..200 {
            let before = all.total();
            let guest = set.attach(Count::new()).unwrap();
            let there = all.total();
            while all.total() < there + 10 {
                thread::yield_now();
            }
            let still_there = all.total();
            seen.push((guest.total(), still_there - there, all.total() - before));
        }
        is_over.store(true, Relaxed);
        workers.into_iter().map(|worker| worker.join().unwrap()).sum()
    });
    assert_eq!(all.total(), calls);
    for (counted, surely, at_most) in seen {
        assert!((surely..=at_most).contains(&counted), "{counted} of {surely} to {at_most}");
    }
}
