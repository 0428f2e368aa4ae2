//! One attachment, as the control keeps it.

use std::cell::Cell;
use std::ops::Range;
use std::sync::Arc;

use super::switch::{Run, runs};
use super::{HeldText, Wants};
use crate::dispatch::{Era, Subscription};
use crate::patch::{Access, Mode, Report, TextPolicy, Visibility};
use crate::registry::ProbeId;

/// How an attachment or a hold patches.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Policy {
    pub(super) text: TextPolicy,
    pub(super) visibility: Visibility,
    pub(super) strict: bool,
}

impl Policy {
    pub(super) fn access(self) -> Access {
        Access::under(self.text, self.strict)
    }

    /// Whether text stays writable, and is written by single writes.
    pub(super) fn is_open(self) -> bool {
        self.text == TextPolicy::Open && !self.strict
    }
}

/// One attachment.
pub(super) struct Attached {
    pub(super) ids: Arc<[ProbeId]>,
    pub(super) runs: Vec<Run>,
    pub(super) wants: Wants,
    /// Its own counters: what [`Wants::counters`] says.
    pub(super) tallies: Range<usize>,
    pub(super) subscription: Arc<Subscription>,
    /// When hits may have found it first.
    pub(super) since: Era,
    pub(super) policy: Policy,
    pub(super) is_paused: Cell<bool>,
    /// What its sites are to be while it alone decides on them; `None` if that is not the same for all.
    pub(super) mode: Option<Mode>,
    /// On how many of its probes it alone decides.
    pub(super) sole: usize,
    /// How many of its probes are switched off.
    pub(super) off: usize,
    /// How many of its parts are frozen.
    pub(super) frozen: Cell<usize>,
    pub(super) text: HeldText,
    /// What was done to its sites last without being asked for.
    pub(super) late: Report,
    /// Of the attachment that discovered probes are added to.
    pub(super) growth: Option<Growth>,
}

/// Which counters the probes of a growing attachment have: one for each definition that was
/// discovered.
#[derive(Default)]
pub(super) struct Growth {
    pub(super) tallied: Vec<(ProbeId, usize)>,
    /// Whether the attachment's list of probes says so.
    pub(super) is_settled: bool,
}

impl Attached {
    pub(super) fn new(
        ids: Arc<[ProbeId]>,
        wants: Wants,
        tallies: Range<usize>,
        subscription: &Arc<Subscription>,
        policy: Policy,
        text: HeldText,
    ) -> Self {
        Self {
            runs: runs(&ids),
            ids,
            wants,
            tallies,
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
            growth: None,
        }
    }

    /// Whether nothing but its being paused decides on its probes, and what they count is its own.
    pub(super) fn decides_alone(&self) -> bool {
        self.sole == self.ids.len() && self.off == 0 && self.frozen.get() == 0
    }

    /// What its sites are to be, and were left as, if that is the same for all and no probe has to be
    /// asked.
    pub(super) fn left(&self) -> Option<Mode> {
        let mode = if self.is_paused.get() { Some(Mode::Latent) } else { self.mode };
        mode.filter(|_| self.decides_alone())
    }

    /// In how many of its counters, from the first, hits may be counted that are nobody else's, too.
    pub(super) fn own(&self) -> usize {
        if self.growth.is_some() {
            return self.tallies.len();
        }
        self.wants.counters(0)
    }
}
