//! Ownership of a slot: one word, which changes as a whole, and counts the owners.
//!
//! A thread that looks for dead owners first asks the kernel, and then takes the slot back. In
//! between, another thread may have taken it back, and a new thread may own it, with the same id
//! from the kernel. So ending an ownership names that ownership, not only the thread's id. If
//! several threads end one ownership, only one succeeds. `interleavings` checks that.

use super::sync::{AtomicU64, Ordering};

#[cfg(all(test, loom))]
mod interleavings;

const NOBODY: u32 = 0;
/// Not the id of any thread.
const CHANGING: u32 = u32::MAX;
/// The id of an owner that the kernel can't be asked for, see [`ended`](super::ended).
pub(super) const UNASKED: u32 = u32::MAX - 1;

/// An ownership: the owner's id in the lower half, and the number of earlier owners, modulo 2^32,
/// in the upper half.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Owner(u64);

impl Owner {
    #[expect(clippy::cast_possible_truncation, reason = "the lower half")]
    fn id(self) -> u32 {
        self.0 as u32
    }

    fn with_id(self, id: u32) -> Self {
        Self(self.0 >> 32 << 32 | u64::from(id))
    }

    fn next(self, id: u32) -> Self {
        Self(self.0.wrapping_add(1 << 32)).with_id(id)
    }

    /// Returns whether a thread owns the slot.
    pub(super) fn is_thread(self) -> bool {
        ![NOBODY, CHANGING].contains(&self.id())
    }

    /// Returns the owner's id, if the kernel can be asked for it.
    pub(super) fn asked_for(self) -> Option<u32> {
        (self.is_thread() && self.id() != UNASKED).then(|| self.id())
    }
}

/// The ownership word of a slot. Zeroes mean no owner.
#[derive(Debug)]
#[repr(transparent)]
pub(super) struct Ownership(AtomicU64);

impl Ownership {
    #[cfg(all(test, loom))]
    fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    pub(super) fn now(&self) -> Owner {
        Owner(self.0.load(Ordering::Acquire))
    }

    /// Takes a slot without an owner; returns whether that succeeded.
    pub(super) fn take(&self, id: u32) -> bool {
        let now = self.now();
        now.id() == NOBODY && self.exchange(now, now.next(id))
    }

    /// Sets the owner of a slot that no other thread knows yet, or changes the id of its present
    /// owner.
    pub(super) fn set(&self, id: u32) {
        self.0.store(self.now().next(id).0, Ordering::Release);
    }

    /// Ends this ownership, unless another thread has; returns whether it did. Then
    /// [`clear`](Self::clear) must follow.
    pub(super) fn end(&self, owner: Owner) -> bool {
        owner.is_thread() && self.exchange(owner, owner.with_id(CHANGING))
    }

    /// Makes the slot free. The caller must have ended the ownership, or be the only thread.
    pub(super) fn clear(&self) {
        self.0.store(self.now().with_id(NOBODY).0, Ordering::Release);
    }

    fn exchange(&self, before: Owner, after: Owner) -> bool {
        self.0.compare_exchange(before.0, after.0, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn it_changes_hands() {
        let slot = Ownership(AtomicU64::new(0));
        assert!(!slot.now().is_thread() && !slot.end(slot.now()));
        assert!(slot.take(7) && !slot.take(8));
        let first = slot.now();
        assert_eq!((first.is_thread(), first.asked_for()), (true, Some(7)));
        assert!(slot.end(first) && !slot.end(first));
        assert!(!slot.now().is_thread() && !slot.take(7), "not before it is cleared");
        slot.clear();
        assert!(slot.take(7) && !slot.end(first), "another thread with that id");
        slot.set(UNASKED);
        assert_eq!((slot.now().is_thread(), slot.now().asked_for()), (true, None));
    }

    #[test]
    fn the_count_starts_again() {
        let slot = Ownership(AtomicU64::new(u64::MAX << 32));
        assert!(slot.take(7));
        assert_eq!(slot.now(), Owner(7));
    }
}
