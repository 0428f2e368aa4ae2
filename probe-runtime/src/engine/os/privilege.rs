//! Detects that the program has more rights than the user who started it.

// Safety: relies on getauxval(3), which reads what the kernel has given to the process.
#![expect(unsafe_code, reason = "see above")]

/// Returns whether the program's file gives it rights (setuid, setgid, capabilities) that its user
/// lacks. That user has chosen the program's environment.
pub(crate) fn is_raised() -> bool {
    // SAFETY: no pointers.
    unsafe { libc::getauxval(libc::AT_SECURE) != 0 }
}
