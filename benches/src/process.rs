//! The processor and the clock.

// Safety: relies on system calls that get a structure of this function's own.
#![allow(unsafe_code)]

use std::mem::{size_of, zeroed};

/// Keeps this thread on the `nth` of the processors that it may use, counted from the last. Does nothing where
/// there is none.
pub fn pin(nth: usize) {
    // SAFETY: a set of processors is plain bits; the system fills in at most its size.
    unsafe {
        let mut allowed: libc::cpu_set_t = zeroed();
        if libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &raw mut allowed) != 0 {
            return;
        }
        let processors = (0..8 * size_of::<libc::cpu_set_t>()).rev();
        let Some(one) = processors.filter(|cpu| libc::CPU_ISSET(*cpu, &allowed)).nth(nth) else { return };
        let mut only: libc::cpu_set_t = zeroed();
        libc::CPU_SET(one, &mut only);
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const only);
    }
}

/// Nanoseconds of the monotonic clock, which all processes share.
pub fn monotonic_ns() -> u64 {
    // SAFETY: the system fills in the time.
    let now = unsafe {
        let mut now: libc::timespec = zeroed();
        libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now);
        now
    };
    now.tv_sec.unsigned_abs() * 1_000_000_000 + now.tv_nsec.unsigned_abs()
}
