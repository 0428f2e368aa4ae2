//! The state of a call site, and who may change its bytes.

use std::sync::atomic::Ordering;

use super::{Discovery, State};
use crate::finstrument::discovery::reason::Reason;

const WAITING: u8 = 1;
pub(super) const PATCHED: u8 = 2;
const UNPATCHED: u8 = 3;
pub(super) const SWITCHED: u8 = 4;

impl Discovery {
    pub(in crate::finstrument) fn state(&self) -> State {
        match self.state.load(Ordering::SeqCst) {
            PATCHED | SWITCHED => State::Patched,
            UNPATCHED => State::Unpatched(Reason::decode(self.reason.load(Ordering::Relaxed))),
            _ => State::Waiting,
        }
    }

    pub(super) fn begin(&self, state: State) {
        let number = match state {
            State::Waiting => WAITING,
            State::Patched => PATCHED,
            State::Unpatched(reason) => {
                self.reason.store(reason.encode(), Ordering::Relaxed);
                UNPATCHED
            }
        };
        self.state.store(number, Ordering::SeqCst);
    }

    /// Makes a waiting call stay a real call for good. A call that is a site by now stays one.
    pub(in crate::finstrument) fn keep(&self, reason: Reason) {
        self.reason.store(reason.encode(), Ordering::Relaxed);
        let _ = self.state.compare_exchange(WAITING, UNPATCHED, Ordering::SeqCst, Ordering::SeqCst);
    }

    /// Lets a call that was left unpatched become a site after all.
    pub(in crate::finstrument) fn wait_again(&self) {
        let _ = self.state.compare_exchange(UNPATCHED, WAITING, Ordering::SeqCst, Ordering::SeqCst);
    }

    /// Marks a call as a site. Returns whether it was none before.
    pub(in crate::finstrument) fn become_patched(&self) -> bool {
        self.state.swap(PATCHED, Ordering::SeqCst) != PATCHED
    }

    /// Marks a call as switched in place. Returns whether it was not before.
    pub(in crate::finstrument) fn become_switched(&self) -> bool {
        self.state.swap(SWITCHED, Ordering::SeqCst) != SWITCHED
    }

    pub(in crate::finstrument) fn is_patched(&self) -> bool {
        self.state() == State::Patched
    }

    /// Returns whether it is a site, whose bytes differ from those of the call that it was.
    pub(in crate::finstrument) fn is_site(&self) -> bool {
        self.state.load(Ordering::SeqCst) == PATCHED
    }

    /// Returns whether it is a call that is switched in place.
    pub(in crate::finstrument) fn is_switched(&self) -> bool {
        self.state.load(Ordering::SeqCst) == SWITCHED
    }

    /// Marks a site as a real call for good, before its bytes become the call's again.
    pub(in crate::finstrument) fn end_site(&self) {
        self.reason.store(Reason::Shared.encode(), Ordering::Relaxed);
        let _ = self.state.compare_exchange(PATCHED, UNPATCHED, Ordering::SeqCst, Ordering::SeqCst);
    }

    /// Lets a hook change the bytes, until [`end_change`](Self::end_change), if the call still
    /// waits. Returns whether it may.
    pub(in crate::finstrument) fn begin_change(&self) -> bool {
        self.busy.fetch_add(1, Ordering::SeqCst);
        let may_change = self.state() == State::Waiting;
        if !may_change {
            self.end_change();
        }
        may_change
    }

    /// Ends a change that [`begin_change`](Self::begin_change) has allowed.
    pub(in crate::finstrument) fn end_change(&self) {
        self.busy.fetch_sub(1, Ordering::SeqCst);
    }

    /// Returns whether a hook is changing the bytes.
    pub(in crate::finstrument) fn is_busy(&self) -> bool {
        self.busy.load(Ordering::SeqCst) != 0
    }
}
