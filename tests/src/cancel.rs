//! Threads that are cancelled: of the C library's, since a forced unwind must not meet a destructor
//! of Rust's.

use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::ptr;

/// A thread's first function.
pub type Start = extern "C-unwind" fn(*mut c_void) -> *mut c_void;

unsafe extern "C" {
    fn pthread_create(
        thread: *mut libc::pthread_t,
        attributes: *const libc::pthread_attr_t,
        start: Start,
        argument: *mut c_void,
    ) -> libc::c_int;
    fn pthread_cancel(thread: libc::pthread_t) -> libc::c_int;
}

/// A thread that the C library knows, and the standard library does not.
#[derive(Debug)]
pub struct Thread(libc::pthread_t);

impl Thread {
    /// Starts one with the function, which gets null.
    ///
    /// # Panics
    /// If there can be none.
    pub fn start(start: Start) -> Self {
        let mut thread = MaybeUninit::uninit();
        // SAFETY: a place for the result, and a function that ignores its argument.
        let result = unsafe { pthread_create(thread.as_mut_ptr(), ptr::null(), start, ptr::null_mut()) };
        assert_eq!(result, 0);
        // SAFETY: the call has succeeded.
        Self(unsafe { thread.assume_init() })
    }

    /// Cancels it, and waits for its end.
    pub fn cancel(self) {
        self.ask();
        self.join();
    }

    /// Asks it to end at its next cancellation point.
    ///
    /// # Panics
    /// If the system refuses.
    pub fn ask(&self) {
        // SAFETY: a thread that has not been joined.
        assert_eq!(unsafe { pthread_cancel(self.0) }, 0);
    }

    /// Waits for its end: that of a thread that was cancelled.
    ///
    /// # Panics
    /// If it was not.
    pub fn join(self) {
        let mut result = ptr::null_mut();
        // SAFETY: a thread that has not been joined, and a place for the result.
        assert_eq!(unsafe { libc::pthread_join(self.0, &raw mut result) }, 0);
        assert_eq!(result.addr(), usize::MAX, "PTHREAD_CANCELED");
    }
}
