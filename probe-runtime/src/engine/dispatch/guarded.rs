//! A thread that works for this crate, outside of a hit.

use std::marker::PhantomData;

use super::{HitMark, ThreadSlot};

/// While it lives, no consumer is called on this thread: hits are counted, and calls are
/// suppressed.
pub(crate) struct Guarded {
    outer: usize,
    // A mark belongs to its thread.
    not_send: PhantomData<*mut ()>,
}

impl Guarded {
    #[inline(always)]
    pub(crate) fn new() -> Self {
        Self { outer: begin(), not_send: PhantomData }
    }
}

impl Drop for Guarded {
    #[inline(always)]
    fn drop(&mut self) {
        end(self.outer);
    }
}

/// Returned by [`begin`] if this thread has no slot.
const NO_SLOT: usize = usize::MAX;

/// Begins the same as [`Guarded`], for rooms below. Pass the result to [`end`].
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
