//! Attachments whose sites a hold is switching, as it begins or ends.

use std::ptr;
use std::sync::{Arc, Weak};

use super::listeners::Listeners;
use super::lock::lock;
use crate::dispatch::{Subscription, UnsettledSwitch};
use crate::registry::ProbeId;

/// Subscriptions to settle once every thread executes the switched sites. It keeps no consumer
/// alive: an attachment may be gone by then, and the thread that detaches it drops its consumer.
#[must_use = "without its end, nothing is paired any more"]
pub(super) struct Switched(Vec<One>);

struct One {
    attachment: usize,
    /// Another attachment may later get the same number, but not the same address.
    subscription: Weak<Subscription>,
    unsettled: UnsettledSwitch,
}

impl Switched {
    /// Marks all attachments to these probes as unsettled, before their sites are switched.
    pub(super) fn unsettle(listeners: &Listeners, ids: &[ProbeId]) -> Self {
        let mut attachments: Vec<_> = ids.iter().flat_map(|id| listeners.attachments_of(*id)).collect();
        attachments.sort_unstable();
        attachments.dedup();
        let one = |attachment: usize| {
            let subscription = &listeners.attached(attachment)?.subscription;
            Some(One {
                attachment,
                subscription: Arc::downgrade(subscription),
                unsettled: subscription.unsettle(),
            })
        };
        Self(attachments.into_iter().filter_map(one).collect())
    }

    pub(super) fn settle(self) {
        if self.0.is_empty() {
            return;
        }
        let control = lock();
        for One { attachment, subscription: its, unsettled } in self.0 {
            let attached = control.listeners.attached(attachment).map(|attached| &attached.subscription);
            if let Some(subscription) = attached.filter(|it| ptr::eq(Arc::as_ptr(it), its.as_ptr())) {
                subscription.settle_locked(unsettled);
            }
        }
    }
}
