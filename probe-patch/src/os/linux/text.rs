//! The rights of pages.

// Safety: relies on the caller, who removes only the right to write from pages, and does so once no
// thread writes.
#![expect(unsafe_code, reason = "see above")]

use std::io;
use std::ops::Range;
use std::sync::atomic::AtomicU32;

use super::maps::Rights;
use crate::arch::PAGE_SIZE;

/// Returns the size of a page in bytes.
pub const fn page_size() -> usize {
    PAGE_SIZE
}

/// Returns the pages that hold the bytes.
pub fn pages(bytes: Range<usize>) -> Range<usize> {
    let size = page_size();
    bytes.start & !(size - 1)..bytes.end.next_multiple_of(size)
}

/// Sets the rights of whole pages.
///
/// # Errors
/// The kernel's: `EACCES` or `EPERM` if a policy or a seal forbids it. If the pages lie in several
/// mappings, the rights of those before the failing one may have been changed.
pub fn protect(pages: &Range<usize>, rights: Rights) -> io::Result<()> {
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

/// Returns whether the bytes at an address can be written, and `None` if the kernel does not tell.
/// The kernel adds 0 to an aligned word there, atomically, so the bytes keep their value. This
/// takes about 0.2 µs, and needs neither `/proc` nor a descriptor.
pub fn is_writable(addr: usize) -> Option<bool> {
    static NOBODY_WAITS: AtomicU32 = AtomicU32::new(0);
    const ADD_0: libc::c_int = libc::FUTEX_OP_ADD << 28;
    let (word, wake) = (addr & !3, libc::FUTEX_WAKE_OP | libc::FUTEX_PRIVATE_FLAG);
    // SAFETY: an aligned word, which keeps its value, or a fault that the kernel reports. No thread
    // waits at either address.
    let done = unsafe { libc::syscall(libc::SYS_futex, NOBODY_WAITS.as_ptr(), wake, 0, 0, word, ADD_0) };
    match done {
        -1 if crate::os::thread::errno() == libc::EFAULT => Some(false),
        -1 => None,
        _ => Some(true),
    }
}
