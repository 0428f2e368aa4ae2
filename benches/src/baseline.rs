//! The minimum work of switching a site: a locked write to open text, a lock, and system calls.

// Safety: relies on pages of code that stay readable and executable throughout, and on a page of
// its own.
#![expect(unsafe_code, reason = "see above")]

use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};

const PAGE: usize = 4096;

/// An aligned word in a page that is writable and executable.
pub struct OpenWord(&'static AtomicU64);

impl Default for OpenWord {
    fn default() -> Self {
        Self::new()
    }
}

impl OpenWord {
    /// Maps a page for the word; it is never unmapped.
    ///
    /// # Panics
    /// If the system gives no page that is writable and executable.
    pub fn new() -> Self {
        let rights = libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: a new private mapping overlaps nothing.
        let page = unsafe { libc::mmap(ptr::null_mut(), PAGE, rights, flags, -1, 0) };
        assert_ne!(page, libc::MAP_FAILED, "no page that may be written and executed");
        // SAFETY: aligned, zeroed, and never unmapped.
        Self(unsafe { AtomicU64::from_ptr(page.cast()) })
    }

    /// Executes one `lock cmpxchg`, which succeeds.
    pub fn exchange(&self) {
        let found = self.0.load(Ordering::Relaxed);
        let _ = self.0.compare_exchange(found, found ^ 1, Ordering::SeqCst, Ordering::Relaxed);
    }
}

/// Calls `mprotect` on the one page of text at `addr`: writable if `open`, else read-only.
///
/// # Panics
/// If the system does not allow it.
pub fn protect(addr: usize, open: bool) {
    let write = if open { libc::PROT_WRITE } else { 0 };
    let rights = libc::PROT_READ | libc::PROT_EXEC | write;
    // SAFETY: text that stays readable and executable; nothing relies on a fault.
    let status = unsafe { libc::mprotect((addr & !(PAGE - 1)) as *mut _, PAGE, rights) };
    assert_eq!(status, 0, "mprotect: {}", std::io::Error::last_os_error());
}

/// Executes one `membarrier(PRIVATE_EXPEDITED_SYNC_CORE)`; registers the process first if
/// necessary.
///
/// # Panics
/// If the kernel does not support it.
pub fn membarrier() {
    const SYNC_CORE: libc::c_int = 1 << 5;
    const REGISTER: libc::c_int = 1 << 6;
    // SAFETY: takes no pointer and has no effect but the barrier.
    let call = |command: libc::c_int| unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) };
    if call(SYNC_CORE) != 0 {
        assert!(call(REGISTER) == 0 && call(SYNC_CORE) == 0, "no membarrier");
    }
}
