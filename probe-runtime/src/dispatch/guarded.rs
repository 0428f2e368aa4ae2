//! A thread that is at work for this crate, outside of a hit.

use std::marker::PhantomData;

use super::{Mark, Slot};

/// While it lives, no consumer is called on this thread: hits are counted, calls suppressed.
pub(crate) struct Guarded {
    outer: Option<(&'static Slot, Mark)>,
    // A mark belongs to its thread.
    not_send: PhantomData<*mut ()>,
}

impl Guarded {
    #[inline(always)]
    pub(crate) fn new() -> Self {
        let outer = Slot::current().map(|slot| (slot, slot.mark()));
        if let Some((slot, outer)) = outer
            && !outer.is_suppressing()
        {
            // In a hit, what that has read is still in use.
            slot.set_mark(if outer == Mark::IDLE { Mark::WORKING } else { Mark::NESTED });
        }
        Self { outer, not_send: PhantomData }
    }
}

impl Drop for Guarded {
    #[inline(always)]
    fn drop(&mut self) {
        if let Some((slot, outer)) = self.outer {
            slot.leave(outer);
        }
    }
}
