//! Protection of pages.

// Safety: relies on the caller, who names pages of code that stay readable and executable throughout.
#![expect(unsafe_code, reason = "see above")]

use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};

/// What may be done to text.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Access {
    /// Read and execute.
    Sealed,
    /// Read, execute and write.
    Open,
}

/// Bytes of a page.
pub(crate) fn page_size() -> usize {
    static SIZE: AtomicUsize = AtomicUsize::new(0);
    let known = SIZE.load(Ordering::Relaxed);
    if known != 0 {
        return known;
    }
    // SAFETY: no pointers.
    let size = usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096);
    SIZE.store(size, Ordering::Relaxed);
    size
}

/// The pages that the bytes lie in.
pub(crate) fn pages(bytes: Range<usize>) -> Range<usize> {
    let size = page_size();
    bytes.start & !(size - 1)..bytes.end.next_multiple_of(size)
}

/// Sets the access to whole pages of text.
///
/// # Errors
/// The kernel's: `EACCES` or `EPERM` where a policy forbids text that can be written.
pub(crate) fn protect(pages: Range<usize>, access: Access) -> io::Result<()> {
    let rights = match access {
        Access::Sealed => libc::PROT_READ | libc::PROT_EXEC,
        Access::Open => libc::PROT_READ | libc::PROT_EXEC | libc::PROT_WRITE,
    };
    // SAFETY: the pages are text; neither access takes reading or executing away.
    match unsafe { libc::mprotect(pages.start as *mut _, pages.len(), rights) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
