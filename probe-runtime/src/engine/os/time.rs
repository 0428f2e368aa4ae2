//! The system's clocks, and the CPU time of the process and of its threads, in nanoseconds.

// Safety: relies on clock_gettime(2), which writes the time that it is given a place for.
#![cfg_attr(all(unix, not(miri)), expect(unsafe_code, reason = "see above"))]

/// Returns the time of a clock; 0 if the system does not have it.
#[cfg(all(unix, not(miri)))]
fn read(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: a place for the result.
    if unsafe { libc::clock_gettime(clock, &raw mut time) } != 0 {
        return 0;
    }
    // The fields' types differ from system to system.
    u64::try_from(time.tv_sec).unwrap_or_default() * 1_000_000_000
        + u64::try_from(time.tv_nsec).unwrap_or_default()
}

/// Returns the time since the first call.
#[cfg(not(all(unix, not(miri))))]
fn elapsed() -> u64 {
    static START: std::sync::LazyLock<std::time::Instant> = std::sync::LazyLock::new(std::time::Instant::now);
    START.elapsed().as_nanos().try_into().unwrap_or(u64::MAX)
}

/// Returns the time of the monotonic clock; where that is not known, since the first call.
pub(crate) fn monotonic() -> u64 {
    #[cfg(all(unix, not(miri)))]
    return read(libc::CLOCK_MONOTONIC);
    #[cfg(not(all(unix, not(miri))))]
    elapsed()
}

/// Returns the calendar time since 1970.
pub(crate) fn real() -> u64 {
    #[cfg(all(unix, not(miri)))]
    return read(libc::CLOCK_REALTIME);
    #[cfg(not(all(unix, not(miri))))]
    {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        since.as_nanos().try_into().unwrap_or(u64::MAX)
    }
}

/// Returns the time since the machine was started, sleep included; 0 if it is not known.
pub(crate) fn since_boot() -> u64 {
    #[cfg(all(any(target_os = "linux", target_os = "android"), not(miri)))]
    return read(libc::CLOCK_BOOTTIME);
    #[cfg(not(all(any(target_os = "linux", target_os = "android"), not(miri))))]
    0
}

/// Returns the number that tells this start of the machine from others; 0 if it is not known.
/// (Linux: random(4), `/proc/sys/kernel/random/boot_id`.)
pub(crate) fn boot_id() -> u128 {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    u128::from_str_radix(&text.trim().replace('-', ""), 16).unwrap_or_default()
}

/// Returns the time that the process's threads have used so far, ended threads included. A system
/// without such a clock says the time since the first call.
pub(crate) fn process_cpu() -> u64 {
    #[cfg(all(unix, not(miri)))]
    return read(libc::CLOCK_PROCESS_CPUTIME_ID);
    #[cfg(not(all(unix, not(miri))))]
    elapsed()
}

/// Returns the time that this thread has used so far; 0 if it is not known.
pub(crate) fn thread_cpu() -> u64 {
    #[cfg(all(unix, not(miri)))]
    return read(libc::CLOCK_THREAD_CPUTIME_ID);
    #[cfg(not(all(unix, not(miri))))]
    0
}

/// Returns the time that a thread of the process has used so far; 0 if it has ended. The call makes
/// the kernel book them. Otherwise the kernel books a running thread's time a few hundred times a
/// second, and [`process_cpu`] misses the time used since. The portable backend gives threads
/// numbers of its own and does not know their ids, so it has no such function.
#[cfg(all(unix, not(miri)))]
pub(crate) fn book_cpu_of(thread: u32) -> u64 {
    // The clock of a thread, made from its id as in `pthread_getcpuclockid(3)` (Linux,
    // posix-timers.h).
    const OF_A_THREAD: i32 = 0b110;
    read((!thread.cast_signed() << 3) | OF_A_THREAD)
}

#[cfg(all(test, unix, not(miri)))]
mod tests {
    use super::*;

    #[test]
    fn work_takes_time() {
        let (of_all, own) = (process_cpu(), thread_cpu());
        while thread_cpu() < own + 1_000_000 {
            std::hint::spin_loop();
        }
        assert!(process_cpu() >= of_all + 1_000_000);
        assert!(process_cpu() >= thread_cpu());
    }

    #[cfg(probe_backend = "patched")]
    #[test]
    fn what_another_thread_uses_is_booked() {
        use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
        use std::sync::mpsc;
        use std::time::{Duration, Instant};

        /// Ends the other thread on drop, so also if a check fails.
        struct End<'a>(&'a AtomicBool);
        impl Drop for End<'_> {
            fn drop(&mut self) {
                self.0.store(true, SeqCst);
            }
        }

        let (is_over, (says, said)) = (AtomicBool::new(false), mpsc::channel());
        std::thread::scope(|scope| {
            let _end = End(&is_over);
            scope.spawn(|| {
                says.send(crate::engine::os::thread::id()).unwrap();
                while !is_over.load(SeqCst) {
                    std::hint::spin_loop();
                }
            });
            let other = said.recv().unwrap();
            let started = Instant::now();
            // Each reading is later than the last, once the thread has run in between.
            for round in 0..10 {
                let before = book_cpu_of(other);
                while book_cpu_of(other) == before {
                    let waited = started.elapsed();
                    assert!(waited < Duration::from_secs(60), "{round}: still {before} ns of {other}");
                    std::hint::spin_loop();
                }
                let (own, of_other) = (thread_cpu(), book_cpu_of(other));
                let of_all = process_cpu();
                assert!(of_all >= own + of_other, "{round}: {of_all} ns, {own} and {of_other} of threads");
            }
        });
        // Greater than any thread id (proc(5), `pid_max`).
        assert_eq!(book_cpu_of((1 << 22) + 1), 0);
    }
}
