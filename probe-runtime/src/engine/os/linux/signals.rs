//! Keeps signal handlers away from a few instructions of this thread.

// Safety: relies on the kernel's signal set being 8 bytes.
#![expect(unsafe_code, reason = "see above")]

use std::marker::PhantomData;
use std::ptr;

const SET: usize = 8;

/// A guard. While it lives, no signal handler runs on this thread, so none forks there or leaves by
/// `siglongjmp`. Costs two system calls, 0.2 µs, which no environment denies.
pub(crate) struct Blocked {
    before: u64,
    // The signal mask belongs to one thread.
    not_send: PhantomData<*mut ()>,
}

impl Blocked {
    pub(crate) fn new() -> Self {
        let (all, mut before) = (u64::MAX, 0);
        // Calls the kernel directly: the C library leaves out the signals that it uses itself, and
        // their handlers may end the thread.
        // SAFETY: two signal sets.
        unsafe {
            libc::syscall(libc::SYS_rt_sigprocmask, libc::SIG_SETMASK, &raw const all, &raw mut before, SET);
        }
        Self { before, not_send: PhantomData }
    }
}

impl Drop for Blocked {
    fn drop(&mut self) {
        let none = ptr::null_mut::<u64>();
        // SAFETY: as above.
        unsafe {
            libc::syscall(libc::SYS_rt_sigprocmask, libc::SIG_SETMASK, &raw const self.before, none, SET)
        };
    }
}
