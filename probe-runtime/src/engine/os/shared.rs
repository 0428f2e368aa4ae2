//! Numbers that a process shares with the children that it forks from then on.

// Safety: relies on mmap(2) and munmap(2) of a page of its own.
#![expect(unsafe_code, reason = "see above")]

use std::mem::size_of;
use std::ops::Deref;
use std::ptr::{self, NonNull};
use std::sync::atomic::AtomicU32;

/// Zeros at first. Each process that drops it unmaps its own view.
#[derive(Debug)]
pub(crate) struct Shared<const N: usize>(NonNull<[AtomicU32; N]>);

// SAFETY: atomics, at an address that any thread may use.
unsafe impl<const N: usize> Send for Shared<N> {}

impl<const N: usize> Shared<N> {
    /// Returns `None` if the system has no memory for that. Uses no heap.
    pub(crate) fn new() -> Option<Self> {
        let rights = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_SHARED | libc::MAP_ANONYMOUS;
        // SAFETY: maps memory at a free place.
        let start = unsafe { libc::mmap(ptr::null_mut(), size_of::<[AtomicU32; N]>(), rights, flags, -1, 0) };
        let is_mapped = start != libc::MAP_FAILED;
        NonNull::new(start.cast()).filter(|_| is_mapped).map(Self)
    }
}

impl<const N: usize> Deref for Shared<N> {
    type Target = [AtomicU32; N];

    fn deref(&self) -> &Self::Target {
        // SAFETY: mapped by `new` with zeros, which are atomics, and unmapped by the drop alone.
        unsafe { self.0.as_ref() }
    }
}

impl<const N: usize> Drop for Shared<N> {
    fn drop(&mut self) {
        // SAFETY: mapped by `new`; no reference is left.
        unsafe { libc::munmap(self.0.as_ptr().cast(), size_of::<[AtomicU32; N]>()) };
    }
}
