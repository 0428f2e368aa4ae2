//! Threads that come and go: their counts stay, whether they were long or short, and whether their
//! last hits were in the destructors of their thread-locals.
//! A process of its own: its tests count everything on this program's probes, and take turns.

use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use probe_runtime::losses::lost_hits;
use probe_runtime::{Attachment, Consumer, Count, Event, probe, select};
use probe_tests::turn::turn;

#[probe]
#[inline(never)]
fn work(x: u64) -> u64 {
    x + 1
}

#[probe]
#[inline(never)]
fn at_the_end(x: u64) -> u64 {
    x * 3
}

fn counts(tally: &Attachment<Count>) -> Vec<u64> {
    tally.counts().iter().map(|count| count.hits).collect()
}

#[test]
fn what_ended_threads_counted_stays() {
    let _turn = turn();
    let tally = select("life::threads::work").unwrap().attach(Count::new()).unwrap();
    for round in 1..=20 {
        let threads: Vec<_> = (0..5)
            .map(|_| {
                thread::spawn(|| {
                    for x in 0..10 {
                        assert_eq!(work(x), x + 1);
                    }
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(counts(&tally), [50 * round, 50 * round]);
    }
    // A second look begins at zero, wherever its counters were before.
    let second = select("life::threads::work").unwrap().attach(Count::new()).unwrap();
    thread::spawn(|| work(1)).join().unwrap();
    assert_eq!(counts(&second), [1, 1]);
    assert_eq!(counts(&tally), [1001, 1001]);
    drop(tally);
    let third = select("life::threads::work").unwrap().attach(Count::new()).unwrap();
    assert_eq!(counts(&third), [0, 0], "counters are used again, but not their counts");
    assert_eq!(counts(&second), [1, 1]);
}

#[test]
fn a_thousand_short_threads() {
    let _turn = turn();
    let tally = select("life::threads::work").unwrap().attach(Count::new()).unwrap();
    for _ in 0..100 {
        let threads: Vec<_> = (0..10).map(|_| thread::spawn(|| work(1))).collect();
        assert!(threads.into_iter().all(|thread| thread.join().unwrap() == 2));
    }
    assert_eq!(counts(&tally), [1000, 1000]);
    assert_eq!(lost_hits(), 0);
    #[cfg(target_os = "linux")]
    assert!(mapped_mebibytes() < 8 * 1024, "memory of ended threads is used again");
}

/// The address space in use.
#[cfg(target_os = "linux")]
fn mapped_mebibytes() -> u64 {
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
    pages.split(' ').next().unwrap().parse::<u64>().unwrap() / 256
}

/// Hits probes when its thread ends.
struct AtExit(u64);

impl Drop for AtExit {
    fn drop(&mut self) {
        for x in 0..self.0 {
            assert_eq!(at_the_end(x), x * 3);
        }
    }
}

thread_local! {
    // Made before the thread's first hit in some threads, after it in others: the destructors'
    // order differs.
    static EARLY: RefCell<Option<AtExit>> = const { RefCell::new(None) };
    static LATE: RefCell<Option<AtExit>> = const { RefCell::new(None) };
    static CALLS: Cell<u64> = const { Cell::new(0) };
}

/// Counts by being called, in a thread-local too.
#[derive(Default)]
struct Calls(AtomicU64);

impl Consumer for Calls {
    fn hit(&self, _event: &Event<'_>) {
        let _ = CALLS.try_with(|calls| calls.set(calls.get() + 1));
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn destructors_of_thread_locals_hit_probes() {
    let _turn = turn();
    let set = select("life::threads::*").unwrap();
    let (tally, calls) = (set.attach(Count::new()).unwrap(), set.attach(Calls::default()).unwrap());
    for round in 0..50 {
        let thread = thread::spawn(move || {
            if round % 2 == 0 {
                EARLY.set(Some(AtExit(2)));
            }
            if round % 5 != 0 {
                // Some threads have their first hit in a destructor.
                work(1);
            }
            LATE.set(Some(AtExit(3)));
        });
        thread.join().unwrap();
    }
    // Entries and exits: 50 × 3 late, 25 × 2 early, 40 in the threads' bodies.
    assert_eq!(counts(&tally), [200, 200, 40, 40]);
    assert_eq!(calls.0.load(Ordering::Relaxed), 480);
    assert_eq!((calls.suppressed(), lost_hits()), (0, 0));
    assert_eq!(calls.failure(), None);
}

/// A destructor that the C library calls after Rust's own, more than once.
#[cfg(target_os = "linux")]
#[test]
fn destructors_of_pthread_keys_hit_probes() {
    unsafe extern "C" fn at_exit(rounds: *mut libc::c_void) {
        work(1);
        let rounds = rounds.addr();
        if rounds > 1 {
            set(KEY.load(Ordering::Relaxed), rounds - 1);
        }
    }
    fn set(key: u64, rounds: usize) {
        let key = key.try_into().unwrap();
        // SAFETY: the key was created; its value is a number.
        assert_eq!(unsafe { libc::pthread_setspecific(key, std::ptr::without_provenance_mut(rounds)) }, 0);
    }
    static KEY: AtomicU64 = AtomicU64::new(0);
    let _turn = turn();
    let mut key = 0;
    // SAFETY: `key` is a place for the result.
    assert_eq!(unsafe { libc::pthread_key_create(&raw mut key, Some(at_exit)) }, 0);
    KEY.store(key.into(), Ordering::Relaxed);
    let tally = select("life::threads::work").unwrap().attach(Count::new()).unwrap();
    for rounds in 1..=4 {
        for _ in 0..5 {
            thread::spawn(move || set(KEY.load(Ordering::Relaxed), rounds)).join().unwrap();
        }
    }
    // The C library calls destructors up to four times.
    assert_eq!(counts(&tally), [50, 50]);
    assert_eq!(tally.detach().refused(), 0);
}
