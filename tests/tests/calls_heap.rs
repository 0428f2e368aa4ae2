//! Measuring takes no heap on a hit, not even a thread's first: the probes sit in the program's
//! allocator, which counts its calls. A process of its own: it has an allocator of its own.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::hint::black_box;
use std::sync::Mutex;
use std::thread;

#[cfg(all(target_arch = "x86_64", target_os = "linux", not(any(probe_portable, probe_off))))]
use probe_runtime::Trace;
use probe_runtime::perf::PerfEvent;
use probe_runtime::profile::Budget;
use probe_runtime::{Aggregate, CallTree, Count, Latency, Perf, Profiler, probe, select};

struct Counting;

/// Texts to group hits by.
const NAMES: [&str; 3] = ["apple", "pear", "plum"];

thread_local! {
    static TAKEN: Cell<u64> = const { Cell::new(0) };
}

#[probe(args(bytes = layout.size(), name = NAMES[layout.size() % NAMES.len()]))]
#[inline(never)]
fn take(layout: Layout) -> *mut u8 {
    TAKEN.set(TAKEN.get() + 1);
    // SAFETY: the caller's promise, see below.
    unsafe { System.alloc(layout) }
}

// SAFETY: the system's allocator does it all.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        take(layout)
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: it came from there.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// The tests count all hits.
static TURN: Mutex<()> = Mutex::new(());

/// How often this thread has allocated for a thousand boxes.
fn thousand_boxes() -> u64 {
    let before = TAKEN.get();
    for n in 0..1000 {
        drop(black_box(Box::new(n)));
    }
    TAKEN.get() - before
}

#[test]
fn a_hit_takes_no_heap() {
    let _turn = TURN.lock();
    let set = select("calls_heap::take").unwrap();
    let (latency, calls) = (set.attach(Latency::new()).unwrap(), set.attach(CallTree::new()).unwrap());
    // Each first hit opens events, where the kernel lets it; a sample of them, too.
    let events = || Perf::of([PerfEvent::TaskClock, PerfEvent::PageFaults]);
    let perf = [events(), events().sampled(Profiler::new().stepped().budget(Budget::UNLIMITED))]
        .map(|perf| set.attach(perf).ok());
    // Allocations of attaching itself, while it switched the sites.
    let unpaired = || latency.latencies()[0].unpaired();
    let at_first = unpaired();
    let measured = || latency.latencies()[0].calls();
    assert_eq!(thousand_boxes(), 1000);
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| assert_eq!(thousand_boxes(), 1000, "of a thread that has had no hit before"));
        }
    });
    assert!(measured() >= 5000);
    // The reports' own allocations are measured, too; the difference between reports is exact.
    let (before, taken) = (measured(), TAKEN.get());
    assert_eq!(thousand_boxes(), 1000);
    let (after, taken) = (measured(), TAKEN.get() - taken);
    assert!((1000..=taken).contains(&(after - before)), "{before} {after} {taken}");
    let tree = calls.tree();
    assert!(tree.iter().map(probe_runtime::call_tree::TreeNode::calls).sum::<u64>() >= after);
    assert_eq!((latency.latencies().lost(), unpaired()), (0, at_first));
    if let [Some(all), Some(sampled)] = perf {
        let [all, sampled] =
            [all, sampled].map(|perf| (perf.event_counts()[0].clone(), perf.failure().is_none()));
        assert!(all.1 && all.0.counted() >= 6000 && all.0.uncounted() <= 1, "{all:?}");
        assert!(sampled.1 && sampled.0.counted() > 0, "{sampled:?}");
    }
}

/// A thread's first hits read unwind tables.
#[cfg(all(target_arch = "x86_64", target_os = "linux", not(any(probe_portable, probe_off))))]
fn callers_take_none() {
    let set = select("calls_heap::take kind=entry").unwrap();
    let [callers, stacks] = ["count by(caller)", "count by(stack)"]
        .map(|text| set.attach(Aggregate::new(text).unwrap()).unwrap());
    let trace = set.attach(Trace::recorder().stacks()).unwrap();
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| assert_eq!(thousand_boxes(), 1000, "of a thread that has had no hit before"));
        }
    });
    assert!(trace.totals().written >= 4000, "{trace}");
    let [callers, stacks] = [callers.groups(), stacks.groups()];
    assert!(callers.iter().any(|it| it.count() >= 4000), "{callers}");
    assert!(stacks.iter().any(|it| it.count() >= 1000), "{stacks}");
}

#[test]
fn predicates_and_aggregations_take_no_heap() {
    let _turn = TURN.lock();
    let set = select("calls_heap::take").unwrap();
    let counts = ["bytes > 2 && name ~ \"p*\"", "bytes == 4", "first 100", "1 in 10"]
        .map(|text| set.attach_if(&text.parse().unwrap(), Count::new()).unwrap());
    let slow = set.attach_if(&"bytes == 4".parse().unwrap(), Latency::new()).unwrap();
    let texts = [
        "count by(name)", "sum(bytes) by(bytes)", "quantize(bytes)", "latency by(name)",
        "until(calls_heap::take kind=exit)",
    ];
    let groups = texts.map(|text| set.attach(Aggregate::new(text).unwrap()).unwrap());
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| assert_eq!(thousand_boxes(), 1000, "of a thread that has had no hit before"));
        }
    });
    assert_eq!(thousand_boxes(), 1000);
    // A box of an `i32`, in each thread.
    assert!(counts[1].total() >= 5000, "{}", counts[1].total());
    assert!(slow.latencies()[0].calls() >= 5000);
    #[cfg(all(target_arch = "x86_64", target_os = "linux", not(any(probe_portable, probe_off))))]
    callers_take_none();
    let apples = groups[0].groups();
    assert!(apples.iter().any(|it| it.count() >= 5000), "{apples:?}");
}
