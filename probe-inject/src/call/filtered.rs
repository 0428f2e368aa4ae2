//! Whether all threads of a process outlive any system call.
//!
//! A function that is called may have an effect on other threads: these may run code of the library
//! that it loads. A thread of a sandbox may have a filter that ends the program at a system call
//! which that code makes.

use std::thread;
use std::time::Instant;

use super::safe_point::{repeat, stop};
use super::target::{Process, ROUND};
use crate::error::InjectError;
use crate::process::{Filters, Reason, Status, Stopped, all_survive, briefly, threads};

const MIGHT: &str = "which might end the program when that makes a call it did not make before";

impl Process {
    /// Checks that no thread has a filter of system calls (seccomp) that may end the program, for
    /// any call that the thread may make. A filter that refuses calls with an error does not end
    /// it. Each thread that has a filter is stopped for that, for 0.1 ms.
    ///
    /// # Errors
    /// [`InjectError::Unable`] if there is such a filter, or if this process may not read filters:
    /// only root may (`CAP_SYS_ADMIN`).
    pub fn check_filters(&mut self) -> Result<(), InjectError> {
        for id in threads(self.pid) {
            if !Status::of_thread(self.pid, id).is_some_and(|it| it.is_filtered) {
                continue;
            }
            let pid = self.pid;
            let unable = |why: &str| InjectError::Unable {
                pid,
                problem: format!("has a filter of system calls (seccomp) on thread {id}, {why}"),
            };
            let Some(read) = self.filters(id)? else { continue };
            let filters = read.map_err(|why| unable(&why))?;
            if !self.judged.contains(&filters) {
                if !all_survive(&filters) {
                    return Err(unable(MIGHT));
                }
                self.judged.push(filters);
            }
        }
        Ok(())
    }

    /// Reads the filters of a thread; `None` if it has ended. One that gets no processor is tried
    /// again.
    fn filters(&mut self, id: u32) -> Result<Option<Result<Filters, String>>, InjectError> {
        let pid = self.pid;
        let begun = Instant::now();
        loop {
            let (stopped, read) = briefly(pid, id, |thread| {
                Ok(match stop(pid, id, thread) {
                    Ok(Stopped::Ended) | Err(_) => Err(Reason::Ended),
                    Ok(Stopped::NotYet) => Err(Reason::not_stopped(pid, id)),
                    Ok(_) => {
                        let read = thread.filters();
                        repeat(pid, id, thread);
                        // One that was killed needs nothing.
                        let _ = thread.let_go();
                        Ok(read)
                    }
                })
            })?;
            self.longest = self.longest.max(stopped);
            self.stops += 1;
            match read {
                Ok(read) => {
                    return Ok(Some(read.map_err(|error| {
                        format!("which can't be read ({error}); that needs root without a filter")
                    })));
                }
                Err(Reason::Ended) => return Ok(None),
                Err(why) if why == Reason::Sleeps || begun.elapsed() > self.patience => {
                    return Ok(Some(Err(format!("and {why}"))));
                }
                Err(_) => thread::sleep(ROUND),
            }
        }
    }
}
