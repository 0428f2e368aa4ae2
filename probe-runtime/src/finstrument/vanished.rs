//! The remains of discoveries that nobody will find any more: their early hooks, and their places.
//! Both are retired, and freed when no thread can be in a hit that has read them.

// Safety: relies on `control`, which drops them when `limbo` gives them out.
#![expect(unsafe_code, reason = "see above")]

use super::counters;
use super::discovery::Discovery;
use crate::dispatch::Early;

/// An early hook that was replaced. Freed when no thread can be reading it.
pub(super) struct Taken(&'static Discovery);

// SAFETY: the hook is owned, and holds only what is `Send`.
unsafe impl Send for Taken {}

impl Taken {
    pub(super) fn new(discovery: &'static Discovery) -> Self {
        Self(discovery)
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        // SAFETY: taken once, and dropped when `limbo` gives it out.
        unsafe { Early::drop_in_place(self.0.early.get().cast()) };
        self.0.disown();
    }
}

/// A discovery whose object is gone. Its place is given back when no hook can be looking at it.
pub(super) struct Vanished(&'static Discovery);

impl Vanished {
    /// Retires a discovery that the table does not have any more.
    pub(super) fn new(discovery: &'static Discovery) -> Self {
        if discovery.object().is_none() {
            counters::UNNAMED.add();
        }
        Self(discovery)
    }
}

impl Drop for Vanished {
    fn drop(&mut self) {
        drop(self.0.take_early());
        self.0.disown();
    }
}
