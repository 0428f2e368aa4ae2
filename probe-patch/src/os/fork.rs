//! Hooks around `fork`, on systems that have it.
//!
//! Hooks before a fork run in the reverse order of their installation, so locks are best taken in
//! that order too. This crate installs its hooks when it first opens text, or first needs a trap.
//!
//! A program may take a lock of its own in a hook (`pthread_atfork`), and also use this crate while
//! it holds that lock. It must then install its hook after this crate's. (`unrestored_bytes`
//! installs this crate's hooks at once, and `probes()` also those of `probe-runtime`.) A fork then
//! takes the program's lock before this crate's, as the program does elsewhere. If the program's
//! hook is installed earlier, a fork takes its lock last. Such a fork and a use of this crate on
//! another thread may then wait for each other for ever.
//!
//! The hooks run for `fork` alone. A child made by `vfork` or `posix_spawn` shares its parent's
//! memory, and can only become another program; a hit in it counts as one of the thread that it
//! borrows. A child made by a bare `clone` or `fork` system call starts in whatever state its
//! parent was in. Its hits count, but an operation may wait for a lock that no thread holds.

// Safety: relies on pthread_atfork(3) alone.
#![expect(unsafe_code, reason = "see above")]

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// Returns a number for this process. It is not 0, and differs from the numbers of its children.
///
/// The upper half counts the forks since hooks were first installed. A parent and its child may
/// have the same process id, since each may be the first process of its namespace. The lower half
/// is that id, since a bare `clone` runs no hooks.
pub fn process() -> u64 {
    (u64::from(FORKS.load(Ordering::Relaxed)) << 32) | u64::from(std::process::id())
}

static FORKS: AtomicU32 = AtomicU32::new(0);

extern "C" fn count() {
    FORKS.fetch_add(1, Ordering::Relaxed);
}

/// Installs hooks. `before` runs in the parent before a fork; `parent` and `child` run after it,
/// each in its process.
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
