//! A thread that reads data that may be retired, outside of a hit.

use std::marker::PhantomData;

use super::{HitMark, ThreadSlot};

/// While it lives, hooks and discoveries that this thread has read are not freed.
pub(crate) struct Inside {
    slot: &'static ThreadSlot,
    outer: HitMark,
    // A mark belongs to its thread.
    not_send: PhantomData<*mut ()>,
}

impl Inside {
    /// Marks this thread's slot; returns `None`, and counts a lost hit, if there is no memory for a
    /// slot.
    pub(crate) fn new() -> Option<Self> {
        let slot = ThreadSlot::current()?;
        let outer = slot.enter();
        Some(Self { slot, outer, not_send: PhantomData })
    }

    /// Calls a part of the program, unless this is inside of such a call already; returns whether
    /// it did. Consumers are not called meanwhile. A thread that [waits](super::wait) for the
    /// callback waits for data that the call reads, not for data that was read before it.
    pub(crate) fn call(&self, call: impl FnOnce()) -> bool {
        if self.outer.is_suppressing() {
            return false;
        }
        self.slot.hit_state().begin_call(HitMark::TELLING);
        call();
        self.slot.hit_state().end_call();
        true
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        self.slot.leave(self.outer);
    }
}
