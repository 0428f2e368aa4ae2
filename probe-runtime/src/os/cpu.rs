//! CPU time: what all threads of the process have used, and this one.

// Safety: relies on a call that writes one `timespec`.
#![expect(unsafe_code, reason = "see above")]

/// Nanoseconds that the process's threads have used so far, also those that have ended.
pub(crate) fn process() -> u64 {
    time(libc::CLOCK_PROCESS_CPUTIME_ID)
}

/// Nanoseconds that this thread has used so far.
pub(crate) fn thread() -> u64 {
    time(libc::CLOCK_THREAD_CPUTIME_ID)
}

fn time(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: a place for the result.
    if unsafe { libc::clock_gettime(clock, &raw mut time) } != 0 {
        return 0;
    }
    // Their types differ from system to system.
    u64::try_from(time.tv_sec).unwrap_or_default() * 1_000_000_000
        + u64::try_from(time.tv_nsec).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_takes_time() {
        let (of_all, own) = (process(), thread());
        while thread() < own + 1_000_000 {
            std::hint::spin_loop();
        }
        assert!(process() >= of_all + 1_000_000);
        assert!(process() >= thread());
    }
}
