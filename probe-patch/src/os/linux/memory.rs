//! Memory straight from the kernel: never from the heap, since a probe may sit in the allocator;
//! and never through the C library's functions for it, since a program may have its own in their
//! place, with probes in them, whose first hit asks for memory.

// Safety: relies on mmap(2), munmap(2) and madvise(2) alone.
#![expect(unsafe_code, reason = "see above")]

use std::ptr;

use super::thread::{errno, set_errno};

/// Zeroed memory, mapped page by page as it is touched; null when there is none.
pub fn zeroed(len: usize) -> *mut u8 {
    let Ok(start) = map(0, len, 0) else { return ptr::null_mut() };
    // A huge page for a few counters would be a waste. Only advice: it may be refused.
    #[cfg(not(miri))]
    // SAFETY: the new mapping.
    unsafe {
        libc::syscall(libc::SYS_madvise, start, len, i64::from(libc::MADV_NOHUGEPAGE));
    }
    start
}

/// Zeroed memory at a place where nothing is mapped, or, for 0, where the system likes.
///
/// # Errors
/// The system's error number: `EEXIST` where something is mapped, `ENOMEM` where there is no
/// memory, or no such address.
pub fn zeroed_at(place: usize, len: usize) -> Result<*mut u8, i32> {
    let start = map(place, len, if place == 0 { 0 } else { libc::MAP_FIXED_NOREPLACE })?;
    if place == 0 || start.addr() == place {
        return Ok(start);
    }
    // A kernel that does not know the flag took the place for a hint.
    // SAFETY: just mapped, and told nobody.
    unsafe { give_back(start, len) };
    Err(libc::EEXIST)
}

#[cfg(not(miri))]
fn map(place: usize, len: usize, fixed: libc::c_int) -> Result<*mut u8, i32> {
    let rights = i64::from(libc::PROT_READ | libc::PROT_WRITE);
    let flags = i64::from(libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | fixed);
    // SAFETY: a new private mapping, which replaces none.
    let start = unsafe { libc::syscall(libc::SYS_mmap, place, len, rights, flags, -1_i64, 0_i64) };
    match usize::try_from(start) {
        Ok(start) => Ok(ptr::with_exposed_provenance_mut(start)),
        Err(_) => Err(errno()),
    }
}

/// The same under Miri, which knows the C library's function, and no fixed places.
#[cfg(miri)]
fn map(_place: usize, len: usize, fixed: libc::c_int) -> Result<*mut u8, i32> {
    if fixed != 0 {
        return Err(libc::ENOMEM);
    }
    let (rights, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: a new private mapping, which replaces none.
    let start = unsafe { libc::mmap(ptr::null_mut(), len, rights, flags, -1, 0) };
    if start == libc::MAP_FAILED { Err(errno()) } else { Ok(start.cast()) }
}

/// Lets `/proc/self/maps` say whose memory it is. Only advice: a kernel may not know how.
pub fn name(start: usize, len: usize) {
    let (what, name) = (libc::PR_SET_VMA_ANON_NAME, c"probe-patch".as_ptr());
    let errno = errno();
    // SAFETY: names a mapping, which is the caller's own; the name is copied.
    unsafe { libc::syscall(libc::SYS_prctl, libc::PR_SET_VMA, what, start, len, name) };
    set_errno(errno);
}

/// Gives memory back.
///
/// # Safety
/// It is of [`zeroed`] or [`zeroed_at`], of this length, and nobody uses it any more.
pub unsafe fn give_back(start: *mut u8, len: usize) {
    #[cfg(miri)]
    // SAFETY: as below.
    unsafe {
        libc::munmap(start.cast(), len);
    }
    #[cfg(not(miri))]
    // SAFETY: a mapping that nobody uses, as the caller says.
    unsafe {
        libc::syscall(libc::SYS_munmap, start, len);
    }
}
