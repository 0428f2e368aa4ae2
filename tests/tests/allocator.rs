//! Probes inside the global allocator: every allocation of the program is a hit, also those of the
//! control while it attaches and detaches, and those of a consumer inside its own hit.
//! A process of its own: the allocator is the whole program's.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::hint::black_box;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use probe_runtime::{Attachment, Consumer, Count, Event, probe, select};
use probe_tests::stops::Stops;
use probe_tests::turn::turn;

/// The system's, with probes, and a count of its own.
struct Probed;

#[global_allocator]
static ALLOCATOR: Probed = Probed;

thread_local! {
    static ALLOCATED: Cell<u64> = const { Cell::new(0) };
    static FREED: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: the system's allocator does it all.
unsafe impl GlobalAlloc for Probed {
    #[probe]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        probe!("allocating", size = layout.size(), align = layout.align());
        ALLOCATED.set(ALLOCATED.get() + 1);
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    #[probe]
    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        FREED.set(FREED.get() + 1);
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(ptr, layout) }
    }
}

fn churn(rounds: usize) {
    for round in 0..rounds {
        let mut values: Vec<Box<usize>> = Vec::with_capacity(4);
        values.extend((0..4).map(|x| Box::new(x + round)));
        assert_eq!(black_box(&values).iter().map(|x| **x - round).sum::<usize>(), 6);
    }
}

/// The allocations and frees of this thread.
fn own() -> (u64, u64) {
    (ALLOCATED.get(), FREED.get())
}

/// What `body` allocates and frees on this thread.
fn used(body: impl FnOnce()) -> (u64, u64) {
    let before = own();
    body();
    (own().0 - before.0, own().1 - before.1)
}

fn hits(tally: &Attachment<Count>) -> [u64; 2] {
    tally.counts().iter().map(|count| count.hits).collect::<Vec<_>>().try_into().unwrap()
}

/// Asserts that hits of one thread alone are exact: the others of the process must be silent.
#[test]
fn every_allocation_is_counted() {
    let _turn = turn();
    let threads = 4;
    // The harness' threads allocate too: only what these threads count is compared, through a
    // consumer.
    let set = select("allocator::alloc kind=entry, allocator::dealloc kind=entry").unwrap();
    let by_thread = set.attach(ByThread).unwrap();
    let (start, end) = (Barrier::new(threads), Barrier::new(threads));
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                start.wait();
                BY_THREAD.set(0);
                let (allocated, freed) = used(|| churn(1_000));
                assert_eq!((allocated, freed), (5_000, 5_000));
                assert_eq!(BY_THREAD.get(), 10_000);
                end.wait();
            });
        }
    });
    assert_eq!(by_thread.failure(), None);
}

thread_local! {
    static BY_THREAD: Cell<u64> = const { Cell::new(0) };
}

struct ByThread;

impl Consumer for ByThread {
    fn hit(&self, _event: &Event<'_>) {
        BY_THREAD.set(BY_THREAD.get() + 1);
    }
}

/// In a child with one thread, the tally and the allocator's own count are the same.
#[test]
fn a_tally_is_exact() {
    let program = std::env::current_exe().unwrap();
    let output = std::process::Command::new(program)
        .args(["--exact", "alone", "--ignored", "--nocapture", "--test-threads=1"])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert!(stdout.contains("1 passed"), "{stdout}");
}

/// The child's scenario. The harness' main thread only waits meanwhile.
#[test]
#[ignore = "another test plays it, in a child"]
fn alone() {
    let set = select("allocator::alloc kind=entry, allocator::dealloc kind=entry").unwrap();
    let tally = set.attach(Count::new()).unwrap();
    // It allocates once more before it waits.
    let is_waiting = || std::fs::read_to_string("/proc/self/stat").is_ok_and(|it| it.contains(") S "));
    while cfg!(target_os = "linux") && !is_waiting() {
        thread::yield_now();
    }
    let first = hits(&tally);
    let before = own();
    churn(1_000);
    // The tally's own look allocates, before it reads and after.
    let looks = used(|| assert_ne!(hits(&tally), [0, 0]));
    let middle = hits(&tally);
    churn(1_000);
    let last = hits(&tally);
    let after = own();
    assert_eq!(last[0] - middle[0], 5_000 + looks.0);
    assert_eq!(last[1] - middle[1], 5_000 + looks.1);
    assert_eq!(middle[0] - first[0], 5_000 + 2 * looks.0);
    assert_eq!(after.0 - before.0, 10_000 + 3 * looks.0);
    let allocated = ALLOCATED.get();
    let attached_again = set.attach(Count::new()).unwrap();
    drop(attached_again);
    assert!(ALLOCATED.get() > allocated, "attaching allocates, and did not hang");
}

/// Allocates inside its hit.
#[derive(Default)]
struct Allocates {
    calls: AtomicU64,
    bytes: AtomicU64,
}

impl Consumer for Allocates {
    fn hit(&self, event: &Event<'_>) {
        self.calls.fetch_add(1, Ordering::Relaxed);
        let size = event.fields().next().map_or(0, |(_, value)| value.to_string().parse().unwrap());
        self.bytes.fetch_add(size, Ordering::Relaxed);
        churn(1);
    }
}

#[test]
fn attaching_while_several_threads_allocate() {
    let _turn = turn();
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let stops = Stops(&stop);
        for _ in 0..4 {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    churn(10);
                }
            });
        }
        for round in 0..200 {
            let selector = ["allocator::**", "allocator::alloc", "allocator::allocating"][round % 3];
            let set = select(selector).unwrap();
            let (tally, calls) =
                (set.attach(Count::new()).unwrap(), set.attach(Allocates::default()).unwrap());
            churn(10);
            assert!(tally.total() >= 50, "this thread's own");
            assert!(calls.calls.load(Ordering::Relaxed) >= 50);
            assert!(calls.suppressed() >= 5 * calls.calls.load(Ordering::Relaxed).min(50));
            assert_eq!(calls.failure(), None);
            let _ = (calls.pause(), tally.pause(), tally.resume(), calls.resume());
        }
        drop(stops);
    });
    assert_eq!(probe_runtime::losses::lost_hits(), 0);
    #[cfg(not(probe_portable))]
    probe_tests::text::Text::of_this_process().assert_as_in_file();
}
