//! Beginning to trace a thread, and the reason why not.

use std::fmt;
use std::panic::resume_unwind;
use std::path::Path;
use std::thread;
use std::time::Duration;

use super::access::refused;
use super::status::Status;
use super::tracee::Thread;
use crate::error::InjectError;

/// The number of tries, since the reason for an error may be gone when it is looked for. A tracer
/// has let the thread go; or the thread had ended, and one that becomes another program has taken
/// its id.
const TRIES: usize = 3;

/// Why nothing is done with a thread at this moment. Its text is the rest of a sentence about the
/// thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reason {
    /// It has ended.
    Ended,
    /// It waits uninterruptibly, which may last.
    Sleeps,
    /// Another reason.
    Other(&'static str),
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

impl Reason {
    /// Said of a thread that other work keeps from stopping.
    pub const NO_PROCESSOR: &str = "does not stop: it gets no processor";

    /// Returns its text.
    pub fn text(self) -> &'static str {
        match self {
            Self::Ended => "has ended",
            Self::Sleeps => "does not stop: it waits uninterruptibly",
            Self::Other(why) => why,
        }
    }

    /// Returns the reason why a thread has not stopped.
    pub fn not_stopped(pid: u32, id: u32) -> Self {
        match Status::of_thread(pid, id).map(|it| it.state) {
            Some('D') => Self::Sleeps,
            _ => Self::Other(Self::NO_PROCESSOR),
        }
    }
}

/// Begins to trace a thread, which goes on. The error inside is that of this moment.
///
/// # Errors
/// If nobody here can trace threads of the process.
pub fn seize(pid: u32, id: u32) -> Result<Result<Thread, Reason>, InjectError> {
    let mut tries = 0;
    loop {
        let error = match Thread::seize(id) {
            Ok(thread) => return Ok(Ok(thread)),
            Err(error) if error.raw_os_error() == Some(libc::ESRCH) => return Ok(Err(Reason::Ended)),
            Err(error) => error,
        };
        tries += 1;
        // The system gives the same error for a thread that is about to end.
        let status = Status::of_thread(pid, id).filter(|it| !matches!(it.state, 'Z' | 'X'));
        let Some(status) = status else { return Ok(Err(Reason::Ended)) };
        if status.tracer == 0 {
            if tries < TRIES {
                continue;
            }
            return Err(refused(pid, &status, error));
        }
        if Path::new(&format!("/proc/self/task/{}", status.tracer)).exists() {
            return Ok(Err(Reason::Other("is about to be let go")));
        }
        let name = Status::of(status.tracer).unwrap_or_default().name;
        return Err(InjectError::Traced { pid, tracer: status.tracer, name });
    }
}

/// Seizes a thread on a short-lived thread of this process, and runs `work` with it. Returns the
/// longest stop, and the work's result. The error inside is that of this moment.
///
/// # Errors
/// As those of [`seize`], and those of the work.
pub fn briefly<R: Send>(
    pid: u32,
    id: u32,
    work: impl FnOnce(&Thread) -> Result<Result<R, Reason>, InjectError> + Send,
) -> Result<(Duration, Result<R, Reason>), InjectError> {
    let attempt = move || match seize(pid, id)? {
        Ok(thread) => work(&thread).map(|done| (thread.longest_stop(), done)),
        Err(why) => Ok((Duration::ZERO, Err(why))),
    };
    // The kernel lets a thread go, too, when the one ends that has stopped it.
    let attempted = thread::scope(|scope| scope.spawn(attempt).join());
    attempted.unwrap_or_else(|panic| resume_unwind(panic))
}
