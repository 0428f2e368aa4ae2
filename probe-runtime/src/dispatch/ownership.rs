//! Who has a slot: one word, which changes hands whole, and counts the owners.
//!
//! Who finds a thread dead asks the kernel first, and takes its slot from it then. Others may have
//! done so in between, and the slot may be a new thread's, to which the kernel has given the dead
//! one's id. So who ends an ownership names that one, not its id alone; of several that end it, one
//! does. `interleavings` checks that.

use super::sync::{AtomicU64, Ordering};

#[cfg(all(test, loom))]
mod interleavings;

const NOBODY: u32 = 0;
/// No thread's id, either.
const CHANGING: u32 = u32::MAX;
/// An owner that the kernel can't be asked for by an id, see [`ended`](super::ended).
pub(super) const UNASKED: u32 = u32::MAX - 1;

/// Who has a slot at a moment: the owner's id in the lower half, how many owners there were before
/// in the upper one, modulo 2^32.
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

    /// Whether there is one.
    pub(super) fn is_thread(self) -> bool {
        ![NOBODY, CHANGING].contains(&self.id())
    }

    /// The owner's id, if the kernel can be asked for it.
    pub(super) fn asked_for(self) -> Option<u32> {
        (self.is_thread() && self.id() != UNASKED).then(|| self.id())
    }
}

/// A slot's. Zeroes are nobody's.
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

    /// Takes what nobody has.
    pub(super) fn take(&self, id: u32) -> bool {
        let now = self.now();
        now.id() == NOBODY && self.exchange(now, now.next(id))
    }

    /// Of what no other thread knows yet, or of the owner's own, which has another id now.
    pub(super) fn set(&self, id: u32) {
        self.0.store(self.now().next(id).0, Ordering::Release);
    }

    /// Ends this ownership, unless somebody else has: then [`clear`](Self::clear) is due.
    pub(super) fn end(&self, owner: Owner) -> bool {
        owner.is_thread() && self.exchange(owner, owner.with_id(CHANGING))
    }

    /// Nobody has it from here on. For who has ended it, or is alone.
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
