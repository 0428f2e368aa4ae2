//! The program: its work, and its endings.

use std::env;
use std::io;
use std::mem;
use std::os::unix::process::CommandExt;
use std::process::{self, Command};
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use probe_runtime::{EnvGuard, init_from_env, probes};

use crate::{missing, signals, times};

/// A lock of the program's, which it takes in hooks around forks.
static OWN: AtomicBool = AtomicBool::new(false);

extern "C" fn take_own() {
    while OWN.swap(true, Ordering::Acquire) {
        thread::yield_now();
    }
}

extern "C" fn give_own() {
    OWN.store(false, Ordering::Release);
}

/// Runs the program to this end.
pub(crate) fn play(ending: &str) {
    #[cfg(target_os = "linux")]
    if ending == "raised" {
        // SAFETY: no pointers.
        println!("secure {}", unsafe { libc::getauxval(libc::AT_SECURE) });
    }
    if ending == "own hooks" {
        // The first use: hooks that come after it take their locks before the runtime's.
        assert!(!probes().is_empty());
        // SAFETY: functions, which stay.
        unsafe { libc::pthread_atfork(Some(take_own), Some(give_own), Some(give_own)) };
    }
    signals::prepare(ending);
    let guard = match init_from_env() {
        Ok(guard) => guard,
        Err(error) => {
            eprintln!("Error: {error:?}");
            process::exit(1);
        }
    };
    times(3);
    match ending {
        "return" | "raised" => drop(guard),
        "too deep" => {
            missing::too_deep();
            drop(guard);
        }
        "exit" => process::exit(7),
        "forgotten" => mem::forget(guard),
        "panic" => {
            let _guard = guard;
            panic!("on purpose");
        }
        "elsewhere" => {
            env::set_current_dir("/").unwrap();
            drop(guard);
        }
        "on demand" => {
            guard.report();
            times(2);
            guard.report();
            times(2);
            process::abort();
        }
        "two guards" => {
            let error = init_from_env().unwrap_err().to_string();
            eprintln!("{}", error.lines().next().unwrap());
            // The first continues, and once it is gone its file is free.
            times(1);
            guard.report();
            drop(guard);
            let next = init_from_env().unwrap();
            times(1);
            drop(next);
        }
        "two guards on a stream" => {
            let next = init_from_env().unwrap();
            times(1);
            drop((next, guard));
        }
        "exec" => {
            let mut command = Command::new(env::current_exe().unwrap());
            command
                .args(["scenario", "--exact", "--ignored", "--nocapture"])
                .env("PROBE_TEST_SCENARIO", "return");
            panic!("{}", command.exec());
        }
        other if other.starts_with("signal: ") => signals::play(other, guard),
        other => meanwhile(other, guard),
    }
}

/// Ends while something else continues, in another thread or process.
fn meanwhile(ending: &str, guard: EnvGuard) {
    match ending {
        "while reporting" => {
            // Both report, one after the other, and nothing twice.
            let exits = thread::spawn(|| process::exit(7));
            drop(guard);
            exits.join().unwrap();
        }
        "fork" => {
            times(1);
            let child = fork(|| {
                times(5);
                process::exit(0);
            });
            assert_eq!(status(child), 0);
            println!("child {child}");
            drop(guard);
        }
        "fork with a guard" | "fork after the guard" => {
            let guard = (ending == "fork with a guard").then_some(guard);
            let child = fork(|| {
                times(5);
                let own = init_from_env().unwrap();
                times(2);
                if guard.is_none() {
                    mem::forget(own);
                }
                process::exit(0);
            });
            times(1);
            assert_eq!(status(child), 0);
            println!("child {child}");
            drop(guard);
        }
        "forks while reporting" => thread::scope(|scope| {
            static IS_DONE: AtomicBool = AtomicBool::new(false);
            let reports = scope.spawn(|| {
                while !IS_DONE.load(Ordering::Relaxed) {
                    guard.report();
                }
            });
            for _ in 0..FORKS {
                assert_eq!(status(fork(|| process::exit(0))), 0);
            }
            IS_DONE.store(true, Ordering::Relaxed);
            reports.join().unwrap();
        }),
        "own hooks" => thread::scope(|scope| {
            static IS_DONE: AtomicBool = AtomicBool::new(false);
            let reports = scope.spawn(|| {
                while !IS_DONE.load(Ordering::Relaxed) {
                    take_own();
                    // Time for the other to be about to fork.
                    thread::sleep(Duration::from_millis(1));
                    guard.report();
                    give_own();
                    // The other's turn.
                    thread::sleep(Duration::from_millis(1));
                }
            });
            for _ in 0..FORKS {
                assert_eq!(status(fork(|| process::exit(0))), 0);
            }
            IS_DONE.store(true, Ordering::Relaxed);
            reports.join().unwrap();
        }),
        "fork while stderr is held" => {
            let (is_held, is_forked) = (Barrier::new(2), Barrier::new(2));
            thread::scope(|scope| {
                scope.spawn(|| {
                    let _held = io::stderr().lock();
                    is_held.wait();
                    is_forked.wait();
                });
                is_held.wait();
                let child = fork(|| process::exit(0));
                is_forked.wait();
                assert_eq!(status(child), 0);
            });
            mem::forget(guard);
        }
        "exit while stderr is held" => {
            let is_held = Barrier::new(2);
            thread::scope(|scope| {
                scope.spawn(|| {
                    let _held = io::stderr().lock();
                    is_held.wait();
                    // Whether this thread reports or the other one: neither waits for the other.
                    process::exit(7);
                });
                is_held.wait();
                drop(guard);
            });
        }
        other => panic!("{other}"),
    }
}

pub(crate) const FORKS: usize = 20;

pub(crate) fn fork(child: impl FnOnce()) -> libc::pid_t {
    // SAFETY: the child calls what a child of a program with threads may, and the runtime, which
    // takes its locks across a fork.
    let process = unsafe { libc::fork() };
    if process == 0 {
        // SAFETY: no pointers. It ends even where it waits for a lock that nobody holds.
        unsafe { libc::alarm(20) };
        child();
    }
    process
}

pub(crate) fn status(child: libc::pid_t) -> libc::c_int {
    let mut status = -1;
    // SAFETY: a place for the result.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    status
}
