//! Hooks around `fork`, wherever there is one.
//!
//! They run for `fork` alone. A child by `vfork` or `posix_spawn` has its parent's memory, and nothing to do but to become
//! another program; a hit there is one of the thread that it borrows. A child by a bare `clone` or `fork` system call has
//! whatever state its parent was in: its hits count, but an operation may wait for a lock that nobody holds.

// Safety: relies on pthread_atfork(3) alone.
#![expect(unsafe_code, reason = "see above")]

/// `before` runs in the parent before it forks, `parent` and `child` after it, each in its process.
pub(crate) fn install(before: extern "C" fn(), parent: extern "C" fn(), child: extern "C" fn()) {
    unsafe extern "C" {
        fn pthread_atfork(
            before: Option<extern "C" fn()>,
            parent: Option<extern "C" fn()>,
            child: Option<extern "C" fn()>,
        ) -> libc::c_int;
    }
    // SAFETY: three functions, which stay.
    unsafe { pthread_atfork(Some(before), Some(parent), Some(child)) };
}
