//! A thread that waits for another one, as the other one can see it.

use std::fs;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::thread;

/// Number of sleeps after which a thread counts as waiting. It may sleep a few times before.
const SLEEPS: u64 = 5;

/// An operation on another thread that waits for a hit of the caller's.
#[derive(Default, Debug)]
pub struct Waiting {
    /// The number of the thread, once it begins.
    thread: AtomicI32,
    is_over: AtomicBool,
}

impl Waiting {
    /// Runs an operation that waits for a call of [`until_it_waits`](Self::until_it_waits).
    pub fn run<T>(&self, operation: impl FnOnce() -> T) -> T {
        // Dropped also if the operation panics.
        let _over = Over(&self.is_over);
        // SAFETY: returns a number.
        self.thread.store(unsafe { libc::gettid() }, Ordering::SeqCst);
        operation()
    }

    /// Returns once the operation waits, or, if it does not wait, once it is over.
    ///
    /// # Panics
    /// If the kernel does not tell how often a living thread has slept.
    pub fn until_it_waits(&self) {
        let mut began = None;
        while !self.is_over.load(Ordering::SeqCst) {
            let thread = self.thread.load(Ordering::SeqCst);
            if thread != 0 {
                // The thread of an operation that is over may have ended.
                let Some(now) = sleeps_of(thread) else { return };
                if now >= *began.get_or_insert(now) + SLEEPS {
                    return;
                }
            }
            thread::yield_now();
        }
    }
}

/// Says that an operation is over.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// Returns how often a thread of this process has slept; `None` if it has ended.
fn sleeps_of(thread: i32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/self/task/{thread}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
    Some(line.and_then(|number| number.trim().parse().ok()).expect("the kernel counts"))
}
