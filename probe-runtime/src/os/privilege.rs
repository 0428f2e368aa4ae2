//! Whether the program may do more than whoever has started it.

// Safety: relies on getauxval(3), which reads what the kernel has given to the process.
#![expect(unsafe_code, reason = "see above")]

/// Whether its file gives it rights (setuid, setgid, capabilities) that whoever has started it, and
/// has chosen its environment, does not have.
pub(crate) fn is_raised() -> bool {
    // SAFETY: no pointers.
    unsafe { libc::getauxval(libc::AT_SECURE) != 0 }
}
