//! Strings and bytes of C. The program names their address, and nothing says that there is one.

use core::slice;
#[cfg(feature = "std")]
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes of a string that are read. A longer one is cut there.
pub(super) const MOST: usize = 64 << 10;

#[cfg(feature = "std")]
static UNREADABLE: AtomicU64 = AtomicU64::new(0);

/// Returns how many times a consumer has read a string or bytes of C that were not readable: the
/// pointer that a site passed was none, or they reached into memory that can't be read. The program
/// is not disturbed. The value is [`ValueRef::Unreadable`](crate::ValueRef::Unreadable), and a
/// predicate that needs it leaves the hit out.
///
/// A program that installs a handler of `SIGSEGV` or `SIGBUS` after probes with texts were attached
/// takes the means for that away, and a thread that blocks these signals has none: such a read may
/// end the process. The next operation notices a handler, and the next attachment such a thread.
/// Texts are then read by a system call, half a microsecond each. In a process with a filter of
/// system calls, they count as unreadable instead.
///
/// ```
/// assert_eq!(probe_runtime::losses::unreadable_texts(), 0);
/// ```
#[cfg(feature = "std")]
pub fn unreadable_texts() -> u64 {
    UNREADABLE.load(Ordering::Relaxed)
}

/// Returns whether the bytes of a slice can be read. Those of Rust can; C's have any address.
#[inline(always)]
pub(super) fn can_read([start, len]: [u64; 2]) -> bool {
    let is_readable = start == 0 || is_readable(start, len);
    #[cfg(feature = "std")]
    if !is_readable {
        UNREADABLE.fetch_add(1, Ordering::Relaxed);
    }
    is_readable
}

/// Returns at most this many bytes of a string of C, without its NUL; `None` if they can't be read.
///
/// # Safety
/// If there is a string at the address, it is alive for `'a`.
pub(super) unsafe fn text<'a>(start: u64, most: usize) -> Option<&'a [u8]> {
    let start = start as *const u8;
    let Some(len) = len(start, most) else {
        #[cfg(feature = "std")]
        UNREADABLE.fetch_add(1, Ordering::Relaxed);
        return None;
    };
    // SAFETY: these bytes were read just now, and the string is alive: the caller's promise.
    Some(unsafe { slice::from_raw_parts(start, len) })
}

#[cfg(all(feature = "std", probe_backend = "patched"))]
fn len(start: *const u8, most: usize) -> Option<usize> {
    probe_patch::__runtime::os::guarded_read::text_len(start.addr(), most)
}

#[cfg(all(feature = "std", probe_backend = "patched"))]
#[expect(clippy::cast_possible_truncation, reason = "they were `usize`")]
fn is_readable(start: u64, len: u64) -> bool {
    probe_patch::__runtime::os::guarded_read::is_readable(start as usize, len as usize)
}

#[cfg(not(all(feature = "std", probe_backend = "patched")))]
fn is_readable(_start: u64, _len: u64) -> bool {
    true
}

/// C code has no sites here.
#[cfg(not(all(feature = "std", probe_backend = "patched")))]
#[expect(clippy::unnecessary_wraps, reason = "as where sites are patched")]
fn len(start: *const u8, most: usize) -> Option<usize> {
    // SAFETY: the string ends with a NUL, and no byte after that is read.
    Some((0..most).find(|at| unsafe { *start.add(*at) == 0 }).unwrap_or(most))
}
