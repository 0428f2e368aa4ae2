//! Keeping a thread's cancellation off.

// Safety: relies on pthread_setcancelstate(3) alone.
#![expect(unsafe_code, reason = "see above")]

use std::marker::PhantomData;
use std::ptr;

/// The same in glibc and musl.
const DISABLE: libc::c_int = 1;

// It may unwind: what cancels a thread is a forced unwind.
unsafe extern "C-unwind" {
    // Not in the `libc` crate for every C library.
    fn pthread_setcancelstate(state: libc::c_int, old: *mut libc::c_int) -> libc::c_int;
}

/// While it lives, this thread can't be cancelled: a `pthread_cancel` waits. What a cancellation
/// would tear apart (a lock that is held, text that is open, Rust's frames, which a forced unwind
/// must not cross) is whole. Cost: two calls of some 2 ns.
#[must_use = "dropping it lets the thread be cancelled again"]
pub struct Uncancellable {
    outer: libc::c_int,
    // A thread's state.
    not_send: PhantomData<*mut ()>,
}

impl Uncancellable {
    #[inline]
    pub fn new() -> Self {
        let mut outer = DISABLE;
        // SAFETY: a known state, and a place for the one before. (It may be called anywhere, signal
        // handlers among them.)
        unsafe { pthread_setcancelstate(DISABLE, &raw mut outer) };
        Self { outer, not_send: PhantomData }
    }
}

impl Drop for Uncancellable {
    #[inline]
    fn drop(&mut self) {
        if self.outer != DISABLE {
            // SAFETY: the state that this thread had. A cancellation that waits takes effect at the
            // next cancellation point. (A thread that may be cancelled anywhere does not get back
            // from here; but such a thread must not run Rust.)
            unsafe { pthread_setcancelstate(self.outer, ptr::null_mut()) };
        }
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// Whether this thread can't be cancelled now.
    pub fn is_off() -> bool {
        Uncancellable::new().outer == DISABLE
    }

    #[test]
    #[cfg_attr(miri, ignore = "pthread_setcancelstate(3)")]
    fn cancellation_is_off_while_it_lives() {
        assert!(!is_off());
        let whole = Uncancellable::new();
        assert!(is_off());
        drop(whole);
        assert!(!is_off());
    }
}
