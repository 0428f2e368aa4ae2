//! Threads at full speed, rings of the smallest size, threads that come and go: each hit is written
//! or lost, events of a thread are in order, and calls nest but for gaps.

use std::collections::HashMap;
use std::hint::black_box;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use probe_runtime::{Trace, probe, select};
use probe_tests::folder::Folder;
use probe_tests::turn::turn;
use probe_trace::{Item, Kind, ThreadId};

static CALLS: AtomicU64 = AtomicU64::new(0);

#[probe]
#[inline(never)]
fn outer(x: u64) -> u64 {
    inner(x) + inner(x + 1)
}

#[probe]
#[inline(never)]
fn inner(x: u64) -> u64 {
    black_box(x)
}

/// Hits of a call of `outer`.
const HITS: u64 = 6;

fn call(times: u64) {
    for x in 0..times {
        outer(x);
    }
    CALLS.fetch_add(times, Ordering::Relaxed);
}

/// Checks the order and the nesting of each thread's events. Returns the numbers of events and of
/// lost hits.
fn check(items: &[Item]) -> (u64, u64) {
    let mut open: HashMap<ThreadId, Vec<&str>> = HashMap::new();
    let mut latest: HashMap<ThreadId, u64> = HashMap::new();
    // After a gap, exits may come whose entries were lost.
    let mut after_gap: HashMap<ThreadId, bool> = HashMap::new();
    let (mut events, mut lost) = (0, 0);
    for item in items {
        match item {
            Item::Event(event) => {
                events += 1;
                let before = latest.insert(event.thread, event.time).unwrap_or_default();
                assert!(before <= event.time, "{before} after {}", event.time);
                let calls = open.entry(event.thread).or_default();
                if event.definition.kind == Some(Kind::Entry) {
                    calls.push(&event.definition.path);
                    continue;
                }
                match calls.pop() {
                    Some(entered) => assert_eq!(entered, event.definition.path),
                    None => assert!(after_gap.get(&event.thread).copied().unwrap_or_default(), "{event:?}"),
                }
            }
            Item::Gap(gap) => {
                lost += gap.lost;
                open.remove(&gap.thread);
                after_gap.insert(gap.thread, true);
            }
            _ => (),
        }
    }
    (events, lost)
}

#[test]
fn sixteen_threads_at_full_speed_write_or_lose_each_hit() {
    let _turn = turn();
    let folder = Folder::new("trace-threads");
    let path = folder.join("threads.probetrace");
    call(1);
    for ring in [4096, 1 << 20] {
        let trace = Trace::to_file(&path).ring_size(ring).total_size(32 * ring);
        let trace = select("trace::nesting::**").unwrap().attach(trace).unwrap();
        let before = CALLS.load(Ordering::Relaxed);
        thread::scope(|scope| (0..16).for_each(|_| _ = scope.spawn(|| call(5_000))));
        let emitted = (CALLS.load(Ordering::Relaxed) - before) * HITS;
        let totals = trace.finish().unwrap();
        assert_eq!(totals.written + totals.lost, emitted, "{totals:?}");
        assert_eq!(check(&super::items(&path)), (totals.written, totals.lost - ringless(&path)));
    }
}

/// Returns the lost hits that are in no gap: their threads found only rings that others had left
/// full.
fn ringless(path: &Path) -> u64 {
    probe_trace::Trace::open(&[path]).unwrap().totals().unwrap().without_ring
}

#[test]
fn threads_that_come_and_go_leave_their_rings_to_others() {
    let _turn = turn();
    let folder = Folder::new("trace-short-threads");
    let path = folder.join("short.probetrace");
    call(1);
    // At most four threads live at once.
    let trace = Trace::to_file(&path).ring_size(8192).total_size(16 * 8192);
    let trace = select("trace::nesting::**").unwrap().attach(trace).unwrap();
    for _ in 0..250 {
        thread::scope(|scope| (0..4).for_each(|_| _ = scope.spawn(|| call(3))));
    }
    let totals = trace.finish().unwrap();
    assert_eq!(totals.written + totals.lost, 1000 * 3 * HITS);
    let items = super::items(&path);
    assert_eq!(check(&items), (totals.written, totals.lost - ringless(&path)));
    let threads = items.iter().filter(|item| matches!(item, Item::Thread(_))).count() as u64;
    // A thread without any written event has no line.
    assert!(threads <= 1000 && threads * 3 * HITS >= totals.written, "{threads}");
}

#[test]
fn threads_without_a_ring_lose_their_hits() {
    let _turn = turn();
    let folder = Folder::new("trace-ringless");
    let path = folder.join("ringless.probetrace");
    call(1);
    let trace = Trace::first().ring_size(8192).total_size(8192);
    let trace = select("trace::nesting::**").unwrap().attach(trace).unwrap();
    call(1);
    thread::scope(|scope| _ = scope.spawn(|| call(2)));
    let totals = trace.snapshot(&path).unwrap();
    assert_eq!((totals.written, totals.lost), (HITS, 2 * HITS));
    assert_eq!(check(&super::items(&path)), (HITS, 0));
}

/// A thread that gets no memory takes none of the other threads' rings.
#[cfg(target_os = "linux")]
#[test]
fn hits_without_memory_use_up_no_rings() {
    use probe_runtime::Count;
    use probe_tests::sandbox::without_memory;
    use probe_tests::scenario::in_a_child;

    const TIMES: u64 = 100;
    let _turn = turn();
    call(1);
    let status = in_a_child(|| {
        let set = select("trace::nesting::**").unwrap();
        // This thread gets a slot.
        let counted = set.attach(Count::new()).unwrap();
        call(1);
        drop(counted);
        let trace = set.attach(Trace::first().ring_size(8192).total_size(2 * 8192)).unwrap();
        without_memory(|| call(TIMES));
        thread::scope(|scope| _ = scope.spawn(|| call(2)));
        let totals = trace.totals();
        assert_eq!((totals.written, totals.lost), (2 * HITS, TIMES * HITS));
    });
    assert_eq!(status, 0);
}

#[test]
fn snapshots_beside_running_threads_are_whole() {
    let _turn = turn();
    let folder = Folder::new("trace-snapshots");
    call(1);
    let trace = select("trace::nesting::**").unwrap().attach(Trace::recorder().ring_size(16 << 10)).unwrap();
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    call(100);
                }
            });
        }
        for number in 0..20 {
            let path = folder.join(format!("{number}.probetrace"));
            trace.snapshot(&path).unwrap();
            // The oldest event of a ring may be an exit.
            let items = super::items(&path);
            let mut oldest = HashMap::new();
            for item in &items {
                if let Item::Event(event) = item {
                    let before = oldest.insert(event.thread, event.time).unwrap_or_default();
                    assert!(before <= event.time);
                }
            }
        }
        is_over.store(true, Ordering::Relaxed);
    });
}
