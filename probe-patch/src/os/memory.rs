//! Memory straight from the kernel.
//!
//! It never comes from the heap, since a probe may sit in the allocator. The system calls do not go
//! through the C library's functions, since a program may replace these by its own. They may
//! contain probes, whose first hit asks for memory.

// Safety: relies on mmap(2), munmap(2) and madvise(2) alone.
#![expect(unsafe_code, reason = "see above")]

use std::ptr;

use super::thread::{errno, set_errno};

/// Maps zeroed memory, which the kernel provides page by page when it is touched. Returns null if
/// there is none.
pub fn zeroed(len: usize) -> *mut u8 {
    let Ok(start) = map(0, len, 0) else { return ptr::null_mut() };
    // A huge page for a few counters would be a waste. The kernel may refuse this advice.
    #[cfg(not(miri))]
    // SAFETY: the new mapping.
    unsafe {
        libc::syscall(libc::SYS_madvise, start, len, i64::from(libc::MADV_NOHUGEPAGE));
    }
    start
}

/// Maps zeroed memory at a place where nothing is mapped; for 0, at a place of the kernel's choice.
///
/// # Errors
/// The system's error number: `EEXIST` where something is mapped, `ENOMEM` where there is no
/// memory, or no such address.
pub fn zeroed_at(place: usize, len: usize) -> Result<*mut u8, i32> {
    let start = map(place, len, if place == 0 { 0 } else { libc::MAP_FIXED_NOREPLACE })?;
    if place == 0 || start.addr() == place {
        return Ok(start);
    }
    // An old kernel does not know the flag, and took the place for a hint.
    // SAFETY: just mapped, and no other code knows the address.
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

/// Maps memory under Miri, which knows the C library's function, but no fixed places.
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

/// Makes `/proc/self/maps` show a name for this memory. A kernel may not support that, which is no
/// error.
pub fn name(start: usize, len: usize) {
    let (what, name) = (libc::PR_SET_VMA_ANON_NAME, c"probe-patch".as_ptr());
    let errno = errno();
    // SAFETY: names a mapping of the caller's own; the kernel copies the name.
    unsafe { libc::syscall(libc::SYS_prctl, libc::PR_SET_VMA, what, start, len, name) };
    set_errno(errno);
}

/// Unmaps memory.
///
/// # Safety
/// The memory comes from [`zeroed`] or [`zeroed_at`], and has this length. No code uses it any
/// more.
pub unsafe fn give_back(start: *mut u8, len: usize) {
    #[cfg(miri)]
    // SAFETY: as below.
    unsafe {
        libc::munmap(start.cast(), len);
    }
    #[cfg(not(miri))]
    // SAFETY: the caller promises that no code uses the mapping.
    unsafe {
        libc::syscall(libc::SYS_munmap, start, len);
    }
}
