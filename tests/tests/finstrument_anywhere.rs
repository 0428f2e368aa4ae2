//! Hooks that are reached where nothing may be allocated or waited for: in an allocator, in signal
//! handlers, under this crate's own locks, before anything was set up.
#![cfg(all(target_arch = "x86_64", target_os = "linux", not(any(probe_portable, probe_off))))]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, AtomicUsize, Ordering};
use std::thread;

use probe_runtime::{Count, Kind, finstrument, select};
use probe_tests::instrumented::load_numbered;
use probe_tests::scenario;

/// Instrumented functions that the allocator calls, each some times and then the next.
static IN_ALLOCATOR: [AtomicPtr<()>; FUNCTIONS] = [const { AtomicPtr::new(std::ptr::null_mut()) }; FUNCTIONS];
static ALLOCATIONS: AtomicUsize = AtomicUsize::new(0);
static CALLED: [AtomicU64; FUNCTIONS] = [const { AtomicU64::new(0) }; FUNCTIONS];

const FUNCTIONS: usize = 64;

fn call(at: usize) {
    let function = IN_ALLOCATOR[at % FUNCTIONS].load(Ordering::Acquire);
    if !function.is_null() {
        // SAFETY: a function of the fixture, which stays loaded while it is here.
        let function: extern "C" fn(u64) -> u64 = unsafe { std::mem::transmute(function) };
        // SAFETY: the thread's own errno.
        unsafe { *libc::__errno_location() = 77 };
        assert_eq!(function(1), 1 + (at % FUNCTIONS) as u64);
        // SAFETY: as above.
        assert_eq!(unsafe { *libc::__errno_location() }, 77);
        CALLED[at % FUNCTIONS].fetch_add(1, Ordering::Relaxed);
    }
}

struct Instrumented;

#[global_allocator]
static ALLOCATOR: Instrumented = Instrumented;

// SAFETY: the system's allocator, but for the calls, which allocate nothing.
unsafe impl GlobalAlloc for Instrumented {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        call(ALLOCATIONS.fetch_add(1, Ordering::Relaxed) / 8);
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, start: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(start, layout) }
    }
}

fn assert_counted(calls: &finstrument::DiscoveryAttachment, number: usize, hits: u64) {
    for kind in [Kind::Entry, Kind::Exit] {
        assert_eq!(calls.counts().hits(&format!("f{number}"), kind), Some(hits), "f{number} {kind}");
    }
}

#[test]
fn in_an_allocator() {
    scenario::runs_in_a_child("scenario", "allocator");
}

#[test]
fn in_signal_handlers() {
    scenario::runs_in_a_child("scenario", "signals");
}

#[test]
fn before_anything_was_set_up() {
    scenario::runs_in_a_child("scenario", "early");
}

#[test]
#[ignore = "other tests play it, in children"]
fn scenario() {
    let asked = scenario::to_play();
    match asked.as_str() {
        "allocator" => allocator(),
        "signals" => signals(),
        "early" => early(),
        other => panic!("no scenario {other}"),
    }
    println!("done: {asked}");
}

/// The allocator's functions are discovered by the operations of this crate, too, under whatever
/// locks these hold.
fn allocator() {
    let (library, functions) = load_numbered("allocator", FUNCTIONS);
    let calls = finstrument::attach(Count::new(), 2 * FUNCTIONS).unwrap();
    for (at, function) in IN_ALLOCATOR.iter().zip(&functions) {
        at.store(*function as *mut (), Ordering::Release);
    }
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                for _ in 0..100 {
                    drop(select("**").map(|set| set.attach(Count::new())));
                    drop(std::hint::black_box(vec![1_u8; 100]));
                }
            });
        }
    });
    IN_ALLOCATOR.iter().for_each(|at| at.store(std::ptr::null_mut(), Ordering::Release));
    for (number, called) in CALLED.iter().enumerate() {
        let called = called.load(Ordering::Relaxed);
        assert!(called > 0);
        assert_counted(&calls, number, called);
    }
    let stats = finstrument::stats();
    assert_eq!(
        (stats.discovered, stats.patched, stats.unpatched),
        (2 * FUNCTIONS, 2 * FUNCTIONS, 0),
        "{stats:?}"
    );
    assert_eq!((stats.waiting, stats.lost), (0, 0));
    drop(calls);
    library.close();
}

static IN_HANDLER: [AtomicPtr<()>; FUNCTIONS] = [const { AtomicPtr::new(std::ptr::null_mut()) }; FUNCTIONS];
static SIGNALS: AtomicUsize = AtomicUsize::new(0);
static HANDLED: AtomicUsize = AtomicUsize::new(0);

extern "C" fn handle(_signal: libc::c_int) {
    let at = SIGNALS.fetch_add(1, Ordering::SeqCst) % FUNCTIONS;
    // SAFETY: a function of the fixture.
    let function: extern "C" fn(u64) -> u64 =
        unsafe { std::mem::transmute(IN_HANDLER[at].load(Ordering::Relaxed)) };
    assert_eq!(function(2), 2 + at as u64);
    HANDLED.fetch_add(1, Ordering::SeqCst);
}

/// A timer's signals interrupt operations, hooks and whatever else, and discover.
fn signals() {
    const WANTED: usize = 4 * FUNCTIONS;
    let (library, functions) = load_numbered("signals", FUNCTIONS);
    let calls = finstrument::attach(Count::new(), 2 * FUNCTIONS).unwrap();
    for (at, function) in IN_HANDLER.iter().zip(&functions) {
        at.store(*function as *mut (), Ordering::Release);
    }
    let interval = libc::timeval { tv_sec: 0, tv_usec: 200 };
    let timer = libc::itimerval { it_interval: interval, it_value: interval };
    // SAFETY: a handler that calls a function of the fixture only; a timer.
    unsafe {
        libc::signal(libc::SIGALRM, handle as extern "C" fn(libc::c_int) as libc::sighandler_t);
        assert_eq!(libc::setitimer(libc::ITIMER_REAL, &raw const timer, std::ptr::null_mut()), 0);
    }
    while SIGNALS.load(Ordering::Relaxed) < WANTED {
        drop(select("**").map(|set| set.attach(Count::new())));
    }
    // SAFETY: as above.
    unsafe { libc::signal(libc::SIGALRM, libc::SIG_IGN) };
    // The last signal may be another thread's.
    let (signals, counts) = loop {
        let (handled, counts) = (HANDLED.load(Ordering::SeqCst), calls.counts());
        if SIGNALS.load(Ordering::SeqCst) == handled {
            break (handled, counts);
        }
    };
    for number in 0..FUNCTIONS {
        let hits = signals / FUNCTIONS + usize::from(number < signals % FUNCTIONS);
        for kind in [Kind::Entry, Kind::Exit] {
            assert_eq!(counts.hits(&format!("f{number}"), kind), Some(hits as u64), "f{number} {kind}");
        }
    }
    let stats = finstrument::stats();
    assert_eq!(
        (stats.discovered, stats.patched, stats.waiting),
        (2 * FUNCTIONS, 2 * FUNCTIONS, 0),
        "{stats:?}"
    );
    drop(calls);
    library.close();
}

/// Until somebody asks for anything, calls are noted and stay calls; the first operation makes them
/// sites.
fn early() {
    static TOLD: AtomicBool = AtomicBool::new(false);
    let (library, functions) = load_numbered("early", FUNCTIONS);
    for _ in 0..2 {
        functions.iter().for_each(|function| _ = function(0));
    }
    let stats = finstrument::stats();
    assert_eq!((stats.discovered, stats.patched, stats.waiting), (2 * FUNCTIONS, 0, 2 * FUNCTIONS));
    assert_eq!(stats.postponed, 2 * FUNCTIONS);
    finstrument::start();
    let stats = finstrument::stats();
    assert_eq!((stats.patched, stats.waiting), (2 * FUNCTIONS, 0));
    let set = select("f* kind=entry").unwrap();
    assert_eq!(set.len(), FUNCTIONS);
    let hits = set.attach(Count::new()).unwrap();
    functions.iter().for_each(|function| _ = function(0));
    assert_eq!(hits.total(), FUNCTIONS as u64);
    drop(hits);
    finstrument::on_discovery(|_| TOLD.store(true, Ordering::Relaxed));
    functions.iter().for_each(|function| _ = function(0));
    assert!(!TOLD.load(Ordering::Relaxed), "nothing is new");
    library.close();
}
