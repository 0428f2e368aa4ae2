//! Where a thread is, as far as probes are concerned: what a hit says before it reads what may be
//! retired, and before it calls a consumer; what others look at before they free the one, and drop
//! the other.
//!
//! ```text
//!  a hit                              whoever takes a consumer away
//!  1. mark = entered                  1. close the subscription; publish hooks without it
//!  2. light barrier                   2. heavy barrier
//!  3. read the hook                   3. wait while the mark is entered, nested, or that consumer's
//!  4. mark = the consumer's           4. drop the consumer
//!  5. light barrier
//!  6. unless it is closed, call it    whoever frees hooks
//!  7. calls + 1, mark = entered       1. publish others in their place
//!  8. sequence + 1, mark = idle       2. heavy barrier
//!                                     3. look at the mark: see `limbo`
//! ```
//! Of 2 and 2 together it needs that either the hit reads what was published, or the other one sees
//! its mark; of 5 and 2, that either the hit sees that the consumer is closed, or the other one
//! sees that it is in there. The light barrier is only the compiler's where the heavy one is
//! membarrier(2): that has each thread of the process execute a full fence at some point of its
//! program. Up to 1 (4), and the hit reads what was published (closed) before; after 1 (4), and the
//! mark is there to be seen. `interleavings` checks all of it, with a full fence at the light
//! barrier, which is the same: no less, since it stands where it serves both cases; no more, since
//! a fence elsewhere serves one of them.
//!
//! So who is in one consumer, for however long, is in nobody else's way: it was seen to be in that
//! one, and each other that its hook may still lead to is asked for first whether it is closed.

use super::sync::{AtomicU64, AtomicUsize, Ordering, light_barrier};

/// What a thread is doing. One word, so that it is never half of one thing and half of another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(transparent)]
pub(crate) struct Mark(usize);

impl Mark {
    /// Not in a hit.
    pub(crate) const IDLE: Self = Self(0);
    /// In a hit, outside of consumers: for some instructions. `enter` of the x86-64 backend knows
    /// this number and the one above.
    pub(crate) const ENTERED: Self = Self(1);
    /// In a hit inside of what follows here: for some instructions, too, as it only counts.
    pub(crate) const NESTED: Self = Self(2);
    /// In the program's callback of discoveries.
    #[cfg(probe_discovers)]
    pub(crate) const TELLING: Self = Self(3);
    /// At work for this crate, outside of a hit.
    pub(crate) const WORKING: Self = Self(4);

    /// In the consumer of what lies at this address, which is aligned to more than the numbers
    /// above.
    #[inline(always)]
    pub(crate) fn consuming(subscription: usize) -> Self {
        Self(subscription)
    }

    /// For those who keep it without knowing what it is.
    pub(super) fn number(self) -> usize {
        self.0
    }

    /// The mark whose [`number`](Self::number) this is.
    pub(super) fn of_number(number: usize) -> Self {
        Self(number)
    }

    /// Whether a hit that comes now calls no consumer.
    #[inline(always)]
    pub(crate) fn is_suppressing(self) -> bool {
        self.0 > Self::ENTERED.0
    }

    /// Whether the thread is on its way to a consumer, or from one, and stays there for some
    /// instructions only.
    pub(super) fn is_passing(self) -> bool {
        self == Self::ENTERED || self == Self::NESTED
    }

    /// Whether a thread with this mark is outside of all hits, and reads nothing that may be
    /// retired.
    pub(super) fn is_outside(self) -> bool {
        self == Self::IDLE || self == Self::WORKING
    }
}

/// A thread's mark. Zeroes are an idle one.
#[repr(C)]
#[derive(Debug)]
pub(super) struct Presence {
    /// `enter` of the x86-64 backend sets it, too.
    mark: AtomicUsize,
    /// How many hits have ended on the long way: tells that a marked thread has moved on. A hit
    /// that is nested in another does not count: the outer one may hold what it has read. `enter`
    /// counts, too.
    sequence: AtomicU64,
    /// How many calls of consumers have ended in hits that went on: what is read next, by that hit
    /// or by one that interrupts it, is published later.
    calls: AtomicU64,
}

#[cfg(not(all(test, loom)))]
const _: () = {
    use std::mem::offset_of;
    assert!(offset_of!(Presence, mark) == 0);
    assert!(offset_of!(Presence, sequence) == 8);
};

/// Which hit a thread was in, and which call of a consumer, if in any. The same again, and no call
/// has ended in between.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Watched {
    pub(super) sequence: u64,
    pub(super) calls: u64,
}

impl Presence {
    /// An idle one.
    #[cfg(test)]
    pub(super) fn new() -> Self {
        Self { mark: AtomicUsize::new(0), sequence: AtomicU64::new(0), calls: AtomicU64::new(0) }
    }

    #[inline(always)]
    pub(super) fn mark(&self) -> Mark {
        Mark(self.mark.load(Ordering::Acquire))
    }

    /// Begins a hit: from here on what is read is not freed. Returns the mark to
    /// [`leave`](Self::leave) with.
    #[inline(always)]
    pub(super) fn enter(&self) -> Mark {
        let outer = self.mark();
        let inner = if outer.is_suppressing() { Mark::NESTED } else { Mark::ENTERED };
        if inner != outer {
            self.set(inner);
            light_barrier();
        }
        outer
    }

    /// Ends a hit.
    #[inline(always)]
    pub(super) fn leave(&self, outer: Mark) {
        if outer == Mark::IDLE {
            self.sequence.store(self.sequence().wrapping_add(1), Ordering::Release);
        }
        self.set(outer);
    }

    /// Begins a call of a consumer: after that, its subscription is to be asked whether it is
    /// closed.
    #[inline(always)]
    pub(super) fn begin_call(&self, mark: Mark) {
        self.set(mark);
        light_barrier();
    }

    /// Ends it, in a hit that goes on: whoever reads next, be it this hit, the one that it is
    /// nested in, or a signal handler's, reads only what is published by now, or its next call is
    /// another one.
    #[inline(always)]
    pub(super) fn end_call(&self) {
        self.calls.store(self.calls().wrapping_add(1), Ordering::Release);
        self.set(Mark::ENTERED);
        light_barrier();
    }

    /// Only the thread itself does.
    #[inline(always)]
    pub(super) fn set(&self, mark: Mark) {
        self.mark.store(mark.0, Ordering::Release);
    }

    /// Of a thread that is no more: whoever has the slot next, is in another hit.
    pub(super) fn clear(&self) {
        self.leave(Mark::IDLE);
    }

    /// Which hit it is in. To be asked before the mark: where a call has ended in between, the next
    /// look finds another number.
    pub(super) fn watch(&self) -> Watched {
        Watched { sequence: self.sequence(), calls: self.calls() }
    }

    /// Whether the thread is where it was waited for, after the heavy barrier: passing, or with a
    /// mark that `awaited` names, in the hit that it was in then.
    pub(super) fn is_in(&self, watched: Watched, awaited: Option<Mark>) -> bool {
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
