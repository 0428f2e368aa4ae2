//! A thread that looks at what may be retired, outside of a hit.

use std::marker::PhantomData;

use super::{Mark, Slot};

/// While it lives, what this thread reads of hooks and discoveries is not freed.
pub(crate) struct Inside {
    slot: &'static Slot,
    outer: Mark,
    // A mark belongs to its thread.
    not_send: PhantomData<*mut ()>,
}

impl Inside {
    /// Marks this thread's slot; `None`, and a lost hit, where there is no memory for one.
    pub(crate) fn new() -> Option<Self> {
        let slot = Slot::current()?;
        let outer = slot.enter();
        Some(Self { slot, outer, not_send: PhantomData })
    }

    /// Calls a part of the program, unless this is inside of such a call already; tells whether it
    /// did. Consumers are not called meanwhile. Who [waits](super::wait) for the callback waits for
    /// what is read in the call, not for what was read before.
    pub(crate) fn call(&self, call: impl FnOnce()) -> bool {
        if self.outer.is_suppressing() {
            return false;
        }
        self.slot.presence().begin_call(Mark::TELLING);
        call();
        self.slot.presence().end_call();
        true
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        self.slot.leave(self.outer);
    }
}
