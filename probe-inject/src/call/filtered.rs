//! Checking that the filters of all threads of a process kill it for no system call.
//!
//! A call may affect other threads: they may run code of a library that it loads. A thread in a
//! sandbox may have a filter that kills the program for a system call which that code makes.

use std::thread;
use std::time::Instant;

use super::safe_point::{prepare_detach, stop};
use super::target::{Process, RETRY_INTERVAL};
use crate::error::InjectError;
use crate::process::{Filters, SkipReason, TaskStatus, TraceeState, none_ever_kills, threads, with_seized};

impl Process {
    /// Checks that no thread has a filter of system calls (seccomp) that may end the program for
    /// any call. A filter that refuses calls with an error does not end it. Each thread that has a
    /// filter stops for 0.1 ms.
    ///
    /// # Errors
    /// [`InjectError::Unable`] if there is such a filter, or if this process may not read filters:
    /// only root may (`CAP_SYS_ADMIN`).
    pub fn check_filters(&mut self) -> Result<(), InjectError> {
        for id in threads(self.pid) {
            if !TaskStatus::of_thread(self.pid, id).is_some_and(|it| it.is_filtered) {
                continue;
            }
            let pid = self.pid;
            let unable = |why: &str| InjectError::Unable {
                pid,
                problem: format!("has a filter of system calls (seccomp) on thread {id}, {why}"),
            };
            let Some(read) = self.read_filters(id)? else { continue };
            let filters = read.map_err(|why| unable(&why))?;
            if !self.harmless_filters.contains(&filters) {
                if !none_ever_kills(&filters) {
                    return Err(unable(
                        "which might end the program when that makes a call it did not make before",
                    ));
                }
                self.harmless_filters.push(filters);
            }
        }
        Ok(())
    }

    /// Reads the filters of a thread; `None` if it has ended. Retries while the thread gets no
    /// processor.
    fn read_filters(&mut self, id: u32) -> Result<Option<Result<Filters, String>>, InjectError> {
        let pid = self.pid;
        let begun = Instant::now();
        loop {
            let (longest, read) = with_seized(pid, id, |tracee| {
                Ok(match stop(pid, id, tracee) {
                    Ok(TraceeState::Ended) | Err(_) => Err(SkipReason::Ended),
                    Ok(TraceeState::StillRunning) => Err(SkipReason::still_running(pid, id)),
                    Ok(_) => {
                        let read = tracee.filters();
                        prepare_detach(pid, id, tracee);
                        // It fails for a thread that was killed.
                        let _ = tracee.detach();
                        Ok(read)
                    }
                })
            })?;
            self.longest_stop = self.longest_stop.max(longest);
            self.stops += 1;
            match read {
                Ok(read) => {
                    return Ok(Some(read.map_err(|error| {
                        format!("which can't be read ({error}); that needs root without a filter")
                    })));
                }
                Err(SkipReason::Ended) => return Ok(None),
                Err(why) if why == SkipReason::Uninterruptible || begun.elapsed() > self.timeout => {
                    return Ok(Some(Err(format!("and {why}"))));
                }
                Err(_) => thread::sleep(RETRY_INTERVAL),
            }
        }
    }
}
