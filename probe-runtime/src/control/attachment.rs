//! A consumer on a set of probes, for as long as it lives.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use super::lock::lock;
use super::state::{Policy, pause, settle};
use super::tallies::sums;
use crate::consumer::{Consumer, Wants};
use crate::consumers::{Counts, ProbeCount};
use crate::dispatch::Subscription;
use crate::patch::{Report, Visibility};
use crate::registry::ProbeInfo;

/// A consumer, attached: from [`ProbeSet::attach`](super::ProbeSet::attach). Derefs to the consumer. Dropping
/// it detaches: sites that nobody else listens to become latent, and the call returns when no thread is inside
/// the consumer any more. (Dropped inside the consumer's own `hit`, it does not wait; the consumer is then
/// freed by a later operation.) Don't drop it while holding a lock that the consumer's `hit` takes: each would wait for
/// the other.
#[must_use = "dropping the attachment makes its probes latent"]
pub struct Attachment<C: Consumer> {
    /// `None` once detached.
    number: Option<usize>,
    consumer: Arc<C>,
    wants: Wants,
    subscription: Arc<Subscription>,
    report: Report,
    policy: Policy,
}

impl<C: Consumer> Attachment<C> {
    pub(super) fn new(
        number: usize,
        consumer: Arc<C>,
        wants: Wants,
        subscription: Arc<Subscription>,
        report: Report,
        policy: Policy,
    ) -> Self {
        Self { number: Some(number), consumer, wants, subscription, report, policy }
    }

    /// What activating the sites did.
    pub fn report(&self) -> &Report {
        &self.report
    }

    /// Stops the hits without forgetting anything: sites that nobody else listens to become latent. With
    /// [`Visibility::Synchronous`], no call that starts after it has returned is a hit,
    /// and no thread is inside the consumer. (A thread that had passed the site before, and is still on its way, say
    /// evaluating a field, delivers that one hit.)
    ///
    /// Cost: see the figure `toggle`; one probe with `Open` and `Eventual` takes one locked instruction on
    /// its site and two on the control lock.
    pub fn pause(&self) -> Report {
        self.set_paused(true)
    }

    /// Starts the hits again, after [`pause`](Self::pause). The attachment of a consumer that has
    /// [failed](Self::failure) can't be resumed.
    pub fn resume(&self) -> Report {
        if self.subscription.has_failed() {
            return Report::default();
        }
        self.set_paused(false)
    }

    fn set_paused(&self, is_paused: bool) -> Report {
        let mut report = Report::default();
        if let Some(number) = self.number {
            pause(number, is_paused, self.policy.visibility, &mut report);
        }
        report
    }

    /// Detaches, and tells what making the sites latent did.
    pub fn detach(mut self) -> Report {
        self.leave()
    }

    /// The second time, from `drop` after `detach`, there is nothing left to do.
    fn leave(&mut self) -> Report {
        let Some(number) = self.number.take() else { return Report::default() };
        let report = lock().detach(number);
        // Whatever the visibility: another thread may be about to free what was retired here.
        settle(Visibility::Synchronous);
        report
    }

    /// The attachment's probes, as they are now.
    pub fn probes(&self) -> Vec<ProbeInfo> {
        let mut locked = lock();
        locked.refresh();
        let ids = self
            .number
            .and_then(|number| locked.attached(number))
            .map(|attached| Arc::clone(&attached.ids))
            .unwrap_or_default();
        ids.iter().filter_map(|id| locked.info(*id)).collect()
    }

    /// What each probe has counted, of a consumer that [wants](Consumer::wants) a tally; by path. Exact for
    /// hits that ended before, under any number of threads, also those that have exited.
    pub fn counts(&self) -> Counts {
        if self.wants != Wants::Tally {
            return Counts::default();
        }
        let mut locked = lock();
        locked.refresh();
        let Some(attached) = self.number.and_then(|number| locked.attached(number)) else {
            return Counts::default();
        };
        let sums = sums(attached.tallies.clone());
        let counts = (attached.ids.iter().zip(sums))
            .filter_map(|(id, hits)| Some(ProbeCount { probe: locked.info(*id)?, hits }))
            .collect();
        drop(locked);
        Counts::new(counts)
    }

    /// Hits that were not delivered, because they came from inside a consumer: its own probes, or a signal
    /// handler that interrupted it.
    pub fn suppressed(&self) -> u64 {
        if self.wants == Wants::Tally {
            return 0;
        }
        let locked = lock();
        self.number
            .and_then(|number| locked.attached(number))
            .map_or(0, |attached| sums(attached.tallies.clone()).iter().sum())
    }

    /// What the consumer said when it panicked: it is called no more from then on, and its sites are latent
    /// again, unless others listen.
    pub fn failure(&self) -> Option<&str> {
        self.subscription.failure()
    }
}

impl<C: Consumer> Deref for Attachment<C> {
    type Target = C;

    fn deref(&self) -> &C {
        &self.consumer
    }
}

impl<C: Consumer> Drop for Attachment<C> {
    fn drop(&mut self) {
        let _ = self.leave();
    }
}

impl<C: Consumer> fmt::Debug for Attachment<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Attachment").field("report", &self.report).finish_non_exhaustive()
    }
}
