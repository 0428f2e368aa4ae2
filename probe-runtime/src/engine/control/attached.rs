//! The control's record of one attachment.

use std::cell::Cell;
use std::ops::Range;
use std::sync::Arc;

use super::policy::Policy;
use super::runs::{Run, runs};
use super::standing::Standing;
use super::{HeldText, Wants};
use crate::engine::dispatch::{Epoch, Subscription};
use crate::engine::registry::ProbeId;
use crate::engine::sites::{Mode, Report};

/// One attachment.
pub(super) struct Attached {
    pub(super) ids: Arc<[ProbeId]>,
    pub(super) runs: Vec<Run>,
    pub(super) wants: Wants,
    /// Its own counters, as many as [`Wants::counters`] says.
    pub(super) counters: Range<usize>,
    pub(super) subscription: Arc<Subscription>,
    /// The time from which hits may have found it.
    pub(super) since: Epoch,
    pub(super) policy: Policy,
    pub(super) is_paused: Cell<bool>,
    /// The mode of its sites while it alone decides on them; `None` if they have several modes.
    pub(super) mode: Option<Mode>,
    /// The number of its probes on which it alone decides.
    pub(super) sole: usize,
    /// The number of its probes that are switched off.
    pub(super) off: usize,
    /// The number of its parts that are frozen.
    pub(super) frozen: Cell<usize>,
    pub(super) text: HeldText,
    /// The last change to its sites that no caller has asked for.
    pub(super) late: Report,
    /// Present in standing attachments only.
    pub(super) standing: Option<Box<Standing>>,
}

impl Attached {
    pub(super) fn new(
        ids: Arc<[ProbeId]>,
        wants: Wants,
        counters: Range<usize>,
        subscription: &Arc<Subscription>,
        policy: Policy,
        text: HeldText,
    ) -> Self {
        Self {
            runs: runs(&ids),
            ids,
            wants,
            counters,
            subscription: Arc::clone(subscription),
            since: Epoch::UNKNOWN,
            policy,
            is_paused: Cell::new(false),
            mode: (wants == Wants::Hits).then_some(Mode::Active),
            sole: 0,
            off: 0,
            frozen: Cell::new(0),
            text,
            late: Report::default(),
            standing: None,
        }
    }

    /// Returns whether it alone decides on all of its probes, none is switched off, and no part is
    /// frozen.
    pub(super) fn decides_alone(&self) -> bool {
        self.sole == self.ids.len() && self.off == 0 && self.frozen.get() == 0
    }

    /// Returns the mode that all of its sites were left in; `None` if each probe must be asked.
    pub(super) fn left(&self) -> Option<Mode> {
        let mode = if self.is_paused.get() { Some(Mode::Latent) } else { self.mode };
        mode.filter(|_| self.decides_alone())
    }

    /// Returns the number of its counters, from the first, that may have counted while no other
    /// attachment shared its probes.
    pub(super) fn own(&self) -> usize {
        self.wants.counters(0)
    }
}
