//! Lets this thread run before other threads of its session and control group for a while.
//!
//! Life cycle: [`raise_priority`] ▸ work without waiting for others ▸ drop. Threads that it starts
//! meanwhile keep the priority. Without the right (`CAP_SYS_NICE`, or `RLIMIT_NICE`) nothing
//! changes.
//!
//! It is no real-time priority. The work reads tables and lists of mappings before sites are
//! switched. A hostile program may have made these large, so that it takes long, and other threads
//! still get a part of the processor.

use rustix::process::{getpriority_process, setpriority_process};

/// The nice value of the highest priority.
const HIGHEST: i32 = -20;

/// Restores the priority when it is dropped.
pub struct RaisedPriority {
    /// The nice value that the thread had.
    before: i32,
}

/// Raises the thread's priority; `None` without the right. Linux has a nice value for each thread,
/// so others keep theirs.
pub fn raise_priority() -> Option<RaisedPriority> {
    let before = getpriority_process(None).ok()?;
    setpriority_process(None, HIGHEST).ok()?;
    Some(RaisedPriority { before })
}

impl Drop for RaisedPriority {
    fn drop(&mut self) {
        // A value that is not lower needs no right.
        let _ = setpriority_process(None, self.before);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_gets_its_priority_back() {
        let nice = || getpriority_process(None).unwrap();
        let before = nice();
        let raised = raise_priority();
        assert_eq!(nice(), if raised.is_some() { HIGHEST } else { before });
        drop(raised);
        assert_eq!(nice(), before);
    }
}
