//! Records whether a consumer listens to a call site.
//!
//! `is_wanted` records it as long as no bytes do. A thread that sets it and a hook that patches the
//! site each look afterwards at what the other one has done. So at least one of the two sees both
//! changes.

use std::sync::atomic::Ordering;

use super::state::{PATCHED, SWITCHED};
use super::{Discovery, WantedOutcome};

impl Discovery {
    /// Records whether a consumer listens. The result tells whether bytes may have to change, too.
    pub(in crate::finstrument) fn set_wanted(&self, is_wanted: bool) -> WantedOutcome {
        let before = self.is_wanted.swap(is_wanted, Ordering::SeqCst);
        if before != is_wanted {
            self.look_up_again();
        }
        match (self.state.load(Ordering::SeqCst), before == is_wanted) {
            (PATCHED, _) => WantedOutcome::Patched,
            (SWITCHED, _) => WantedOutcome::Switched,
            (_, true) => WantedOutcome::Unchanged,
            (_, false) => WantedOutcome::Changed,
        }
    }

    /// Makes its hits be looked up again.
    pub(in crate::finstrument) fn look_up_again(&self) {
        self.fast.empty();
    }

    pub(in crate::finstrument) fn is_wanted(&self) -> bool {
        self.is_wanted.load(Ordering::SeqCst)
    }

    /// Returns whether the bytes have to lead to the hook, or to the stub.
    pub(in crate::finstrument) fn is_active(&self) -> bool {
        // A shared call also brings hits of other functions, which their own discoveries judge.
        self.is_wanted() || self.is_shared()
    }

    /// Notes that hits of other functions come by this call. Returns whether that is new.
    pub(in crate::finstrument) fn become_shared(&self) -> bool {
        !self.is_shared() && !self.is_shared.swap(true, Ordering::SeqCst)
    }

    pub(in crate::finstrument) fn is_shared(&self) -> bool {
        self.is_shared.load(Ordering::SeqCst)
    }
}
