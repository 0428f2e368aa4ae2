//! Attachments whose sites are being switched by somebody else: a hold begins, or ends.

use std::sync::Arc;

use super::members::Members;
use super::state::Control;
use crate::dispatch::{Subscription, Unsettled};
use crate::registry::ProbeId;

/// What is to be settled once every thread executes what was switched.
#[must_use = "without its end, nothing is paired any more"]
pub(super) struct Switched(Vec<(Arc<Subscription>, Unsettled)>);

impl Switched {
    pub(super) fn settle(self) {
        self.0.into_iter().for_each(|(subscription, unsettled)| subscription.settle(unsettled));
    }
}

impl Control {
    /// Tells all who are attached to one of these probes that sites are about to be switched.
    pub(super) fn unsettle(&self, ids: &[ProbeId]) -> Switched {
        let parts = ids.iter().filter_map(|id| self.members(*id)).flat_map(Members::attachments);
        let mut attachments: Vec<_> = parts.collect();
        attachments.sort_unstable();
        attachments.dedup();
        let attached = attachments.into_iter().filter_map(|at| self.attached(at));
        let switched = attached.map(|it| (Arc::clone(&it.subscription), it.subscription.unsettle()));
        Switched(switched.collect())
    }
}
