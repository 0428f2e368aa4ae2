//! Beginning to trace a thread, and the reasons for which that fails.

use std::fmt;
use std::panic::resume_unwind;
use std::path::Path;
use std::thread;
use std::time::Duration;

use super::access::explain_refusal;
use super::status::TaskStatus;
use super::tracee::Tracee;
use crate::error::InjectError;

/// The most attempts. The reason for an error may be gone by the time it is looked for: a tracer
/// has detached the thread, or the thread has ended and one that becomes another program has its
/// id.
const MAX_ATTEMPTS: usize = 3;

/// Why a thread is left alone at this moment. Its text is the rest of a sentence about the thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SkipReason {
    /// It has ended.
    Ended,
    /// It waits uninterruptibly, which may last.
    Uninterruptible,
    /// Another reason.
    Other(&'static str),
}

impl fmt::Display for SkipReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

impl SkipReason {
    /// Other work keeps the thread from stopping.
    pub const NO_PROCESSOR: &str = "does not stop: it gets no processor";

    /// Returns its text.
    pub fn text(self) -> &'static str {
        match self {
            Self::Ended => "has ended",
            Self::Uninterruptible => "does not stop: it waits uninterruptibly",
            Self::Other(why) => why,
        }
    }

    /// Returns the reason why a thread still runs after it was asked to stop.
    pub fn still_running(pid: u32, id: u32) -> Self {
        match TaskStatus::of_thread(pid, id).map(|it| it.state) {
            Some('D') => Self::Uninterruptible,
            _ => Self::Other(Self::NO_PROCESSOR),
        }
    }
}

/// Begins to trace a thread, which keeps running. The inner error holds for this moment only.
///
/// # Errors
/// If nobody here can trace threads of the process.
pub fn seize(pid: u32, id: u32) -> Result<Result<Tracee, SkipReason>, InjectError> {
    let mut attempts = 0;
    loop {
        let error = match Tracee::seize(id) {
            Ok(tracee) => return Ok(Ok(tracee)),
            Err(error) if error.raw_os_error() == Some(libc::ESRCH) => return Ok(Err(SkipReason::Ended)),
            Err(error) => error,
        };
        attempts += 1;
        // The system gives the same error for a thread that is about to end.
        let status = TaskStatus::of_thread(pid, id).filter(|it| !matches!(it.state, 'Z' | 'X'));
        let Some(status) = status else { return Ok(Err(SkipReason::Ended)) };
        if status.tracer == 0 {
            if attempts < MAX_ATTEMPTS {
                continue;
            }
            return Err(explain_refusal(pid, &status, error));
        }
        if Path::new(&format!("/proc/self/task/{}", status.tracer)).exists() {
            return Ok(Err(SkipReason::Other("is about to be let go")));
        }
        let name = TaskStatus::of(status.tracer).unwrap_or_default().name;
        return Err(InjectError::Traced { pid, tracer: status.tracer, name });
    }
}

/// Seizes a thread on a short-lived thread of this process, and runs `work` with it. Returns the
/// longest stop and the work's result. The inner error holds for this moment only.
///
/// # Errors
/// As those of [`seize`], and those of the work.
pub fn with_seized<R: Send>(
    pid: u32,
    id: u32,
    work: impl FnOnce(&Tracee) -> Result<Result<R, SkipReason>, InjectError> + Send,
) -> Result<(Duration, Result<R, SkipReason>), InjectError> {
    let attempt = move || match seize(pid, id)? {
        Ok(tracee) => work(&tracee).map(|done| (tracee.longest_stop(), done)),
        Err(why) => Ok((Duration::ZERO, Err(why))),
    };
    // The kernel also detaches the tracee when the thread ends that has seized it.
    let attempted = thread::scope(|scope| scope.spawn(attempt).join());
    attempted.unwrap_or_else(|panic| resume_unwind(panic))
}
