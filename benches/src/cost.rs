//! The cost of a program: time, and peak memory.

// Safety: relies on wait4(2), which fills in structures of this function.
#![expect(unsafe_code, reason = "see above")]

use std::io;
use std::mem::MaybeUninit;
use std::process::Command;
use std::time::Instant;

/// The cost of a process that has ended.
#[derive(Clone, Copy, Debug)]
pub struct Cost {
    /// Seconds from its start to its end.
    pub seconds: f64,
    /// Processor seconds of all its threads.
    pub processor_seconds: f64,
    /// Its peak memory, in millions of bytes.
    pub peak_mb: f64,
}

/// Runs a program to its end.
///
/// # Panics
/// If it can't be run, or fails.
pub fn run(command: &mut Command) -> Cost {
    let start = Instant::now();
    #[expect(clippy::zombie_processes, reason = "wait4(2) waits for it, and tells what it took")]
    let child = command.spawn().expect("the program runs");
    let pid = libc::pid_t::try_from(child.id()).expect("a process");
    let (mut status, mut usage) = (0, MaybeUninit::<libc::rusage>::zeroed());
    loop {
        // SAFETY: a child of this process for which no other thread waits; valid destinations for
        // the results.
        let waited = unsafe { libc::wait4(pid, &raw mut status, 0, usage.as_mut_ptr()) };
        if waited == pid {
            break;
        }
        let error = io::Error::last_os_error();
        assert_eq!(error.kind(), io::ErrorKind::Interrupted, "waiting fails: {error}");
    }
    let seconds = start.elapsed().as_secs_f64();
    assert_eq!(status, 0, "{command:?} fails");
    // SAFETY: plain numbers, zero or filled in.
    let usage = unsafe { usage.assume_init() };
    let of = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
    let peak_mb = usage.ru_maxrss as f64 * 1024.0 / 1e6;
    Cost { seconds, processor_seconds: of(usage.ru_utime) + of(usage.ru_stime), peak_mb }
}
