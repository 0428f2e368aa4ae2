//! Identifies the process without a system call. In a forked child the number reads as zero,
//! however the child was forked.

// Safety: relies on a page that is never unmapped, and on madvise(2).
#![expect(unsafe_code, reason = "see above")]

use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// The last number that this process or one of its ancestors has given out.
static GIVEN: AtomicU64 = AtomicU64::new(0);

/// The place of this process's number. The number differs from those of its ancestors, and is 0 in
/// a child that has not [asked](ProcessNumber::get) yet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ProcessNumber(&'static AtomicU64);

/// Returns the place of this process's number; `None` if the kernel does not wipe memory in
/// children (before Linux 4.14).
pub(crate) fn process() -> Option<ProcessNumber> {
    static PAGE: OnceLock<Option<ProcessNumber>> = OnceLock::new();
    *PAGE.get_or_init(|| {
        let (rights, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        let start = super::map(rights, flags, -1).ok()?;
        // SAFETY: the new mapping.
        let wiped = unsafe {
            libc::syscall(libc::SYS_madvise, start, super::page_size(), i64::from(libc::MADV_WIPEONFORK))
        };
        if wiped != 0 {
            // SAFETY: the new mapping, which no other code knows.
            unsafe { libc::syscall(libc::SYS_munmap, start, super::page_size()) };
            return None;
        }
        // SAFETY: zeroed memory, aligned to a page, which stays mapped.
        let number = ProcessNumber(unsafe { &*ptr::with_exposed_provenance::<AtomicU64>(start) });
        number.get();
        Some(number)
    })
}

impl ProcessNumber {
    /// Returns the number in memory; 0 in a child that has not asked yet.
    #[inline(always)]
    pub(crate) fn known(self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// Returns the number; never 0.
    pub(crate) fn get(self) -> u64 {
        let known = self.known();
        if known != 0 {
            return known;
        }
        let new = GIVEN.fetch_add(1, Ordering::Relaxed) + 1;
        // Another thread of the child may have been faster.
        match self.0.compare_exchange(0, new, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => new,
            Err(known) => known,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_is_another_process() {
        let number = process().unwrap();
        let own = number.get();
        assert_eq!((own, number.known()), (number.get(), own));
        // SAFETY: the child reads and writes a word.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let is_right = number.known() == 0 && number.get() == own + 1 && number.known() == own + 1;
            // SAFETY: ends this process at once.
            unsafe { libc::_exit(i32::from(!is_right)) };
        }
        let mut status = -1;
        // SAFETY: a place for the result.
        assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
        assert_eq!((status, number.get()), (0, own));
    }
}
