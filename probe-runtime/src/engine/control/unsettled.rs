//! Attachments whose sites a hold is switching, as it begins or ends.

use std::ptr;
use std::sync::{Arc, Weak};

use super::attachments::Attachments;
use super::lock::lock;
use crate::engine::dispatch::{Subscription, Transition};
use crate::engine::registry::ProbeId;

/// Subscriptions to settle once every thread executes the switched sites. It keeps no consumer
/// alive: an attachment may be gone by then, and the thread that detaches it drops its consumer.
#[must_use = "without its end, nothing is paired any more"]
pub(super) struct Switched(Vec<One>);

struct One {
    attachment: usize,
    /// Another attachment may later get the same number, but not the same address.
    subscription: Weak<Subscription>,
    unsettled: Transition,
}

impl Switched {
    /// Marks all attachments to these probes as unsettled, before their sites are switched.
    pub(super) fn unsettle(attachments: &Attachments, ids: &[ProbeId]) -> Self {
        let mut numbers: Vec<_> = ids.iter().flat_map(|id| attachments.attachments_of(*id)).collect();
        numbers.sort_unstable();
        numbers.dedup();
        let one = |attachment: usize| {
            let subscription = &attachments.attached(attachment)?.subscription;
            Some(One {
                attachment,
                subscription: Arc::downgrade(subscription),
                unsettled: subscription.begin_transition(),
            })
        };
        Self(numbers.into_iter().filter_map(one).collect())
    }

    pub(super) fn settle(self) {
        if self.0.is_empty() {
            return;
        }
        let control = lock();
        for One { attachment, subscription: its, unsettled } in self.0 {
            let attached = control.attachments.attached(attachment).map(|attached| &attached.subscription);
            if let Some(subscription) = attached.filter(|it| ptr::eq(Arc::as_ptr(it), its.as_ptr())) {
                subscription.commit_locked(unsettled);
            }
        }
    }
}
