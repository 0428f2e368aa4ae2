//! Memory straight from the kernel: never from the heap, since a probe may sit in the allocator.

// Safety: relies on mmap(2) alone.
#![expect(unsafe_code, reason = "see above")]

use std::ptr;

/// Zeroed memory, mapped page by page as it is touched, never given back; null when there is none.
pub(crate) fn zeroed(len: usize) -> *mut u8 {
    let rights = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // SAFETY: a new private mapping overlaps nothing.
    let start = unsafe { libc::mmap(ptr::null_mut(), len, rights, flags, -1, 0) };
    if start == libc::MAP_FAILED {
        return ptr::null_mut();
    }
    // A huge page for a few counters would be a waste. Only advice: it may be refused.
    // SAFETY: the new mapping.
    unsafe { libc::madvise(start, len, libc::MADV_NOHUGEPAGE) };
    start.cast()
}

/// Gives memory back that nobody else knows of.
pub(crate) fn give_back(start: *mut u8, len: usize) {
    // SAFETY: the caller got it from `zeroed`, and has told nobody.
    unsafe { libc::munmap(start.cast(), len) };
}
