//! Hooks around `fork`, wherever there is one.
//!
//! Hooks before a fork run in the reverse order of their installation, so that locks are best taken
//! in that order too. Those of this crate are installed when it first opens text, or first needs a
//! trap. A program that takes a lock of its own in a hook (`pthread_atfork`), and also uses this
//! crate while it holds that lock, must install that hook later (`unrestored_bytes` installs this
//! crate's at once, and `probes()` those of `probe-runtime`, too): its lock is then taken before
//! this crate's, as everywhere else. Installed earlier, it is taken after them: a fork and such a
//! use on another thread may then wait for each other for ever.
//!
//! They run for `fork` alone. A child by `vfork` or `posix_spawn` has its parent's memory, and
//! nothing to do but to become another program; a hit there is one of the thread that it borrows. A
//! child by a bare `clone` or `fork` system call has whatever state its parent was in: its hits
//! count, but an operation may wait for a lock that nobody holds.

// Safety: relies on pthread_atfork(3) alone.
#![expect(unsafe_code, reason = "see above")]

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// This process, by a number that is not 0, and that its children do not have.
///
/// The upper half counts the forks since hooks were first installed, since a parent and its child
/// may have one id: each may be the first of its namespace. The lower half is the id, since a bare
/// `clone` runs no hooks.
pub fn process() -> u64 {
    (u64::from(FORKS.load(Ordering::Relaxed)) << 32) | u64::from(std::process::id())
}

static FORKS: AtomicU32 = AtomicU32::new(0);

extern "C" fn count() {
    FORKS.fetch_add(1, Ordering::Relaxed);
}

/// `before` runs in the parent before it forks, `parent` and `child` after it, each in its process.
pub fn install(before: extern "C" fn(), parent: extern "C" fn(), child: extern "C" fn()) {
    unsafe extern "C" {
        fn pthread_atfork(
            before: Option<extern "C" fn()>,
            parent: Option<extern "C" fn()>,
            child: Option<extern "C" fn()>,
        ) -> libc::c_int;
    }
    static IS_COUNTED: AtomicBool = AtomicBool::new(false);
    if !IS_COUNTED.swap(true, Ordering::Relaxed) {
        // SAFETY: a function, which stays.
        unsafe { pthread_atfork(None, None, Some(count)) };
    }
    // SAFETY: three functions, which stay.
    unsafe { pthread_atfork(Some(before), Some(parent), Some(child)) };
}
