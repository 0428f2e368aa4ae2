//! The control's record of one attachment.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use super::counters::sums;
use super::policy::Policy;
use super::runs::{Run, runs};
use super::standing::Standing;
use super::{HeldText, Wants};
use crate::dispatch::{Era, Subscription};
use crate::patch::{Mode, Report};
use crate::registry::{ProbeId, provider};

/// One attachment.
pub(super) struct Attached {
    pub(super) ids: Arc<[ProbeId]>,
    pub(super) runs: Vec<Run>,
    pub(super) wants: Wants,
    /// Its own counters, as many as [`Wants::counters`] says.
    pub(super) counters: Range<usize>,
    pub(super) subscription: Arc<Subscription>,
    /// The time from which hits may have found it.
    pub(super) since: Era,
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
    /// Present in the growing attachment only.
    pub(super) growth: Option<Growth>,
}

/// The counters of a growing attachment: one for each discovered definition.
#[derive(Default)]
pub(super) struct Growth {
    pub(super) counters: Vec<(ProbeId, usize)>,
    /// Whether the attachment's list of probes agrees with `counters`.
    pub(super) is_settled: bool,
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
            since: Era::UNKNOWN,
            policy,
            is_paused: Cell::new(false),
            mode: (wants == Wants::Hits).then_some(Mode::Active),
            sole: 0,
            off: 0,
            frozen: Cell::new(0),
            text,
            late: Report::default(),
            standing: None,
            growth: None,
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

    /// Returns the counters of a growing attachment.
    pub(super) fn growth(&self) -> Option<&Growth> {
        self.growth.as_ref().filter(|_| provider::IS_POSSIBLE)
    }

    /// Updates the list of a growing attachment's probes, before an operation on all of them.
    pub(super) fn settle_growth(&mut self) {
        let growth = self.growth.as_mut().filter(|growth| provider::IS_POSSIBLE && !growth.is_settled);
        let Some(growth) = growth else { return };
        growth.is_settled = true;
        let ids = growth.ids();
        self.runs = runs(&ids);
        self.ids = ids.into();
    }

    /// Returns the number of its counters, from the first, that may have counted while no other
    /// attachment shared its probes.
    pub(super) fn own(&self) -> usize {
        if self.growth().is_some() {
            return self.counters.len();
        }
        self.wants.counters(0)
    }
}

impl Growth {
    /// Returns its probes, ascending.
    pub(super) fn ids(&self) -> Vec<ProbeId> {
        let mut ids: Vec<_> = self.counters.iter().map(|(id, _)| *id).collect();
        ids.sort_unstable();
        ids.dedup();
        ids
    }

    /// Adds the counts of the attachment's own counters for these probes: of hits while their hooks
    /// were inline ones, or while another attachment was called with them.
    pub(super) fn add_own(&self, ids: &[ProbeId], counted: &mut [u64]) {
        let counters = || self.counters.iter().map(|(_, counter)| *counter);
        let (Some(first), Some(last)) = (counters().min(), counters().max()) else { return };
        let sums = sums(first..last + 1);
        let mut own = BTreeMap::<ProbeId, u64>::new();
        for (id, counter) in &self.counters {
            *own.entry(*id).or_default() += sums[counter - first];
        }
        ids.iter().zip(counted).for_each(|(id, counted)| *counted += own.get(id).unwrap_or(&0));
    }
}
