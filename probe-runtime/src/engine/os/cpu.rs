//! CPU time of all threads of the process, and of one thread.

// Safety: relies on a call that writes one `timespec`.
#![expect(unsafe_code, reason = "see above")]

/// Returns the nanoseconds that the process's threads have used so far, ended threads included.
#[cfg(any(feature = "profiler", test))]
pub(crate) fn process() -> u64 {
    time(libc::CLOCK_PROCESS_CPUTIME_ID)
}

/// Returns the nanoseconds that this thread has used so far.
pub(crate) fn thread() -> u64 {
    time(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// Returns the nanoseconds that a thread of the process has used so far; 0 if it has ended. The
/// call makes the kernel book them. Otherwise the kernel books a running thread's time a few
/// hundred times a second, and [`process`] misses the time used since. The portable backend gives
/// threads numbers of its own and does not know their ids, so it has no such function.
#[cfg(all(probe_backend = "patched", any(feature = "profiler", test)))]
pub(crate) fn book(thread: u32) -> u64 {
    // The clock of a thread, made from its id as in `pthread_getcpuclockid(3)` (Linux,
    // posix-timers.h).
    const OF_A_THREAD: i32 = 0b110;
    time((!thread.cast_signed() << 3) | OF_A_THREAD)
}

fn time(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: a place for the result.
    if unsafe { libc::clock_gettime(clock, &raw mut time) } != 0 {
        return 0;
    }
    // The fields' types differ from system to system.
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
                let before = book(other);
                while book(other) == before {
                    let waited = started.elapsed();
                    assert!(waited < Duration::from_secs(60), "{round}: still {before} ns of {other}");
                    std::hint::spin_loop();
                }
                let (own, of_other) = (thread(), book(other));
                let of_all = process();
                assert!(of_all >= own + of_other, "{round}: {of_all} ns, {own} and {of_other} of threads");
            }
        });
        // Greater than any thread id (proc(5), `pid_max`).
        assert_eq!(book((1 << 22) + 1), 0);
    }
}
