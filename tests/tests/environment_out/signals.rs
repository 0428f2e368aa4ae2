//! The program and its signals: those that end it leave its report, those that ask for one get it,
//! and a handler of the program's own is never in the way.

use std::env;
use std::fs;
use std::mem;
use std::process::{self, Command};
use std::ptr;
use std::sync::atomic::{AtomicI32, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use libc::{SIGHUP, SIGINT, SIGTERM, SIGUSR1, c_int};
use probe_runtime::{EnvGuard, init_from_env};

use crate::endings::{fork, status};
use crate::guards;
use crate::{hits, times};

static HANDLED: AtomicI32 = AtomicI32::new(0);
/// The handler before the program's own.
static BEFORE: AtomicUsize = AtomicUsize::new(0);

extern "C" fn own(signal: c_int) {
    let before = BEFORE.load(Ordering::Relaxed);
    if before != 0 {
        // SAFETY: what sigaction(2) gave for a handler without SA_SIGINFO.
        let before: extern "C" fn(c_int) = unsafe { mem::transmute(before) };
        before(signal);
    }
    HANDLED.store(signal, Ordering::Relaxed);
}

fn set(signal: c_int, handler: usize) -> usize {
    // SAFETY: a handler that stores, or a number that stands for one.
    unsafe { libc::signal(signal, handler) }
}

pub(crate) fn handler_of(signal: c_int) -> usize {
    // SAFETY: a place for the action, which zeroes are one of.
    unsafe {
        let mut action: libc::sigaction = mem::zeroed();
        assert_eq!(libc::sigaction(signal, ptr::null(), &raw mut action), 0);
        action.sa_sigaction
    }
}

/// Sends it to the whole process.
fn send(signal: c_int) {
    // SAFETY: no pointers.
    assert_eq!(unsafe { libc::kill(libc::getpid(), signal) }, 0);
}

/// Until the process ends; an alarm rings if it does not.
fn wait() -> ! {
    loop {
        thread::park();
    }
}

pub(crate) fn until(is_so: impl Fn() -> bool) {
    // No alarm ends the first of a namespace.
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < Duration::from_secs(100));
        thread::sleep(Duration::from_millis(1));
    }
}

/// How many threads there are. (One that was waited for may be seen for a moment more.)
pub(crate) fn threads() -> usize {
    fs::read_dir("/proc/self/task").unwrap().count()
}

/// How many there were before there was a guard.
pub(crate) static THREADS: AtomicUsize = AtomicUsize::new(0);

/// The hits that the only file has, if it is there.
fn reported() -> Option<u64> {
    let text = fs::read_to_string(env::var_os("PROBES_OUT").unwrap()).ok()?;
    Some(hits(&serde_json::from_str(&text).unwrap()))
}

/// Prepares the program before there is a guard.
pub(crate) fn prepare(ending: &str) {
    THREADS.store(threads(), Ordering::Relaxed);
    match ending {
        "signal: ignored" => assert_eq!(set(SIGHUP, libc::SIG_IGN), libc::SIG_DFL),
        "signal: handled" | "signal: asks in vain" => {
            for signal in [SIGINT, SIGTERM, SIGUSR1] {
                assert_eq!(set(signal, own as *const () as usize), libc::SIG_DFL);
            }
        }
        "signal: awaited" => block(SIGTERM),
        _ => (),
    }
}

fn block(signal: c_int) {
    // SAFETY: a set, of one signal.
    unsafe {
        let mut only = mem::zeroed();
        libc::sigemptyset(&raw mut only);
        libc::sigaddset(&raw mut only, signal);
        libc::pthread_sigmask(libc::SIG_BLOCK, &raw const only, ptr::null_mut());
    }
}

#[expect(clippy::too_many_lines, reason = "a list of scenarios, each of a few lines")]
pub(crate) fn play(ending: &str, guard: EnvGuard) {
    match ending.strip_prefix("signal: ").unwrap() {
        "SIGINT" => send(SIGINT),
        "SIGTERM" => send(SIGTERM),
        "SIGHUP" => send(SIGHUP),
        "without descriptors" => {
            let none = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
            // SAFETY: a limit.
            assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const none) }, 0);
            [SIGUSR1, SIGINT].into_iter().for_each(send);
        }
        "closed" => {
            // As daemons do, which have other files under these numbers then.
            let strangers = guards::strangers();
            send(SIGUSR1);
            until(|| reported() == Some(3));
            times(2);
            strangers.into_iter().for_each(guards::is_as_it_was);
            send(SIGINT);
        }
        "exits meanwhile" => {
            send(SIGINT);
            process::exit(0);
        }
        "ignored" => {
            send(SIGHUP);
            return drop(guard);
        }
        "handled" => {
            [SIGINT, SIGTERM].into_iter().for_each(send);
            until(|| HANDLED.load(Ordering::Relaxed) != 0);
            return drop(guard);
        }
        "handled later" => {
            // As programs that pass signals on.
            BEFORE.store(set(SIGINT, own as *const () as usize), Ordering::Relaxed);
            assert_ne!(BEFORE.load(Ordering::Relaxed), libc::SIG_DFL);
            send(SIGINT);
            until(|| HANDLED.load(Ordering::Relaxed) != 0);
            times(1);
            drop(guard);
            assert_eq!(handler_of(SIGINT), own as *const () as usize);
            assert_eq!([SIGHUP, SIGTERM].map(handler_of), [libc::SIG_DFL; 2]);
            return;
        }
        "awaited" => {
            let mut signal = 0;
            // SAFETY: a set, of one signal, and a place. Other threads of this program do not block
            // it.
            unsafe {
                assert_eq!(libc::raise(SIGTERM), 0);
                let mut only = mem::zeroed();
                libc::sigemptyset(&raw mut only);
                libc::sigaddset(&raw mut only, SIGTERM);
                assert_eq!(libc::sigwait(&raw const only, &raw mut signal), 0);
            }
            assert_eq!(signal, SIGTERM);
            return drop(guard);
        }
        "twice" => loop {
            // Nobody reads the report, which waits for room.
            send(SIGINT);
            thread::sleep(Duration::from_millis(1));
        },
        "asks" => {
            for calls in [3, 5] {
                send(SIGUSR1);
                until(|| reported() == Some(calls));
                times(2);
            }
            // Nothing says the last two.
            process::abort();
        }
        "asks in vain" => {
            send(SIGUSR1);
            until(|| HANDLED.load(Ordering::Relaxed) == SIGUSR1);
            return drop(guard);
        }
        "every" => {
            until(|| reported() == Some(3));
            times(2);
            until(|| reported() == Some(5));
            process::abort();
        }
        // Its parent ends it.
        "every on stderr" => (),
        "fork" => {
            let child = fork(|| {
                send(SIGTERM);
                wait();
            });
            let ended = status(child);
            assert!(libc::WIFSIGNALED(ended) && libc::WTERMSIG(ended) == SIGTERM, "{ended}");
            let child = fork(|| {
                drop(init_from_env().unwrap());
                let own = init_from_env().unwrap();
                assert_eq!(threads(), 2);
                mem::forget(own);
                times(1);
                send(SIGINT);
                wait();
            });
            let ended = status(child);
            assert!(libc::WIFSIGNALED(ended) && libc::WTERMSIG(ended) == SIGINT, "{ended}");
            times(1);
            return drop(guard);
        }
        "threads" => return guards::one_thread(guard),
        "guards" => return guards::many_threads(guard),
        "first of its namespace" => return first_of_its_namespace(guard, "signal: first"),
        "forking first of its namespace" => {
            return first_of_its_namespace(guard, "signal: first, with a child");
        }
        "first" => {
            assert_eq!(process::id(), 1);
            send(SIGTERM);
            until(|| reported() == Some(3));
            times(2);
            process::exit(7);
        }
        // Each is the first of its own.
        "first, with a child" => {
            // SAFETY: no pointers.
            assert_eq!(unsafe { libc::unshare(libc::CLONE_NEWPID) }, 0);
            let mut guard = Some(guard);
            let child = fork(|| {
                assert_eq!(process::id(), 1);
                times(1);
                drop(guard.take());
                drop(init_from_env().unwrap());
                process::exit(0);
            });
            assert_eq!(status(child), 0);
            assert_eq!(reported(), None, "the child's is another file");
            send(SIGTERM);
            until(|| reported() == Some(3));
            drop(guard);
            process::exit(7);
        }
        other => panic!("{other}"),
    }
    wait();
}

/// Plays a scenario in a child that is the first of a namespace of processes.
fn first_of_its_namespace(guard: EnvGuard, scenario: &str) {
    // SAFETY: no pointers.
    if unsafe { libc::unshare(libc::CLONE_NEWPID) } != 0 {
        return println!("not permitted");
    }
    drop(guard);
    fs::remove_file(env::var_os("PROBES_OUT").unwrap()).unwrap();
    let mut command = Command::new(env::current_exe().unwrap());
    command.args(["scenario", "--exact", "--ignored", "--nocapture"]).env("PROBE_TEST_SCENARIO", scenario);
    let status = command.status().unwrap();
    assert_eq!(status.code(), Some(7), "{status}");
}
