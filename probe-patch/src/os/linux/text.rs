//! Protection of pages.

// Safety: relies on the caller, who takes no right from pages but that to write, and that only once
// nobody writes.
#![expect(unsafe_code, reason = "see above")]

use std::io;
use std::ops::Range;
use std::sync::atomic::AtomicU32;

use super::maps::Rights;

/// Bytes of a page; x86-64 has no other.
pub const fn page_size() -> usize {
    4096
}

/// The pages that the bytes lie in.
pub fn pages(bytes: Range<usize>) -> Range<usize> {
    let size = page_size();
    bytes.start & !(size - 1)..bytes.end.next_multiple_of(size)
}

/// Sets the rights of whole pages.
///
/// # Errors
/// The kernel's: `EACCES` or `EPERM` where a policy or a seal forbids it. Of several mappings,
/// those before the one that it failed for may have been changed.
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

/// Whether what lies at an address can be written: the kernel adds 0 to it, which is as harmless as
/// it is whole. Some 0.2 µs; `None` where the kernel does not say. Needs neither `/proc` nor a
/// descriptor.
pub fn is_writable(addr: usize) -> Option<bool> {
    static NOBODY_WAITS: AtomicU32 = AtomicU32::new(0);
    const ADD_0: libc::c_int = libc::FUTEX_OP_ADD << 28;
    let (word, wake) = (addr & !3, libc::FUTEX_WAKE_OP | libc::FUTEX_PRIVATE_FLAG);
    // SAFETY: an aligned word, which keeps its value, or a fault that the kernel reports; nobody
    // waits at either address.
    let done = unsafe { libc::syscall(libc::SYS_futex, NOBODY_WAITS.as_ptr(), wake, 0, 0, word, ADD_0) };
    match done {
        -1 if super::thread::errno() == libc::EFAULT => Some(false),
        -1 => None,
        _ => Some(true),
    }
}
