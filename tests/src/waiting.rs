//! A thread that waits for another one, as the other one can see it.

use std::fs;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::thread;

/// How often a thread sleeps until it surely waits: it may sleep on its way, too.
const SLEEPS: u64 = 5;

/// An operation that waits for this thread's hits, on another thread.
#[derive(Default, Debug)]
pub struct Waiting {
    /// The number of the thread, once it begins.
    thread: AtomicI32,
    is_over: AtomicBool,
}

impl Waiting {
    /// Runs an operation that waits for a call of [`until_it_waits`](Self::until_it_waits).
    pub fn run<T>(&self, operation: impl FnOnce() -> T) -> T {
        // SAFETY: returns a number.
        self.thread.store(unsafe { libc::gettid() }, Ordering::SeqCst);
        let done = operation();
        self.is_over.store(true, Ordering::SeqCst);
        done
    }

    /// Returns once the operation waits, or, if it does not wait, once it is over.
    ///
    /// # Panics
    /// If the kernel does not tell how often the other thread has slept.
    pub fn until_it_waits(&self) {
        let mut began = None;
        while !self.is_over.load(Ordering::SeqCst) {
            let thread = self.thread.load(Ordering::SeqCst);
            if thread != 0 {
                let now = sleeps_of(thread);
                if now >= *began.get_or_insert(now) + SLEEPS {
                    return;
                }
            }
            thread::yield_now();
        }
    }
}

/// Returns how often a thread of this process has slept.
fn sleeps_of(thread: i32) -> u64 {
    let status = fs::read_to_string(format!("/proc/self/task/{thread}/status")).expect("a thread's status");
    let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
    line.and_then(|number| number.trim().parse().ok()).expect("the kernel counts")
}
