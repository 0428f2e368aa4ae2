//! One attachment, as the control keeps it.

use std::cell::Cell;
use std::ops::Range;
use std::sync::Arc;

use super::HeldText;
use super::switch::{Run, runs};
use super::tallies::{counts, sums};
use crate::consumer::Wants;
use crate::dispatch::{Era, Subscription};
use crate::patch::{Access, Report, TextPolicy, Visibility};
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
        self.text.access(self.strict)
    }
}

/// One attachment.
pub(super) struct Attached {
    pub(super) ids: Arc<[ProbeId]>,
    pub(super) runs: Vec<Run>,
    pub(super) wants: Wants,
    /// Its counters: what [`Wants::counters`] says.
    pub(super) tallies: Range<usize>,
    pub(super) subscription: Arc<Subscription>,
    /// When hits may have found it first.
    pub(super) since: Era,
    pub(super) policy: Policy,
    pub(super) is_paused: Cell<bool>,
    /// On how many of its probes it alone decides.
    pub(super) sole: usize,
    /// How many of its probes are switched off.
    pub(super) off: usize,
    pub(super) text: HeldText,
    /// What was done to its sites last without being asked for.
    pub(super) late: Report,
    /// Of the attachment that discovered probes are added to.
    #[cfg(probe_discovers)]
    pub(super) growth: Option<Growth>,
}

/// Which counters the probes of a growing attachment have: one for each definition that was
/// discovered.
#[cfg(probe_discovers)]
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
            sole: 0,
            off: 0,
            text,
            late: Report::default(),
            #[cfg(probe_discovers)]
            growth: None,
        }
    }

    /// What was not delivered.
    pub(super) fn suppressed(&self) -> u64 {
        let start = self.tallies.start;
        if self.wants == Wants::Tally { 0 } else { sums(start..start + 1).iter().sum() }
    }

    /// What each probe has counted.
    pub(super) fn counted(&self) -> Vec<(ProbeId, u64)> {
        if self.wants == Wants::Hits {
            return Vec::new();
        }
        #[cfg(probe_discovers)]
        if let Some(growth) = &self.growth {
            return growth.counted();
        }
        let first = self.tallies.start + self.wants.counters(0);
        self.ids.iter().copied().zip(sums(first..self.tallies.end)).collect()
    }

    /// What each of these probes has counted; 0 for those that are not its own.
    pub(super) fn counted_of(&self, ids: &[ProbeId]) -> Vec<u64> {
        #[cfg(probe_discovers)]
        if let Some(growth) = &self.growth {
            let counted = growth.counted();
            let of =
                |id: &ProbeId| counted.binary_search_by_key(id, |(id, _)| *id).map_or(0, |at| counted[at].1);
            return ids.iter().map(of).collect();
        }
        let first = self.tallies.start + self.wants.counters(0);
        let at = |id: &ProbeId| self.ids.binary_search(id).ok().map(|at| first + at);
        let numbers: Vec<_> = ids.iter().map(at).collect();
        if self.wants == Wants::Hits { vec![0; ids.len()] } else { counts(&numbers.iter().copied()) }
    }
}
