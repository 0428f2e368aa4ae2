//! `probe_memory::Probed` as the program's allocator, and who allocates. A process of its own: the
//! allocator is the whole program's.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::RefCell;
use std::hint::black_box;
use std::panic::catch_unwind;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use probe_memory::Probed;
use probe_runtime::memory::Allocations;
use probe_runtime::spec::attach_spec;
use probe_runtime::{Aggregate, Attachment, Count, Memory, probe, select};
use probe_tests::stops::Stops;
use probe_tests::turn::turn;

#[global_allocator]
static ALLOCATOR: Probed<System> = Probed::new(System);

/// Three requests, a change of size, and three frees: of 10, 20 and 30 bytes, and of 50.
fn request() {
    let [ten, twenty, thirty] = [10, 20, 30].map(|size| Layout::from_size_align(size, 1).unwrap());
    // SAFETY: each block is freed once, with its layout.
    unsafe {
        let [first, second, third] =
            [ALLOCATOR.alloc(ten), ALLOCATOR.alloc_zeroed(twenty), ALLOCATOR.alloc(thirty)];
        assert_eq!(*second, 0);
        let first = ALLOCATOR.realloc(first, ten, 50);
        ALLOCATOR.dealloc(first, Layout::from_size_align(50, 1).unwrap());
        ALLOCATOR.dealloc(black_box(second), twenty);
        ALLOCATOR.dealloc(black_box(third), thirty);
    }
}

fn by_path(hits: &Attachment<Count>) -> Vec<(String, u64)> {
    hits.counts().iter().map(|count| (count.probe.path().to_owned(), count.hits)).collect()
}

#[test]
fn each_request_is_a_hit() {
    let _turn = turn();
    let set = select("memory::*").unwrap();
    let fields: Vec<_> = (set.probes().iter())
        .map(|it| {
            (it.path().to_owned(), it.fields().iter().map(|it| it.name().to_owned()).collect::<Vec<_>>())
        })
        .collect();
    let named = |names: &[&str]| names.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>();
    assert!(fields.contains(&("memory::alloc".to_owned(), named(&["size"]))), "{fields:?}");
    assert!(fields.contains(&("memory::dealloc".to_owned(), named(&["size"]))), "{fields:?}");
    assert!(fields.contains(&("memory::realloc".to_owned(), named(&["old", "size"]))), "{fields:?}");
    let hits = set.attach_in_thread(Count::new()).unwrap();
    let before = by_path(&hits);
    (0..1000).for_each(|_| request());
    let after = by_path(&hits);
    // Reading the counts allocates: the same each time.
    let looks = by_path(&hits);
    let hits = |path: &str| {
        let of = |counts: &[(String, u64)]| counts.iter().find(|it| it.0 == path).unwrap().1;
        of(&after) - of(&before) - (of(&looks) - of(&after))
    };
    assert_eq!(["memory::alloc", "memory::realloc", "memory::dealloc"].map(hits), [3000, 1000, 3000]);
}

#[test]
fn sizes_are_those_of_the_program() {
    let _turn = turn();
    let of = |probe| select(probe).unwrap().attach(Aggregate::new("count by(size)").unwrap()).unwrap();
    let sums = ["memory::alloc", "memory::dealloc"].map(of);
    (0..100).for_each(|_| request());
    for (sums, size) in [(&sums[0], "10"), (&sums[0], "20"), (&sums[1], "50"), (&sums[1], "30")] {
        let groups = sums.groups();
        assert!(groups.get(&[size]).is_some_and(|it| it.count() >= 100), "{size}: {groups}");
    }
}

#[probe]
fn outer() {
    request();
    inner(2);
    request();
}

#[probe]
fn inner(depth: u32) {
    request();
    if depth > 0 {
        inner(depth - 1);
    }
}

#[probe]
fn keep() -> Vec<u8> {
    black_box(vec![1; 64])
}

#[probe]
fn fail() {
    let _kept = black_box(Box::new([1_u8; 100]));
    std::panic::resume_unwind(Box::new(()));
}

/// The allocations, bytes, frees and freed bytes of a function.
fn of(allocations: &Allocations, function: &str) -> [u64; 4] {
    let path = format!("memory::{function}");
    let it = allocations.function(&path).or_else(|| allocations.function(function)).unwrap();
    [it.allocations(), it.bytes(), it.frees(), it.freed()]
}

/// What `request` adds, this many times.
fn requests(times: u64) -> [u64; 4] {
    [4, 110, 4, 110].map(|sum| sum * times)
}

const FUNCTIONS: &str = "memory::outer, memory::inner, memory::keep, memory::fail, memory::*";

#[test]
fn requests_are_those_of_the_innermost_function() {
    let _turn = turn();
    let memory = select(FUNCTIONS).unwrap().attach(Memory::new()).unwrap();
    thread::scope(|scope| {
        (0..4).for_each(|_| _ = scope.spawn(|| (0..500).for_each(|_| outer())));
    });
    let kept = keep();
    assert!(catch_unwind(fail).is_err());
    let report = memory.allocations();
    assert_eq!(of(&report, "outer"), requests(2 * 2000));
    assert_eq!(of(&report, "inner"), requests(3 * 2000));
    assert_eq!(of(&report, "keep"), [1, 64, 0, 0]);
    // The block is freed inside of the call.
    assert_eq!(of(&report, "fail")[2..], [1, 100]);
    assert_eq!((report.lost(), report.left_out().len()), (0, 0));
    let sums = report.iter().map(probe_runtime::memory::FunctionAllocations::net).sum::<i128>();
    assert_eq!(report.live_bytes(), sums);
    // A block that is freed by another function stays in the sums of both.
    drop(kept);
    let later = memory.allocations();
    assert_eq!(of(&later, "keep"), [1, 64, 0, 0]);
    assert!(of(&later, "(outside)")[3] >= of(&report, "(outside)")[3] + 64);
    let json: serde_json::Value = serde_json::from_str(&report.to_json()).unwrap();
    assert_eq!(
        (&json["consumer"], &json["live_bytes"]),
        (&"memory".into(), &i64::try_from(sums).unwrap().into())
    );
    let row = json["rows"].as_array().unwrap().iter().find(|it| it["function"] == "memory::keep").unwrap();
    assert_eq!((&row["allocations"], &row["net_bytes"]), (&1.into(), &64.into()));
    assert!(
        report
            .to_csv()
            .starts_with("function,file,line,future,allocations,bytes,frees,freed_bytes,net_bytes\n")
    );
    let table = report.to_string();
    assert!(table.starts_with("function") && table.contains("live memory since "), "{table}");
}

/// Calls that began before the attachment, and those that a pause cuts, have no requests.
#[test]
fn a_call_that_is_not_known_is_outside() {
    #[probe]
    fn paused(between: impl FnOnce()) {
        between();
        request();
    }

    let _turn = turn();
    let set = select("memory::paused, memory::keep, memory::*").unwrap();
    let mut attached = None;
    paused(|| attached = Some(set.attach_in_thread(Memory::new()).unwrap()));
    let memory = attached.unwrap();
    let known = |report: &Allocations| of(report, "paused");
    assert_eq!(known(&memory.allocations()), [0; 4]);
    paused(|| {
        _ = memory.pause();
        _ = memory.resume();
    });
    let cut = known(&memory.allocations());
    paused(|| ());
    let whole = known(&memory.allocations());
    let more: Vec<_> = whole.iter().zip(cut).map(|(whole, cut)| whole - cut).collect();
    assert_eq!(more, requests(1));
    let outside = of(&memory.allocations(), "(outside)");
    assert!(outside[0] >= 8, "{outside:?}");
}

#[test]
fn a_text_brings_the_probes_of_the_allocator() {
    let _turn = turn();
    let attached = attach_spec("memory::keep=memory").unwrap();
    let kept = keep();
    let report = attached[0].attachment::<Memory>().unwrap().allocations();
    assert_eq!(of(&report, "keep"), [1, 64, 0, 0]);
    drop(kept);
    let text = attached[0].to_string();
    assert!(text.contains("memory::keep") && text.contains("allocations"), "{text}");
    // Without them, there is nothing to count.
    let error = select("memory::keep kind=entry|exit").unwrap().attach(Memory::new()).unwrap_err();
    assert!(error.to_string().contains("no probe of an allocator is selected"), "{error}");
}

thread_local! {
    static LATE: RefCell<Vec<Late>> = const { RefCell::new(Vec::new()) };
}

/// Allocates when its thread ends.
struct Late;

impl Drop for Late {
    fn drop(&mut self) {
        request();
        drop(keep());
    }
}

/// All kinds of consumers come and go while threads allocate, begin and end.
#[test]
fn attaching_while_threads_allocate() {
    let _turn = turn();
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let stops = Stops(&stop);
        for _ in 0..3 {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    outer();
                    let ended = thread::spawn(|| {
                        LATE.with_borrow_mut(|late| late.push(Late));
                        outer();
                    });
                    ended.join().unwrap();
                }
            });
        }
        for _ in 0..100 {
            let hits = select("memory::*").unwrap().attach(Count::new()).unwrap();
            let memory = select(FUNCTIONS).unwrap().attach(Memory::new()).unwrap();
            let sums = attach_spec("memory::alloc=sum(size), **=trace(flight, size=1M)").unwrap();
            drop(keep());
            assert!(of(&memory.allocations(), "keep")[0] >= 1 && hits.total() > 0);
            assert_eq!(memory.failure(), None);
            _ = (memory.pause(), hits.pause(), memory.resume());
            drop((sums, hits, memory));
        }
        drop(stops);
    });
    assert_eq!(probe_runtime::losses::lost_hits(), 0);
    #[cfg(not(probe_portable))]
    probe_tests::text::Text::of_this_process().assert_as_in_file();
}

/// A child finds the counts of its parent, and adds to them.
#[cfg(target_os = "linux")]
#[test]
fn a_forked_child_allocates() {
    let _turn = turn();
    let memory = select(FUNCTIONS).unwrap().attach(Memory::new()).unwrap();
    drop(keep());
    // SAFETY: the child allocates, which the C library lets it, and ends without destructors.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: no pointers.
        unsafe { libc::alarm(20) };
        drop(keep());
        let kept = of(&memory.allocations(), "keep");
        // SAFETY: ends this process at once.
        unsafe { libc::_exit(i32::from(kept[..2] != [2, 128])) };
    }
    let mut status = -1;
    // SAFETY: a place for the result.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    assert_eq!(status, 0);
    assert_eq!(of(&memory.allocations(), "keep")[..2], [1, 64]);
}

/// An allocator for handlers, which must not call the C library's: one block.
struct Fixed;

// SAFETY: nobody reads or writes the block.
unsafe impl GlobalAlloc for Fixed {
    unsafe fn alloc(&self, _: Layout) -> *mut u8 {
        static BLOCK: AtomicU64 = AtomicU64::new(0);
        BLOCK.as_ptr().cast()
    }

    unsafe fn dealloc(&self, _: *mut u8, _: Layout) {}
}

static FIXED: Probed<Fixed> = Probed::new(Fixed);
static HANDLED: AtomicU64 = AtomicU64::new(0);

#[probe]
fn handled() {
    let seven = Layout::from_size_align(7, 1).unwrap();
    // SAFETY: a block of this allocator, with its layout.
    unsafe { FIXED.dealloc(black_box(FIXED.alloc(seven)), seven) };
    HANDLED.fetch_add(1, Ordering::Relaxed);
}

extern "C" fn handle(_: libc::c_int) {
    handled();
}

/// A handler that interrupts the program between two hits is a call as any other. One that
/// interrupts a hit is in none of the numbers, with all of its hits.
#[cfg(target_os = "linux")]
#[test]
fn handlers_allocate_in_calls_of_their_own() {
    const HITS: u64 = 4;
    const SIGNALS: u64 = 500;
    let _turn = turn();
    // SAFETY: a handler that allocates nothing of the C library's.
    unsafe { libc::signal(libc::SIGUSR1, handle as extern "C" fn(libc::c_int) as libc::sighandler_t) };
    let set = select("memory::handled, memory::outer, memory::inner, memory::*").unwrap();
    let memory = set.attach(Memory::new()).unwrap();
    let (stop, mut before) = (&AtomicBool::new(false), 0);
    let calls = thread::scope(|scope| {
        let stops = Stops(stop);
        let (sender, receiver) = std::sync::mpsc::channel();
        let worker = scope.spawn(move || {
            // SAFETY: no pointers.
            sender.send(unsafe { libc::pthread_self() }).unwrap();
            let mut calls = 0;
            while !stop.load(Ordering::Relaxed) {
                outer();
                calls += 1;
            }
            calls
        });
        let thread = receiver.recv().unwrap();
        before = memory.suppressed();
        for signal in 0..SIGNALS {
            // SAFETY: the thread lives until it is told to stop.
            assert_eq!(unsafe { libc::pthread_kill(thread, libc::SIGUSR1) }, 0);
            // Signals of one kind that are pending become one.
            while HANDLED.load(Ordering::Relaxed) <= signal {
                thread::yield_now();
            }
        }
        drop(stops);
        worker.join().unwrap()
    });
    let suppressed = memory.suppressed() - before;
    let report = memory.allocations();
    let own = of(&report, "handled");
    let allocations = own[0];
    assert_eq!(own, [1, 7, 1, 7].map(|sum| sum * allocations));
    assert_eq!((SIGNALS - allocations) * HITS, suppressed);
    // Calls that were interrupted have their own requests alone.
    assert_eq!(of(&report, "outer"), requests(2 * calls));
    assert_eq!(of(&report, "inner"), requests(3 * calls));
}

/// A call that `longjmp` leaves is the innermost one until a hit from further up in the stack.
#[cfg(all(target_arch = "x86_64", target_os = "linux", not(any(probe_portable, probe_off))))]
#[test]
fn calls_that_longjmp_leaves_allocate_no_more() {
    const SOURCE: &str = "#include <setjmp.h>\n#include <stdint.h>\n\
        static jmp_buf back;\n\
        static volatile int leaves;\n\
        __attribute__((noinline)) void jump_away(void (*ask)(void)) { ask(); if (leaves) longjmp(back, 1); ask(); }\n\
        uint64_t jump_back(uint64_t asks) {\n\
        void (*ask)(void) = (void (*)(void))asks;\n\
        if (!setjmp(back)) { ask(); jump_away(ask); }\n\
        ask(); leaves = 1; return 1; }\n";
    extern "C" fn ask() {
        request();
    }
    let _turn = turn();
    let library = probe_tests::instrumented::load("memory-jumps", "jumps.c", SOURCE, &["-O1"]);
    let jump = library.function("jump_back");
    let asks = (ask as extern "C" fn()) as usize as u64;
    // The first hits make probes of them; this call leaves nothing.
    assert_eq!(jump(asks), 1);
    let memory = select("**::jump_*, memory::*").unwrap().attach_in_thread(Memory::new()).unwrap();
    (0..500).for_each(|_| assert_eq!(jump(asks), 1));
    let report = memory.allocations();
    let found = |name: &str| {
        let it = report.iter().find(|it| it.path().ends_with(name)).unwrap();
        [it.allocations(), it.bytes(), it.frees(), it.freed()]
    };
    let (back, away) = (found("jump_back"), found("jump_away"));
    let sum: Vec<_> = back.iter().zip(away).map(|(back, away)| back + away).collect();
    assert_eq!(sum, requests(1500));
    // The request after `longjmp` comes from deeper in the stack than the call that it has left, so
    // it may be inside of that.
    assert!(away == requests(500) || away == requests(1000), "{away:?}");
    // The end of the call around shows that the other one is over.
    request();
    let report = memory.allocations();
    let later = report.iter().find(|it| it.path().ends_with("jump_away")).unwrap();
    assert_eq!(later.allocations(), away[0]);
}
