//! The jumps by which a discovery's function ends, if it ends so; see
//! [`tail_jumps`](crate::finstrument::discovery::tail_jumps).

// Safety: relies on `tail_jumps` being changed and freed by the holder of the control lock, or when
// no thread knows the discovery.
#![expect(unsafe_code, reason = "see above")]

use std::ptr;
use std::sync::atomic::Ordering;

use super::{Discovery, State, TailJumps};
use crate::finstrument::discovery::call_patch::CallPatch;
use crate::finstrument::discovery::reason::Reason;
use crate::finstrument::discovery::tokens::ControlLocked;

impl Discovery {
    /// Returns whether its call is not known and no operation has examined its function's code yet.
    pub(in crate::finstrument) fn may_have_tail_jumps(&self) -> bool {
        self.returns().is_none() && self.state() == State::Unpatched(Reason::NotACall)
    }

    /// Gives it the jumps of its function. The next operation makes them sites.
    pub(in crate::finstrument) fn set_tail_jumps(&self, _locked: &ControlLocked, tail_jumps: TailJumps) {
        self.drop_tail_jumps();
        self.tail_jumps.store(Box::into_raw(Box::new(tail_jumps)), Ordering::Release);
        self.wait_again();
    }

    /// Returns its jumps.
    fn tail_jumps(&self) -> Option<&TailJumps> {
        // SAFETY: from `set_tail_jumps`. That and `tail_jumps::begin`, which change and free them,
        // take the proof of the control lock, under which they are read. Otherwise they are freed
        // when no thread knows the discovery.
        unsafe { self.tail_jumps.load(Ordering::Acquire).as_ref() }
    }

    /// Returns the switches of its jumps.
    pub(in crate::finstrument) fn tail_switches(&self) -> &[CallPatch] {
        if let Some(TailJumps::Switched(switches)) = self.tail_jumps() { switches } else { &[] }
    }

    pub(in crate::finstrument) fn has_tail_jumps(&self) -> bool {
        !self.tail_jumps.load(Ordering::Relaxed).is_null()
    }

    pub(in crate::finstrument) fn drop_tail_jumps(&self) {
        let tail_jumps = self.tail_jumps.swap(ptr::null_mut(), Ordering::AcqRel);
        if !tail_jumps.is_null() {
            // SAFETY: from `set_tail_jumps`, taken out once.
            drop(unsafe { Box::from_raw(tail_jumps) });
        }
    }
}
