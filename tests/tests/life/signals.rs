//! Hits inside signal handlers: a handler that interrupts a consumer, and a storm of timer signals
//! over hot probed functions that are hit in the handler too. Every hit is counted; none recurses
//! into a consumer. A process of its own: it installs handlers and a timer, which the whole process
//! shares.
#![cfg(not(probe_portable))]

use std::cell::Cell;
use std::hint::black_box;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use probe_runtime::patch::Visibility;
use probe_runtime::{Attachment, Consumer, Count, Event, probe, select};
use probe_tests::stops::Stops;
use probe_tests::turn::turn;

/// The program's own counts, in handlers and outside.
static CALLS: AtomicU64 = AtomicU64::new(0);
static HANDLED: AtomicU64 = AtomicU64::new(0);

#[probe]
#[inline(never)]
fn hot(x: u64) -> u64 {
    probe!("hot-point", x);
    CALLS.fetch_add(1, Ordering::Relaxed);
    x.rotate_left(9) ^ 0x5bd1
}

extern "C" fn handler(_signal: libc::c_int) {
    HANDLED.fetch_add(1, Ordering::Relaxed);
    hot(black_box(3));
}

fn install(signal: libc::c_int) {
    set_action(signal, handler as *const () as usize);
}

fn set_action(signal: libc::c_int, action: libc::sighandler_t) {
    // SAFETY: all zeros is a valid action.
    let mut set: libc::sigaction = unsafe { std::mem::zeroed() };
    set.sa_sigaction = action;
    set.sa_flags = libc::SA_RESTART;
    // SAFETY: the set is alive. A handler blocks `FLUSHES`, so the flush waits for its return.
    unsafe { libc::sigaddset(&raw mut set.sa_mask, FLUSHES) };
    // SAFETY: the handlers do what a handler may.
    let result = unsafe { libc::sigaction(signal, &raw const set, std::ptr::null_mut()) };
    assert_eq!(result, 0);
}

/// A signal that each thread handles once it is in no other handler.
const FLUSHES: libc::c_int = libc::SIGURG;
static FLUSHED: AtomicU64 = AtomicU64::new(0);

extern "C" fn flushed(_signal: libc::c_int) {
    FLUSHED.fetch_add(1, Ordering::SeqCst);
}

/// Ends a signal: drops the pending ones, and waits until no thread is in its handler, or about to
/// enter it.
fn flush(signal: libc::c_int) {
    set_action(signal, libc::SIG_IGN);
    set_action(FLUSHES, flushed as *const () as usize);
    for task in std::fs::read_dir("/proc/self/task").unwrap().map(Result::unwrap) {
        let thread: libc::pid_t = task.file_name().to_str().unwrap().parse().unwrap();
        let before = FLUSHED.load(Ordering::SeqCst);
        // SAFETY: a handler is installed.
        let sent = unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), thread, FLUSHES) };
        // A thread that ends meanwhile handles no signal any more.
        while sent == 0 && FLUSHED.load(Ordering::SeqCst) == before && task.path().exists() {
            thread::yield_now();
        }
    }
}

fn set_timer(microseconds: libc::suseconds_t) {
    let every = libc::timeval { tv_sec: 0, tv_usec: microseconds };
    let timer = libc::itimerval { it_interval: every, it_value: every };
    // SAFETY: the description is alive for the call.
    let result = unsafe { libc::setitimer(libc::ITIMER_REAL, &raw const timer, std::ptr::null_mut()) };
    assert_eq!(result, 0);
}

/// Raises a signal inside its hit.
struct Raises {
    calls: AtomicU64,
}

thread_local! {
    static DEPTH: Cell<u32> = const { Cell::new(0) };
}

impl Consumer for Raises {
    fn hit(&self, _event: &Event<'_>) {
        assert_eq!(DEPTH.replace(1), 0, "called inside itself");
        self.calls.fetch_add(1, Ordering::Relaxed);
        // SAFETY: a handler is installed.
        unsafe { libc::raise(libc::SIGUSR1) };
        DEPTH.set(0);
    }
}

#[test]
fn a_handler_that_interrupts_a_consumer() {
    let _turn = turn();
    install(libc::SIGUSR1);
    let set = select("life::signals::hot kind=entry").unwrap();
    let raises = set.attach(Raises { calls: AtomicU64::new(0) }).unwrap();
    let tally = set.attach(Count::new()).unwrap();
    let before = HANDLED.load(Ordering::Relaxed);
    for x in 0..10 {
        hot(x);
    }
    assert_eq!(raises.calls.load(Ordering::Relaxed), 10);
    assert_eq!(HANDLED.load(Ordering::Relaxed) - before, 10);
    assert_eq!(raises.suppressed(), 10, "the handler's hits");
    assert_eq!(tally.total(), 20, "a tally counts both");
    assert_eq!(raises.failure(), None);
}

/// Counts by being called.
#[derive(Default)]
struct Calls {
    delivered: AtomicU64,
    sum: AtomicU64,
}

impl Consumer for Calls {
    fn hit(&self, event: &Event<'_>) {
        self.delivered.fetch_add(1, Ordering::Relaxed);
        for (_, value) in event.fields() {
            let probe_runtime::field::ValueRef::U64(x) = value else { panic!("not a number") };
            self.sum.fetch_add(x, Ordering::Relaxed);
        }
    }
}

/// Runs the hot function on this thread and another under a storm, until enough signals were
/// handled; returns how many calls were made.
fn storm(signals: u64) -> u64 {
    install(libc::SIGALRM);
    let (calls, handled) = (CALLS.load(Ordering::SeqCst), HANDLED.load(Ordering::SeqCst));
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let stops = Stops(&stop);
        let worker = || {
            let mut x = 1;
            while !stop.load(Ordering::Relaxed) {
                x = black_box(hot(x));
            }
        };
        scope.spawn(worker);
        scope.spawn(worker);
        set_timer(50);
        while HANDLED.load(Ordering::Relaxed) - handled < signals {
            hot(black_box(7));
        }
        set_timer(0);
        // One that is pending may reach any thread, also after these two have ended.
        flush(libc::SIGALRM);
        drop(stops);
    });
    CALLS.load(Ordering::SeqCst) - calls
}

#[test]
fn a_storm_loses_no_hit() {
    let _turn = turn();
    let set = select("life::signals::**").unwrap();
    let tally = set.attach(Count::new()).unwrap();
    let calls = storm(2_000);
    let counts: Vec<_> = tally.counts().iter().map(|count| count.hits).collect();
    assert_eq!(counts, [calls, calls, calls], "entry and exit of the function, and its point");

    let mut delivering = Vec::new();
    for _ in 0..2 {
        delivering.push(set.attach(Calls::default()).unwrap());
    }
    let before = tally.total();
    let calls = storm(500);
    assert_eq!(tally.total() - before, 3 * calls);
    for consumer in &delivering {
        assert_eq!(consumer.delivered.load(Ordering::SeqCst) + consumer.suppressed(), 3 * calls);
        assert_eq!(consumer.failure(), None);
    }
}

/// The control's own work is interrupted too.
#[test]
fn attaching_under_a_storm() {
    let _turn = turn();
    let tally = select("life::signals::hot").unwrap().attach(Count::new()).unwrap();
    let stop = AtomicBool::new(false);
    let calls = thread::scope(|scope| {
        let stops = Stops(&stop);
        let toggler = scope.spawn(|| {
            let mut toggles = 0_u64;
            while !stop.load(Ordering::Relaxed) {
                let visibility =
                    if toggles.is_multiple_of(2) { Visibility::Synchronous } else { Visibility::Eventual };
                let set = select("life::signals::**").unwrap().visibility(visibility);
                let (calls, count) =
                    (set.attach(Calls::default()).unwrap(), set.attach(Count::new()).unwrap());
                let _ = (calls.pause(), count.pause());
                let _ = (calls.resume(), count.resume());
                drop((calls, count));
                toggles += 1;
            }
            toggles
        });
        let calls = storm(1_000);
        drop(stops);
        assert!(toggler.join().unwrap() > 0);
        calls
    });
    assert_eq!(tally.total(), 2 * calls);
}

/// A thread's first hit may be a handler's.
#[test]
fn the_first_hit_of_a_thread_in_a_handler() {
    let _turn = turn();
    install(libc::SIGUSR2);
    let tally: Attachment<Count> =
        select("life::signals::hot kind=entry").unwrap().attach(Count::new()).unwrap();
    for _ in 0..50 {
        let raised = thread::spawn(|| {
            // SAFETY: a handler is installed.
            unsafe { libc::raise(libc::SIGUSR2) }
        });
        assert_eq!(raised.join().unwrap(), 0);
    }
    assert_eq!(tally.total(), 50);
}
