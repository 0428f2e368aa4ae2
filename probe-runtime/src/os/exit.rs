//! A call when the process exits by itself.

// Safety: relies on atexit(3) alone.
#![expect(unsafe_code, reason = "see above")]

/// `at_exit` runs once, when a thread calls `exit`, or `main` returns; not where the process is
/// killed, aborts, leaves by `_exit` or becomes another program. A forked child calls it too, at
/// its own end. Returns whether the system has taken it: it may lack memory for that.
pub(crate) fn install(at_exit: extern "C" fn()) -> bool {
    // SAFETY: a function, which stays: this code is kept loaded.
    unsafe { libc::atexit(at_exit) == 0 }
}
