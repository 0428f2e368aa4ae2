//! The state of a thread with respect to probes. A hit announces it before it reads data that may
//! be retired, and before it calls a consumer. Other threads check it before they free such data,
//! and before they drop the consumer.
//!
//! ```text
//!  a hit                              a thread that takes a consumer away
//!  1. mark = entered                  1. close the subscription; publish hooks without it
//!  2. light barrier                   2. heavy barrier
//!  3. read the hook                   3. wait while the mark is entered, nested, or that consumer's
//!  4. mark = the consumer's           4. drop the consumer
//!  5. light barrier
//!  6. unless it is closed, call it    a thread that frees hooks
//!  7. calls + 1, mark = entered       1. publish others in their place
//!  8. sequence + 1, mark = idle       2. heavy barrier
//!                                     3. read the mark: see `reclaimer`
//! ```
//! The hit's step 2 and the other thread's step 2 ensure that either the hit reads the newly
//! published hook, or the other thread sees its mark. The hit's step 5 and the other thread's step
//! 2 ensure that either the hit sees that the consumer is closed, or the other thread sees the hit
//! in that consumer. If the heavy barrier is membarrier(2), the light barrier only stops the
//! compiler: membarrier makes each thread of the process execute a full fence at some point of its
//! program. If a thread does so before it completes step 1 (4), its hit reads the new hook (sees
//! the closed consumer); if it does so later, its mark is visible.
//!
//! `interleavings` checks all of it with a full fence in place of the light barrier. That gives the
//! same guarantee: not less, since a fence at this place serves both cases; not more, since
//! membarrier's fence at any other place serves the one case that arises.
//!
//! So a thread that stays in one consumer delays no operation on others: it was seen in that
//! consumer, and it checks each other consumer of its hook for being closed before it calls it.

use sync::{AtomicU64, AtomicUsize, Ordering, light_barrier};

/// The state of a thread, in one word, so that it changes as a whole.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(transparent)]
pub(crate) struct HitMark(usize);

impl HitMark {
    /// Not in a hit.
    pub(crate) const IDLE: Self = Self(0);
    /// In a hit, outside of consumers, which lasts for some instructions. `enter` of the x86-64
    /// backend knows this number and the one above.
    pub(crate) const ENTERED: Self = Self(1);
    /// In a hit that only counts, inside of one of the states below, which lasts for some
    /// instructions.
    pub(crate) const NESTED: Self = Self(2);
    /// In the program's callback of discoveries.
    pub(crate) const IN_CALLBACK: Self = Self(3);
    /// In an operation of this crate, outside of a hit.
    pub(crate) const WORKING: Self = Self(4);

    /// In the consumer of the subscription at this address. Its alignment is greater than the
    /// numbers above.
    #[inline(always)]
    pub(crate) fn consuming(subscription: usize) -> Self {
        Self(subscription)
    }

    /// Returns the mark as a number, for code that only keeps it.
    pub(super) fn number(self) -> usize {
        self.0
    }

    /// Returns the mark with this [`number`](Self::number).
    pub(super) fn of_number(number: usize) -> Self {
        Self(number)
    }

    /// Returns whether a hit that begins now calls no consumer.
    #[inline(always)]
    pub(crate) fn is_suppressing(self) -> bool {
        self.0 > Self::ENTERED.0
    }

    /// Returns whether the thread is between a site and a consumer, or in a nested hit, where it
    /// stays only for some instructions.
    pub(super) fn is_passing(self) -> bool {
        self == Self::ENTERED || self == Self::NESTED
    }

    /// Returns whether a thread with this mark is outside of all hits, and reads no data that may
    /// be retired.
    pub(super) fn is_outside(self) -> bool {
        self == Self::IDLE || self == Self::WORKING
    }
}

/// A thread's mark, and the numbers of its hits and calls that have ended. Zeroes mean an idle one.
#[repr(C)]
#[derive(Debug)]
pub(super) struct HitState {
    /// `enter` of the x86-64 backend sets it, too.
    pub(super) mark: AtomicUsize,
    /// Number of hits that have ended on the long way: shows that a marked thread has moved on.
    /// Nested hits don't count: the outer hit may hold data that it has read. `enter` counts, too.
    pub(super) sequence: AtomicU64,
    /// Number of consumer calls that have ended in hits that went on. Data that such a hit, or one
    /// that interrupts it, reads after the call was published later.
    pub(super) calls: AtomicU64,
}

/// Identifies the hit and the consumer's call that a thread was in. Equal values mean that no call
/// has ended in between.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct HitId {
    pub(super) sequence: u64,
    pub(super) calls: u64,
}

impl HitState {
    /// Returns the state of an idle thread.
    #[cfg(test)]
    pub(super) fn new() -> Self {
        Self { mark: AtomicUsize::new(0), sequence: AtomicU64::new(0), calls: AtomicU64::new(0) }
    }

    #[inline(always)]
    pub(super) fn mark(&self) -> HitMark {
        HitMark(self.mark.load(Ordering::Acquire))
    }

    /// Begins a hit: data that it reads from here on is not freed. Returns the mark that
    /// [`leave`](Self::leave) restores.
    #[inline(always)]
    pub(super) fn enter(&self) -> HitMark {
        let outer = self.mark();
        let inner = if outer.is_suppressing() { HitMark::NESTED } else { HitMark::ENTERED };
        if inner != outer {
            self.set(inner);
            light_barrier();
        }
        outer
    }

    #[inline(always)]
    pub(super) fn leave(&self, outer: HitMark) {
        if outer == HitMark::IDLE {
            self.sequence.store(self.sequence().wrapping_add(1), Ordering::Release);
        }
        self.set(outer);
    }

    /// Begins a call of a consumer. The caller must then check whether its subscription is closed.
    #[inline(always)]
    pub(super) fn begin_call(&self, mark: HitMark) {
        self.set(mark);
        light_barrier();
    }

    /// Ends a call in a hit that continues. The next read may be made by this hit, by the hit
    /// around it, or by a signal handler's hit. It sees only data that is published by now, or its
    /// next call has another number.
    #[inline(always)]
    pub(super) fn end_call(&self) {
        self.calls.store(self.calls().wrapping_add(1), Ordering::Release);
        self.set(HitMark::ENTERED);
        light_barrier();
    }

    /// Only the thread itself may set its mark.
    #[inline(always)]
    pub(super) fn set(&self, mark: HitMark) {
        self.mark.store(mark.0, Ordering::Release);
    }

    /// Clears the mark of a thread that no longer exists. The slot's next owner is in another hit.
    pub(super) fn clear(&self) {
        self.leave(HitMark::IDLE);
    }

    /// Returns the hit that the thread is in. Must be called before the mark is read: if a call
    /// ends in between, the next scan finds another number.
    pub(super) fn watch(&self) -> HitId {
        HitId { sequence: self.sequence(), calls: self.calls() }
    }

    /// Returns whether the thread is still in the hit that it was in at the heavy barrier, and
    /// either passing or with the mark `awaited`.
    pub(super) fn is_in(&self, watched: HitId, awaited: Option<HitMark>) -> bool {
        let mark = self.mark();
        (mark.is_passing() || Some(mark) == awaited) && self.sequence() == watched.sequence
    }

    #[inline(always)]
    fn sequence(&self) -> u64 {
        self.sequence.load(Ordering::Acquire)
    }

    fn calls(&self) -> u64 {
        self.calls.load(Ordering::Acquire)
    }
}

/// The atomics and barriers of this room's state: the real ones, or those of the model checker.
pub(super) mod sync {
    #[cfg(not(all(test, loom)))]
    pub(in super::super) use {
        crate::engine::entry::backend::light_barrier,
        std::sync::atomic::{AtomicU64, AtomicUsize, Ordering},
    };

    #[cfg(all(test, loom))]
    pub(in super::super) use loom::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

    /// The full fence that membarrier(2) makes of it, see `hit_state`.
    #[cfg(all(test, loom))]
    pub(in super::super) fn light_barrier() {
        crate::engine::entry::backend::light_barrier();
        loom::sync::atomic::fence(Ordering::SeqCst);
    }
}
