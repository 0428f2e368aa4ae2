//! Ownership of a slot: one word, which changes as a whole, and counts the owners.
//!
//! A thread that looks for dead owners first asks the kernel, and then takes the slot back. In
//! between, another thread may have taken it back, and a new thread may own it, with the same id
//! from the kernel. So ending an ownership names that ownership, not only the thread's id. If
//! several threads end one ownership, only one succeeds. `interleavings` checks that.
//!
//! # Dead owners
//! The C library reports a thread's end before the thread's last instruction. Destructors of other
//! keys run later, and so does the library's own clean-up, which calls `free`. A hit there takes a
//! slot that no destructor gives back. Such a slot looks like any other: the thread's first hit may
//! be the one in `free`. If no key is left that needs no heap, no end is reported at all.
//!
//! So a thread that needs a slot and finds none free asks the kernel which owners still exist. It
//! does so only if there are twice as many slots as there were owners the last time. So the number
//! of slots never exceeds [`UNCHECKED_SLOTS`], or twice the greatest number of threads with slots
//! that lived at once.
//!
//! Cost: on average up to two queries (`tgkill` of signal 0) for each slot that is taken, and none
//! for the first [`UNCHECKED_SLOTS`] slots. An operation looks at every slot, so its cost grows
//! with the threads that live, not with those that have lived.
//!
//! An owner is never queried if its id could belong to another process: in a child by `vfork`,
//! `posix_spawn` or a bare `clone`, in which no fork handler of ours has run. A slot that is taken
//! there has no owner that can be queried, and only the exit hook ends its ownership. Such a child
//! is recognised by its process id. This leaves one exception: the first process of a namespace
//! that makes the first process of another namespace (`CLONE_NEWPID`) by a bare `clone` that shares
//! its memory. Such a child must not hit probes.

use std::sync::atomic::{AtomicU32, AtomicUsize};

use super::hit_state::sync::{AtomicU64, Ordering};
use super::thread_slot::{ThreadSlot, slot_count, slots};
use crate::engine::os;

const NO_OWNER: u32 = 0;
/// Not the id of any thread.
const CHANGING: u32 = u32::MAX;
/// The id of an owner that the kernel can't be asked for, see [`ownership`](super::ownership).
pub(super) const NO_TID: u32 = u32::MAX - 1;

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
        ![NO_OWNER, CHANGING].contains(&self.id())
    }

    /// Returns the owner's id, if the kernel can be asked for it.
    pub(super) fn tid(self) -> Option<u32> {
        (self.is_thread() && self.id() != NO_TID).then(|| self.id())
    }
}

/// The ownership word of a slot. Zeroes mean no owner.
#[derive(Debug)]
#[repr(transparent)]
pub(super) struct Ownership(AtomicU64);

impl Ownership {
    #[cfg(all(test, loom))]
    pub(super) fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    pub(super) fn now(&self) -> Owner {
        Owner(self.0.load(Ordering::Acquire))
    }

    /// Takes a slot without an owner; returns whether that succeeded.
    pub(super) fn take(&self, id: u32) -> bool {
        let now = self.now();
        now.id() == NO_OWNER && self.exchange(now, now.next(id))
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
        self.0.store(self.now().with_id(NO_OWNER).0, Ordering::Release);
    }

    fn exchange(&self, before: Owner, after: Owner) -> bool {
        self.0.compare_exchange(before.0, after.0, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }
}

/// Up to this number of slots, no owner is queried.
const UNCHECKED_SLOTS: usize = 8;

/// Number of slots at which owners are queried.
static REAP_AT: AtomicUsize = AtomicUsize::new(UNCHECKED_SLOTS);

/// The process whose threads have known ids; 0 before the first operation.
static PROCESS: AtomicU32 = AtomicU32::new(0);

/// Records this process, so that its threads' ids are known from here on: after the program's
/// start, or after a fork.
pub(super) fn record_process() {
    PROCESS.store(os::thread::process(), Ordering::Relaxed);
}

/// Returns whether the kernel can be asked for owners by their ids.
pub(super) fn are_ids_known() -> bool {
    PROCESS.load(Ordering::Relaxed) == os::thread::process()
}

/// Gives back the slots of threads that no longer exist, if the number of slots has reached the
/// limit.
pub(super) fn reap_dead_owners() {
    if slot_count() < REAP_AT.load(Ordering::Relaxed) || !are_ids_known() {
        return;
    }
    let living = slots().filter(|slot| !slot.reap_if_dead() && slot.is_owned()).count();
    REAP_AT.store(limit(living), Ordering::Relaxed);
}

fn limit(living: usize) -> usize {
    UNCHECKED_SLOTS.max(2 * living)
}

impl ThreadSlot {
    /// Gives the slot back if its owner no longer exists; returns whether it did.
    pub(super) fn reap_if_dead(&self) -> bool {
        // The order matters: the birth that is read next belongs to this owner, or is not known
        // yet.
        let owner = self.owner();
        let birth = self.birth();
        let is_dead = owner.tid().is_some_and(|id| !os::thread::is_alive(id, birth));
        if is_dead {
            self.give_back(owner);
        }
        is_dead
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
        assert_eq!((first.is_thread(), first.tid()), (true, Some(7)));
        assert!(slot.end(first) && !slot.end(first));
        assert!(!slot.now().is_thread() && !slot.take(7), "not before it is cleared");
        slot.clear();
        assert!(slot.take(7) && !slot.end(first), "another thread with that id");
        slot.set(NO_TID);
        assert_eq!((slot.now().is_thread(), slot.now().tid()), (true, None));
    }

    #[test]
    fn the_count_starts_again() {
        let slot = Ownership(AtomicU64::new(u64::MAX << 32));
        assert!(slot.take(7));
        assert_eq!(slot.now(), Owner(7));
    }
}

#[cfg(all(test, probe_backend = "patched", not(loom)))]
#[expect(unsafe_code, reason = "a process that no hook is told of")]
mod dead_owners {
    use super::*;

    #[test]
    fn a_few_slots_or_twice_the_living_are_kept() {
        assert_eq!([0, 3, 4, 5, 1000].map(limit), [8, 8, 8, 10, 2000]);
    }

    #[test]
    #[cfg_attr(miri, ignore = "makes a process")]
    fn an_unknown_child_takes_no_thread_for_dead() {
        super::super::prepare();
        assert!(are_ids_known());
        let parent = ThreadSlot::current().unwrap();
        // SAFETY: the child looks at slots; it takes no lock and no heap.
        let child = unsafe { libc::syscall(libc::SYS_fork) };
        if child == 0 {
            REAP_AT.store(0, Ordering::Relaxed);
            let owners = || slots().filter(|slot| slot.is_owned()).count();
            let before = owners();
            reap_dead_owners();
            let is_right = !are_ids_known() && parent.is_owned() && owners() == before;
            // SAFETY: ends this process at once.
            unsafe { libc::_exit(i32::from(!is_right)) };
        }
        let mut status = -1;
        // SAFETY: a place for the result.
        assert_eq!(i64::from(unsafe { libc::waitpid(child.try_into().unwrap(), &raw mut status, 0) }), child);
        assert_eq!(status, 0);
    }
}
