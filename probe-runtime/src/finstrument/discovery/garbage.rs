//! The remains of discoveries that no hit will find any more: their inline hooks, and their places.
//! Both are retired, and freed when no thread can be in a hit that has read them.

// Safety: relies on `control`, which drops them when `reclaimer` gives them out.
#![expect(unsafe_code, reason = "see above")]

use super::call_site::Discovery;
use super::counters;
use crate::engine::dispatch::InlineHook;

/// An inline hook that was replaced. Freed when no thread can be reading it.
pub(super) struct ReplacedHook(&'static Discovery);

// SAFETY: the hook is owned, and all of its fields are `Send`.
unsafe impl Send for ReplacedHook {}

impl ReplacedHook {
    /// Takes a discovery's inline hook, once no definition refers to it. For the holder of the
    /// control lock.
    pub(super) fn take(discovery: &'static Discovery) -> Option<Self> {
        discovery.part_with_inline_hook().then(|| Self(discovery))
    }
}

impl Drop for ReplacedHook {
    fn drop(&mut self) {
        // SAFETY: taken once, and dropped when `reclaimer` gives it out.
        unsafe { InlineHook::drop_in_place(self.0.inline_hook.get().cast()) };
        self.0.disown();
    }
}

/// A discovery whose object is gone. Its place is given back when no hook can be looking at it.
pub(super) struct Unloaded(&'static Discovery);

impl Unloaded {
    /// Retires a discovery that the table does not have any more.
    pub(super) fn new(discovery: &'static Discovery) -> Self {
        if discovery.object().is_none() {
            counters::UNNAMED.add();
        }
        Self(discovery)
    }
}

impl Drop for Unloaded {
    fn drop(&mut self) {
        drop(ReplacedHook::take(self.0));
        self.0.disown();
    }
}
