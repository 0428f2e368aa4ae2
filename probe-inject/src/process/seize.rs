//! Beginning to trace a thread, and the reason why not.

use std::panic::resume_unwind;
use std::path::Path;
use std::thread;
use std::time::Duration;

use super::rights::refused;
use super::status::Status;
use super::thread::Thread;
use crate::error::InjectError;

/// Begins to trace a thread, which goes on. The error inside is that of this moment, as the rest of
/// a sentence about the thread.
///
/// # Errors
/// If nobody here can trace threads of the process.
pub fn seize(pid: u32, id: u32) -> Result<Result<Thread, &'static str>, InjectError> {
    let error = match Thread::seize(id) {
        Ok(thread) => return Ok(Ok(thread)),
        Err(error) if error.raw_os_error() == Some(libc::ESRCH) => return Ok(Err("has ended")),
        Err(error) => error,
    };
    // The system gives the same error for a thread that is about to end.
    let status = Status::of_thread(pid, id).filter(|it| !matches!(it.state, 'Z' | 'X'));
    let Some(status) = status else { return Ok(Err("has ended")) };
    if status.tracer == 0 {
        return Err(refused(pid, &status, error));
    }
    if Path::new(&format!("/proc/self/task/{}", status.tracer)).exists() {
        return Ok(Err("is about to be let go"));
    }
    let name = Status::of(status.tracer).unwrap_or_default().name;
    Err(InjectError::Traced { pid, tracer: status.tracer, name })
}

/// Lets a short-lived thread here trace a thread, and does something with it there. Returns for how
/// long it was stopped at a time, and the result. The error inside is that of this moment.
///
/// # Errors
/// As those of [`seize`], and those of the work.
pub fn briefly<R: Send>(
    pid: u32,
    id: u32,
    work: impl FnOnce(&Thread) -> Result<Result<R, &'static str>, InjectError> + Send,
) -> Result<(Duration, Result<R, &'static str>), InjectError> {
    let attempt = move || match seize(pid, id)? {
        Ok(thread) => work(&thread).map(|done| (thread.longest_stop(), done)),
        Err(why) => Ok((Duration::ZERO, Err(why))),
    };
    // The kernel lets a thread go, too, when the one ends that has stopped it.
    let attempted = thread::scope(|scope| scope.spawn(attempt).join());
    attempted.unwrap_or_else(|panic| resume_unwind(panic))
}
