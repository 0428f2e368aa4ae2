//! Protection of pages.

// Safety: relies on the caller, who takes no right from pages but that to write, and that only once nobody writes.
#![expect(unsafe_code, reason = "see above")]

use std::io;
use std::ops::Range;

use super::maps::Rights;

/// Bytes of a page; x86-64 has no other.
pub(crate) const fn page_size() -> usize {
    4096
}

/// The pages that the bytes lie in.
pub(crate) fn pages(bytes: Range<usize>) -> Range<usize> {
    let size = page_size();
    bytes.start & !(size - 1)..bytes.end.next_multiple_of(size)
}

/// Sets the rights of whole pages.
///
/// # Errors
/// The kernel's: `EACCES` or `EPERM` where a policy or a seal forbids it. Of several mappings, those before the one that
/// it failed for may have been changed.
pub(crate) fn protect(pages: &Range<usize>, rights: Rights) -> io::Result<()> {
    let mut bits = libc::PROT_NONE;
    for (is_there, bit) in
        [(rights.read, libc::PROT_READ), (rights.write, libc::PROT_WRITE), (rights.execute, libc::PROT_EXEC)]
    {
        bits |= if is_there { bit } else { 0 };
    }
    // Not through the C library's function, which may be a program's own, with a probe in it.
    // SAFETY: the caller's promise.
    match unsafe { libc::syscall(libc::SYS_mprotect, pages.start, pages.len(), i64::from(bits)) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
