//! A call when the process exits normally.

// Safety: relies on atexit(3) alone.
#![expect(unsafe_code, reason = "see above")]

/// Makes `at_exit` run once, when a thread calls `exit` or `main` returns. It does not run if the
/// process is killed, aborts, leaves by `_exit` or becomes another program. A forked child calls it
/// too, at its own end. Returns whether the system has accepted the call; it may lack memory.
pub(crate) fn install(at_exit: extern "C" fn()) -> bool {
    // SAFETY: a function that stays: this code is kept loaded.
    unsafe { libc::atexit(at_exit) == 0 }
}
