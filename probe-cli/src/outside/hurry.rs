//! A time in which this thread goes before ordinary ones.
//!
//! Life cycle: [`Hurry::begin`] ▸ work of milliseconds ▸ drop. Threads that it starts meanwhile
//! keep the priority. Without the right (`CAP_SYS_NICE`) nothing changes.
//!
//! It is no real-time priority. The work reads tables that a hostile program may have made large,
//! and other threads still get a part of the processor meanwhile.

use rustix::process::{getpriority_process, setpriority_process};

/// The nice value before which no ordinary thread goes.
const FIRST: i32 = -20;

/// This thread's nice value before.
pub struct Hurry(i32);

impl Hurry {
    /// Begins; `None` without the right. Linux has a nice value for each thread, so others keep
    /// theirs.
    pub fn begin() -> Option<Self> {
        let before = getpriority_process(None).ok()?;
        setpriority_process(None, FIRST).ok()?;
        Some(Self(before))
    }
}

impl Drop for Hurry {
    fn drop(&mut self) {
        // A value that is not lower needs no right.
        let _ = setpriority_process(None, self.0);
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
