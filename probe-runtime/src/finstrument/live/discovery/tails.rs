//! The jumps by which a discovery's function ends, if it ends so; see
//! [`tail_jumps`](crate::finstrument::live::tail_jumps).

// Safety: relies on `tails` being changed and freed by the holder of the control lock, or when no
// thread knows the discovery.
#![expect(unsafe_code, reason = "see above")]

use std::ptr;
use std::sync::atomic::Ordering;

use super::{Discovery, State, TailJumps};
use crate::finstrument::live::call_patch::CallPatch;
use crate::finstrument::live::reason::Reason;
use crate::finstrument::live::tokens::ControlLocked;

impl Discovery {
    /// Returns whether its call is not known and no operation has examined its function's code yet.
    pub(in crate::finstrument) fn may_have_tails(&self) -> bool {
        self.returns().is_none() && self.state() == State::Unpatched(Reason::NotACall)
    }

    /// Gives it the jumps of its function. The next look makes them sites.
    pub(in crate::finstrument) fn set_tails(&self, _locked: &ControlLocked, tails: TailJumps) {
        self.forget_tails();
        self.tails.store(Box::into_raw(Box::new(tails)), Ordering::Release);
        self.wait_again();
    }

    /// Returns its jumps.
    fn tails(&self) -> Option<&TailJumps> {
        // SAFETY: from `set_tails`; `tail_jumps::begin` and `set_tails`, which change and free
        // them, take the proof of the control lock, under which they are read. Otherwise they are
        // freed when no thread knows the discovery.
        unsafe { self.tails.load(Ordering::Acquire).as_ref() }
    }

    /// Returns the switches of its jumps.
    pub(in crate::finstrument) fn tail_switches(&self) -> &[CallPatch] {
        if let Some(TailJumps::Switched(switches)) = self.tails() { switches } else { &[] }
    }

    pub(in crate::finstrument) fn has_tails(&self) -> bool {
        !self.tails.load(Ordering::Relaxed).is_null()
    }

    pub(in crate::finstrument) fn forget_tails(&self) {
        let tails = self.tails.swap(ptr::null_mut(), Ordering::AcqRel);
        if !tails.is_null() {
            // SAFETY: from `set_tails`, taken out once.
            drop(unsafe { Box::from_raw(tails) });
        }
    }
}
