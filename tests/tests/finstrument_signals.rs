//! Signal handlers that interrupt first hits, and call the very function that is being discovered.
#![cfg(all(target_arch = "x86_64", target_os = "linux", not(any(probe_portable, probe_off))))]

use std::fmt::Write;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

use probe_runtime::{Count, finstrument, probes};
use probe_tests::instrumented::{folder, shared, source};
use probe_tests::library::Library;
use probe_tests::scenario;

const FUNCTIONS: usize = 6_000;

#[test]
fn a_handler_calls_what_is_being_discovered() {
    scenario::runs_in_a_child("scenario", "same");
}

#[test]
fn scenario() {
    let Some(asked) = scenario::asked() else { return };
    match asked.as_str() {
        "same" => same(),
        other => panic!("no scenario {other}"),
    }
    println!("done: {asked}");
}

fn library(name: &str) -> (Library, Vec<extern "C" fn(u64) -> u64>) {
    let mut code = String::from("#include <stdint.h>\n");
    for number in 0..FUNCTIONS {
        writeln!(code, "uint64_t f{number}(uint64_t x) {{ return x + {number}; }}").unwrap();
    }
    let folder = folder(name);
    let file = source(&folder, "code.c", &code);
    let library = Library::open(&shared("gcc", &file, "code.so", &["-O1", "-g0"]));
    let functions = (0..FUNCTIONS).map(|number| library.function(&format!("f{number}"))).collect();
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

static CURRENT: AtomicPtr<()> = AtomicPtr::new(std::ptr::null_mut());
static SIGNALS: AtomicUsize = AtomicUsize::new(0);
static HANDLED: AtomicUsize = AtomicUsize::new(0);

extern "C" fn call_the_same(_signal: libc::c_int) {
    SIGNALS.fetch_add(1, Ordering::SeqCst);
    // SAFETY: a function of the fixture.
    let function: extern "C" fn(u64) -> u64 = unsafe { std::mem::transmute(CURRENT.load(Ordering::Relaxed)) };
    assert!(function(0) < FUNCTIONS as u64);
    HANDLED.fetch_add(1, Ordering::SeqCst);
}

fn same() {
    let (library, functions) = library("same");
    let calls = finstrument::attach(Count::new(), 2 * FUNCTIONS + 100).unwrap();
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
    assert_eq!((stats.discovered, stats.patched, stats.kept), (2 * FUNCTIONS, 2 * FUNCTIONS, 0), "{stats:?}");
    assert_eq!((stats.waiting, stats.lost, stats.beyond_capacity), (0, 0, 0));
    assert_eq!(total, 2 * (FUNCTIONS + signals) as u64);
    assert!(calls.probes().iter().all(|probe| probe.sites() == 1));
    drop(calls);
    library.close();
}
