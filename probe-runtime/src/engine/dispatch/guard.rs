//! Guards of a thread outside of a hit: while it works for this crate, and while it reads data that
//! may be retired.

use std::marker::PhantomData;

use super::{HitMark, ThreadSlot};

/// While it lives, no consumer is called on this thread: hits are counted, and calls are
/// suppressed.
pub(crate) struct ReentrancyGuard {
    outer: usize,
    // A mark belongs to its thread.
    not_send: PhantomData<*mut ()>,
}

impl ReentrancyGuard {
    #[inline(always)]
    pub(crate) fn new() -> Self {
        Self { outer: begin(), not_send: PhantomData }
    }
}

impl Drop for ReentrancyGuard {
    #[inline(always)]
    fn drop(&mut self) {
        end(self.outer);
    }
}

/// Returned by [`begin`] if this thread has no slot.
const NO_SLOT: usize = usize::MAX;

/// Begins the same as [`ReentrancyGuard`], for rooms below. Pass the result to [`end`].
pub(crate) fn begin() -> usize {
    let Some(slot) = ThreadSlot::current() else { return NO_SLOT };
    let outer = slot.mark();
    if !outer.is_suppressing() {
        // Inside of a hit, data that the hit has read is still in use.
        slot.set_mark(if outer == HitMark::IDLE { HitMark::WORKING } else { HitMark::NESTED });
    }
    outer.number()
}

/// Ends what [`begin`] began on this thread.
pub(crate) fn end(outer: usize) {
    if outer != NO_SLOT
        && let Some(slot) = ThreadSlot::current()
    {
        slot.leave(HitMark::of_number(outer));
    }
}

/// While it lives, hooks and discoveries that this thread has read are not freed.
pub(crate) struct ReadGuard {
    slot: &'static ThreadSlot,
    outer: HitMark,
    // A mark belongs to its thread.
    not_send: PhantomData<*mut ()>,
}

impl ReadGuard {
    /// Marks this thread's slot; returns `None`, and counts a lost hit, if there is no memory for a
    /// slot.
    pub(crate) fn new() -> Option<Self> {
        let slot = ThreadSlot::current()?;
        let outer = slot.enter();
        Some(Self { slot, outer, not_send: PhantomData })
    }

    /// Calls a part of the program, unless this is inside of such a call already; returns whether
    /// it did. Consumers are not called meanwhile. A thread that [waits](super::synchronize()) for
    /// the callback waits for data that the call reads, not for data that was read before it.
    pub(crate) fn call(&self, call: impl FnOnce()) -> bool {
        if self.outer.is_suppressing() {
            return false;
        }
        self.slot.hit_state().begin_call(HitMark::IN_CALLBACK);
        call();
        self.slot.hit_state().end_call();
        true
    }
}

impl Drop for ReadGuard {
    fn drop(&mut self) {
        self.slot.leave(self.outer);
    }
}
