//! Defers a thread's cancellation.

// Safety: relies on pthread_setcancelstate(3) alone.
#![expect(unsafe_code, reason = "see above")]

use std::marker::PhantomData;
use std::ptr;

/// The same in glibc and musl.
const DISABLE: libc::c_int = 1;

// It may unwind: a cancellation is a forced unwind.
unsafe extern "C-unwind" {
    // Not in the `libc` crate for every C library.
    fn pthread_setcancelstate(state: libc::c_int, old: *mut libc::c_int) -> libc::c_int;
}

/// A guard that defers this thread's cancellation: a `pthread_cancel` waits while the guard lives.
/// So a cancellation never leaves a lock held or text open, and never unwinds through Rust's
/// frames, which a forced unwind must not cross. Cost: two calls of about 2 ns.
#[must_use = "dropping it lets the thread be cancelled again"]
pub struct Uncancellable {
    outer: libc::c_int,
    // The state belongs to one thread.
    not_send: PhantomData<*mut ()>,
}

impl Uncancellable {
    #[inline]
    pub fn new() -> Self {
        let mut outer = DISABLE;
        // SAFETY: a known state, and a place for the previous one. (Any code may call it, even a
        // signal handler.)
        unsafe { pthread_setcancelstate(DISABLE, &raw mut outer) };
        Self { outer, not_send: PhantomData }
    }
}

impl Drop for Uncancellable {
    #[inline]
    fn drop(&mut self) {
        if self.outer != DISABLE {
            // SAFETY: the state that this thread had. A deferred cancellation takes effect at the
            // next cancellation point. (A thread with asynchronous cancellation does not return
            // from here, but such a thread must not run Rust.)
            unsafe { pthread_setcancelstate(self.outer, ptr::null_mut()) };
        }
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// Returns whether this thread's cancellation is deferred now.
    pub fn is_off() -> bool {
        Uncancellable::new().outer == DISABLE
    }

    #[test]
    #[cfg_attr(miri, ignore = "pthread_setcancelstate(3)")]
    fn cancellation_is_off_while_it_lives() {
        assert!(!is_off());
        let guard = Uncancellable::new();
        assert!(is_off());
        drop(guard);
        assert!(!is_off());
    }
}
