//! The processor and the clock.

// Safety: relies on system calls that fill in a structure of this function.
#![expect(unsafe_code, reason = "see above")]

use std::mem::{MaybeUninit, zeroed};
use std::sync::OnceLock;

/// Keeps this thread on the `nth` of the processors that the process could use at the first call,
/// counted from the last. Returns whether there is one.
pub fn pin(nth: usize) -> bool {
    let Some(&one) = all().get(nth) else { return false };
    // SAFETY: a set of processors is plain bits, and the system reads at most its size.
    unsafe {
        let mut only: libc::cpu_set_t = zeroed();
        libc::CPU_SET(one, &mut only);
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const only) == 0
    }
}

/// Returns the number of processors that the process could use at the first call of this or
/// [`pin`].
pub fn processors() -> usize {
    all().len()
}

fn all() -> &'static [usize] {
    // A thread inherits its parent's pinning, so this asks only once.
    static PROCESSORS: OnceLock<Vec<usize>> = OnceLock::new();
    PROCESSORS.get_or_init(allowed)
}

/// Returns the processors that this thread may use, the last one first.
fn allowed() -> Vec<usize> {
    let all = (0..8 * size_of::<libc::cpu_set_t>()).rev();
    // SAFETY: a set of processors is plain bits, and the system fills in at most its size.
    let allowed = unsafe {
        let mut allowed: libc::cpu_set_t = zeroed();
        libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &raw mut allowed);
        allowed
    };
    // SAFETY: each is within the set.
    all.filter(|cpu| unsafe { libc::CPU_ISSET(*cpu, &allowed) }).collect()
}

/// Returns the nanoseconds of the monotonic clock, which all processes share.
pub fn monotonic_ns() -> u64 {
    clock_ns(libc::CLOCK_MONOTONIC)
}

/// Returns the nanoseconds for which this thread has had a processor.
pub fn thread_ns() -> u64 {
    clock_ns(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// Returns the nanoseconds for which all threads of this process have had processors.
pub fn process_ns() -> u64 {
    clock_ns(libc::CLOCK_PROCESS_CPUTIME_ID)
}

fn clock_ns(clock: libc::clockid_t) -> u64 {
    // SAFETY: the system fills in the time.
    let now = unsafe {
        let mut now: libc::timespec = zeroed();
        libc::clock_gettime(clock, &raw mut now);
        now
    };
    now.tv_sec.unsigned_abs() * 1_000_000_000 + now.tv_nsec.unsigned_abs()
}

/// Returns how often another thread has preempted this one.
pub fn preemptions() -> i64 {
    let mut usage = MaybeUninit::uninit();
    // SAFETY: the system fills in a structure of this function, or returns an error.
    unsafe {
        if libc::getrusage(libc::RUSAGE_THREAD, usage.as_mut_ptr()) == 0 {
            usage.assume_init().ru_nivcsw
        } else {
            0
        }
    }
}
