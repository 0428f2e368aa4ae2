//! A time in which this thread goes before other ones of its session and control group.
//!
//! Life cycle: [`Hurry::begin`] ▸ work without waiting for others ▸ drop. Threads that it starts
//! meanwhile keep the priority. Without the right (`CAP_SYS_NICE`, or `RLIMIT_NICE`) nothing
//! changes.
//!
//! It is no real-time priority. The work reads tables and lists of mappings before sites are
//! switched. A hostile program may have made these large, so that it takes long, and other threads
//! still get a part of the processor.

use rustix::process::{getpriority_process, setpriority_process};

/// The lowest nice value.
const FIRST: i32 = -20;

/// Ends such a time when it is dropped.
pub struct Hurry {
    /// The thread's nice value before.
    before: i32,
}

impl Hurry {
    /// Begins; `None` without the right. Linux has a nice value for each thread, so others keep
    /// theirs.
    pub fn begin() -> Option<Self> {
        let before = getpriority_process(None).ok()?;
        setpriority_process(None, FIRST).ok()?;
        Some(Self { before })
    }
}

impl Drop for Hurry {
    fn drop(&mut self) {
        // A value that is not lower needs no right.
        let _ = setpriority_process(None, self.before);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_is_as_before() {
        let nice = || getpriority_process(None).unwrap();
        let before = nice();
        let hurry = Hurry::begin();
        assert_eq!(nice(), if hurry.is_some() { FIRST } else { before });
        drop(hurry);
        assert_eq!(nice(), before);
    }
}
