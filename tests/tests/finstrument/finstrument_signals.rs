//! Signal handlers that interrupt first hits, and call the very function that is being discovered.
#![cfg(all(target_arch = "x86_64", target_os = "linux", not(any(probe_portable, probe_off))))]

use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};

use probe_runtime::{Count, finstrument, probes};
use probe_tests::instrumented::{Function, functions, load, numbered};
use probe_tests::library::Library;
use probe_tests::{scenario, whole};

/// The number of functions that are discovered.
fn size() -> usize {
    if whole::is_asked_for() { 2_000 } else { 500 }
}

#[test]
fn a_handler_calls_what_is_being_discovered() {
    scenario::runs_in_a_child("scenario", "same");
}

#[test]
fn a_handler_forks() {
    scenario::runs_in_a_child("scenario", "forks");
}

#[test]
fn a_handler_jumps_out_of_first_hits() {
    scenario::runs_in_a_child("scenario", "jumps");
}

#[test]
#[ignore = "other tests play it, in children"]
fn scenario() {
    let asked = scenario::to_play();
    match asked.as_str() {
        "same" => same(),
        "forks" => forks(),
        "jumps" => jumps(),
        other => panic!("no scenario {other}"),
    }
    println!("done: {asked}");
}

/// A loop that handlers jump back into, each time one is called: it continues with the next
/// function, until `at` is `end`; each function is called `calls` times.
const LOOP: &str = "#include <setjmp.h>
typedef uint64_t (*function)(uint64_t);
static sigjmp_buf start; static pthread_t runs; static volatile uint64_t jumps;
__attribute__((no_instrument_function)) uint64_t jumped(void) { return jumps; }
__attribute__((no_instrument_function)) void jump(int signal) {
    if (runs && pthread_equal(runs, pthread_self())) { jumps = jumps + 1; siglongjmp(start, 1); }
}
__attribute__((no_instrument_function))
void run(const function *functions, volatile uint64_t *at, uint64_t end, uint64_t calls) {
    sigsetjmp(start, 1);
    runs = pthread_self();
    while (*at < end) {
        function now = functions[*at];
        *at = *at + 1;
        for (uint64_t call = 0; call < calls; call++) now(1);
    }
    runs = 0;
}
";

type Jump = extern "C" fn(libc::c_int);
type Run = extern "C" fn(*const extern "C" fn(u64) -> u64, *mut u64, u64, u64);

fn library(name: &str) -> (Library, Vec<Function>) {
    let code = [
        "#include <pthread.h>
#include <stdint.h>
",
        LOOP,
        &numbered(size()),
    ]
    .concat();
    let library = load(name, "code.c", &code, &["-O1", "-g0"]);
    let functions = functions(&library, size());
    (library, functions)
}

/// Has `handler` called that often, in microseconds; 0 for no more.
fn every(interval: i64, handler: extern "C" fn(libc::c_int)) {
    let interval = libc::timeval { tv_sec: 0, tv_usec: interval };
    let timer = libc::itimerval { it_interval: interval, it_value: interval };
    // SAFETY: a handler of these scenarios; a timer.
    unsafe {
        libc::signal(libc::SIGALRM, handler as libc::sighandler_t);
        assert_eq!(libc::setitimer(libc::ITIMER_REAL, &raw const timer, std::ptr::null_mut()), 0);
    }
}

/// The same on this very thread, until it is dropped: the system may give the process's signals to
/// another one, which may be in the allocator. By a signal of its own, so that a scenario that
/// hangs still ends.
struct Timer(libc::timer_t);

impl Timer {
    /// One that does not run yet.
    fn new(handler: extern "C" fn(libc::c_int)) -> Self {
        // SAFETY: zeroes are such structures; a handler of these scenarios.
        unsafe {
            libc::signal(libc::SIGUSR1, handler as libc::sighandler_t);
            let mut event: libc::sigevent = std::mem::zeroed();
            event.sigev_notify = libc::SIGEV_THREAD_ID;
            event.sigev_signo = libc::SIGUSR1;
            event.sigev_notify_thread_id = libc::gettid();
            let mut timer = std::mem::zeroed();
            assert_eq!(libc::timer_create(libc::CLOCK_MONOTONIC, &raw mut event, &raw mut timer), 0);
            Self(timer)
        }
    }

    fn every(interval: i64, handler: extern "C" fn(libc::c_int)) -> Self {
        let timer = Self::new(handler);
        set(timer.0, interval, interval);
        timer
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        // SAFETY: from `timer_create`.
        assert_eq!(unsafe { libc::timer_delete(self.0) }, 0);
    }
}

/// Has a timer run out in this many microseconds, and then every few; 0 for never.
fn set(timer: libc::timer_t, first: i64, interval: i64) {
    let time = |microseconds| libc::timespec { tv_sec: 0, tv_nsec: 1_000 * microseconds };
    let setting = libc::itimerspec { it_interval: time(interval), it_value: time(first) };
    // SAFETY: from `timer_create`.
    assert_eq!(unsafe { libc::timer_settime(timer, 0, &raw const setting, std::ptr::null_mut()) }, 0);
}

/// The timer of `fork`, which sets it anew each time: a fork may take longer than any interval, and
/// the interrupted code has to continue.
static FORKING: AtomicPtr<libc::c_void> = AtomicPtr::new(std::ptr::null_mut());
static IS_FORKING: AtomicBool = AtomicBool::new(true);
/// Microseconds between two forks.
const BETWEEN_FORKS: i64 = 300;

extern "C" fn fork(_signal: libc::c_int) {
    // SAFETY: the child ends at once; the parent restores this thread's `errno`, which the
    // interrupted code may be about to read.
    unsafe {
        let errno = *libc::__errno_location();
        let child = libc::fork();
        if child == 0 {
            libc::_exit(0);
        }
        let mut status = -1;
        while libc::waitpid(child, &raw mut status, 0) == -1 {}
        *libc::__errno_location() = errno;
    }
    HANDLED.fetch_add(1, Ordering::SeqCst);
    if IS_FORKING.load(Ordering::Relaxed) {
        set(FORKING.load(Ordering::Relaxed), BETWEEN_FORKS, 0);
    }
}

fn forks() {
    let (library, functions) = library("forks");
    let calls = finstrument::attach(Count::new(), 2 * size() + 100).unwrap();
    let timer = Timer::new(fork);
    FORKING.store(timer.0, Ordering::Relaxed);
    set(timer.0, BETWEEN_FORKS, 0);
    for (number, function) in functions.iter().enumerate() {
        assert_eq!(function(1), 1 + number as u64);
    }
    // A signal may still be on its way when there is no timer any more.
    IS_FORKING.store(false, Ordering::Relaxed);
    drop(timer);
    assert!(HANDLED.load(Ordering::SeqCst) > 3);
    assert_eq!(calls.total(), 2 * size() as u64);
    let stats = finstrument::stats();
    assert_eq!((stats.discovered, stats.patched, stats.waiting), (2 * size(), 2 * size(), 0));
    drop(calls);
    library.close();
}

/// Runs the loop under a timer that jumps; returns how often it did.
fn run(library: &Library, functions: &[extern "C" fn(u64) -> u64], calls: u64) -> u64 {
    // SAFETY: the fixture's functions have these types.
    let run = unsafe { std::mem::transmute::<*mut libc::c_void, Run>(library.symbol("run")) };
    // SAFETY: as above.
    let jump = unsafe { std::mem::transmute::<*mut libc::c_void, Jump>(library.symbol("jump")) };
    let mut at = 0;
    let timer = Timer::every(300, jump);
    run(functions.as_ptr(), &raw mut at, functions.len() as u64, calls);
    drop(timer);
    assert_eq!(at, functions.len() as u64);
    library.getter("jumped")()
}

fn jumps() {
    let (library, functions) = library("jumps");
    let calls = finstrument::attach(Count::new(), 2 * size() + 100).unwrap();
    let jumps = run(&library, &functions, 1);
    assert!(jumps > 3, "{jumps} jumps");
    // All that was locked is free, and nothing is left half done.
    functions.iter().for_each(|function| _ = function(1));
    probes();
    let stats = finstrument::stats();
    assert_eq!((stats.discovered, stats.patched, stats.waiting), (2 * size(), 2 * size(), 0), "{stats:?}");
    let total = calls.total();
    functions.iter().for_each(|function| _ = function(1));
    assert_eq!(calls.total() - total, 2 * size() as u64);
    drop(calls);
    library.close();
}

static CURRENT: AtomicPtr<()> = AtomicPtr::new(std::ptr::null_mut());
static SIGNALS: AtomicUsize = AtomicUsize::new(0);
static HANDLED: AtomicUsize = AtomicUsize::new(0);

extern "C" fn call_the_same(_signal: libc::c_int) {
    SIGNALS.fetch_add(1, Ordering::SeqCst);
    // SAFETY: a function of the fixture.
    let function: extern "C" fn(u64) -> u64 = unsafe { std::mem::transmute(CURRENT.load(Ordering::Relaxed)) };
    assert!(function(0) < size() as u64);
    HANDLED.fetch_add(1, Ordering::SeqCst);
}

fn same() {
    let (library, functions) = library("same");
    let calls = finstrument::attach(Count::new(), 2 * size() + 100).unwrap();
    CURRENT.store(functions[0] as *mut (), Ordering::Relaxed);
    every(50, call_the_same);
    for (number, function) in functions.iter().enumerate() {
        CURRENT.store(*function as *mut (), Ordering::Relaxed);
        assert_eq!(function(1), 1 + number as u64);
    }
    every(0, call_the_same);
    // The last signal may be another thread's.
    let (signals, total) = loop {
        let handled = HANDLED.load(Ordering::SeqCst);
        let total = calls.total();
        if SIGNALS.load(Ordering::SeqCst) == handled {
            break (handled, total);
        }
    };
    assert!(signals > 100, "{signals} signals");
    probes();
    let stats = finstrument::stats();
    assert_eq!((stats.discovered, stats.patched, stats.unpatched), (2 * size(), 2 * size(), 0), "{stats:?}");
    assert_eq!((stats.waiting, stats.lost, stats.beyond_capacity), (0, 0, 0));
    assert_eq!(total, 2 * (size() + signals) as u64);
    assert!(calls.probes().iter().all(|probe| probe.sites() == 1));
    drop(calls);
    library.close();
}
