//! Beginning to trace a thread, and the reason why not.

use std::path::Path;

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
