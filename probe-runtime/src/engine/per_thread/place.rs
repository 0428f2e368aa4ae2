//! Memory for all threads, that is mapped at once.

use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Memory for the heads and parts of a number of threads, which somebody else unmaps.
#[derive(Debug)]
pub(crate) struct Place {
    /// Address of the page in which the first head lies.
    pub(crate) heads: usize,
    /// Address of the first thread's parts, behind the heads.
    #[cfg_attr(not(feature = "trace"), expect(dead_code, reason = "only traces have a place"))]
    pub(crate) parts: usize,
    /// Bytes from one head to the next, and from the parts of one thread to those of the next.
    pub(crate) stride: usize,
    /// The number of threads for which there is memory.
    pub(crate) count: usize,
    /// The number of threads that have got some.
    pub(crate) taken: AtomicUsize,
}

impl Place {
    /// Returns the next head; null if there is none.
    pub(super) fn take(&self) -> *mut u8 {
        let next = |taken| (taken < self.count).then_some(taken + 1);
        let taken = self.taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next);
        let head = taken.map_or(0, |number| self.heads + number * self.stride);
        ptr::with_exposed_provenance_mut(head)
    }
}
