//! The part of an [`Attachment`](super::Attachment) that does not depend on the consumer's type,
//! compiled once.

use std::mem;
use std::sync::Arc;

use super::baseline::Baseline;
use super::lock::{lock, operate};
use super::partial::Switch;
use super::pause::pause;
use super::policy::Policy;
use super::retired::settle;
use super::screen::Screen;
use super::select::unmatched;
use super::set::ProbeSet;
use super::standing::{Rule, Standing};
use super::state::Control;
use super::turn::{self, Turn};
use super::{Consumer, Start, Wants};
use crate::engine::dispatch::{Subscription, Transition, WaitFor};
use crate::engine::error::Error;
use crate::engine::os;
use crate::engine::os::cancel::Uncancellable;
use crate::engine::os::objects::KeptLoaded;
use crate::engine::period::Since;
use crate::engine::registry::{Counts, ProbeCount, ProbeInfo};
use crate::engine::sites::{Refusal, Report, UnmatchedTerm, Visibility};

/// An attachment without its consumer's type. It detaches when it is dropped, as
/// [`Attachment`](super::Attachment) describes. The owner of the consumer drops its reference
/// first.
pub(crate) struct Untyped {
    number: usize,
    subscription: Arc<Subscription>,
    report: Report,
    policy: Policy,
    since: Since,
    counts: Baseline<Counts>,
    is_detached: bool,
    /// Whether probes may join.
    is_standing: bool,
    /// Whether first hits of discovered functions are counted for it.
    counts_first_hits: bool,
    /// The consumer that passes hits on to this one, if it does not get all.
    screen: Option<Arc<dyn Screen>>,
}

impl Untyped {
    pub(super) fn new(
        number: usize,
        subscription: Arc<Subscription>,
        report: Report,
        policy: Policy,
    ) -> Self {
        let (since, counts) = (Since::now(), Baseline::default());
        Self {
            number,
            subscription,
            report,
            policy,
            since,
            counts,
            is_detached: false,
            is_standing: false,
            counts_first_hits: false,
            screen: None,
        }
    }

    /// Returns the attachment of a consumer that gets its hits from another one.
    pub(super) fn behind(mut self, screen: Arc<dyn Screen>) -> Self {
        self.screen = Some(screen);
        self
    }

    /// Returns the consumer that passes hits on to this one, if it does not get all.
    pub(crate) fn screen(&self) -> Option<&dyn Screen> {
        self.screen.as_deref()
    }

    /// Attaches a consumer to a set's probes. [`finish`](Self::finish) then tells the consumer.
    pub(super) fn begin(
        set: &ProbeSet,
        consumer: &Arc<dyn Consumer>,
        subscription: Arc<Subscription>,
    ) -> Result<Self, Error> {
        // Called before the lock is taken: it runs the consumer's own code.
        let wants = consumer.wants();
        super::ready::require()?;
        if set.policy.is_of_parent {
            subscription.stay_in_parent();
        }
        if subscription.needs_thread() {
            // A process's first barrier registers it with the kernel. That takes microseconds while
            // it has one thread, and tens of milliseconds from its second thread on.
            os::heavy_barrier();
        }
        let is_at_once = consumer.joins_at_once();
        let present = (!is_at_once).then(|| set.present()).flatten();
        let (set, seen) = present.as_ref().map_or((set, None), |(set, seen)| (set, Some(*seen)));
        consumer.prepare(set)?;
        subscription.set_recorder(consumer.recorder());
        subscription.set_quick(consumer.quick());
        let starts = set.ids.iter().map(|id| (*id, consumer.start(*id)));
        let starts: Vec<_> = starts.filter(|(_, start)| *start != Start::On).collect();
        let policy = set.policy;
        let counts_first_hits = set.counts_discovered().filter(|_| wants == Wants::Counts);
        let attach = |control: &mut Control, loaded: KeptLoaded<'_>| {
            // The consumer may not have seen probes that came or went meanwhile: they join.
            let is_seen = seen.is_none_or(|seen| seen == control.changes);
            let of_main = (!is_seen).then(|| set.only(&|id| control.registry.is_in_main(*id)));
            let ids = &of_main.as_ref().unwrap_or(set).ids;
            let (number, report) = control.attach(ids, policy, &subscription, wants, &starts, loaded)?;
            control.stand(number, set, consumer, is_at_once);
            if let Some(capacity) = counts_first_hits {
                let counts = control.count_first_hits(number, capacity);
                counts.inspect_err(|_| drop(control.detach(number, loaded)))?;
            }
            control.note_since(set, loaded);
            Ok::<_, Error>((number, report))
        };
        let (number, mut report) = operate(attach)?;
        report.set_unmatched(&set.unmatched);
        settle(policy.visibility, None);
        subscription.commit(Transition::FIRST);
        let mut attached = Self::new(number, subscription, report, policy);
        attached.is_standing = set.standing_rule().is_some();
        attached.counts_first_hits = counts_first_hits.is_some();
        Ok(attached)
    }

    /// Tells the consumer that it is attached, unless all sites were refused.
    pub(super) fn finish(&self, consumer: &dyn Consumer) -> Result<(), Error> {
        if self.report.refused() != 0 && self.report.patched() + self.report.unchanged() == 0 {
            return Err(Error::Refused(Box::new(self.report.clone())));
        }
        consumer.attached(self.switch())?;
        if self.is_standing {
            lock().attachments.begin_joining(self.number);
            if turn::is_due() {
                turn::join_waiting();
            }
        }
        Ok(())
    }

    pub(crate) fn report(&self) -> &Report {
        &self.report
    }

    pub(super) fn late_report(&self) -> Report {
        operate(|control, _| control.attachments.late(self.number))
    }

    pub(super) fn set_paused(&self, is_paused: bool) -> Report {
        if self.counts_first_hits {
            // Hits up to here are in the state that ends.
            operate(|_, _| ());
        }
        pause(self.number, &self.subscription, is_paused, self.policy.visibility)
    }

    /// Makes the sites active again.
    #[cfg(probe_agent)]
    pub(crate) fn resume(&self) -> Report {
        self.set_paused(false)
    }

    /// Pauses for good, and waits until no thread is in the consumer, whatever the visibility. Hits
    /// under way pass it by.
    #[cfg(feature = "trace")]
    pub(crate) fn end_hits(&self) {
        self.subscription.close();
        // Sites that are refused stay as they are, and their hits pass the consumer by.
        let _ = pause(self.number, &self.subscription, true, Visibility::Synchronous);
    }

    pub(super) fn switch(&self) -> Switch {
        Switch::new(self.number, &self.subscription)
    }

    /// Detaches on the first call; later calls do nothing.
    pub(super) fn leave(&mut self) -> Report {
        if mem::replace(&mut self.is_detached, true) {
            return Report::default();
        }
        if self.counts_first_hits
            && let Some(counters) = operate(|control, loaded| control.end_first_hits(self.number, loaded))
            && settle(Visibility::Synchronous, Some(WaitFor::Passing)).is_some()
        {
            // No thread is about to give a function one of these counters. Inside a hit this is not
            // certain, so they are not used again.
            operate(|control, _| control.keep_first_hits(self.number, counters));
        }
        let report = operate(|control, loaded| control.detach(self.number, loaded));
        if self.is_standing {
            // Another thread may be in `Consumer::join`.
            drop(Turn::take());
        }
        // Always synchronous: only the wait proves that the consumer may be dropped.
        if let Some(left) = settle(Visibility::Synchronous, Some(self.subscription.wait_for())) {
            let _whole = Uncancellable::new();
            drop(self.subscription.take_consumer(&left));
        }
        report
    }

    /// Begins a new [generation](crate::Event::generation), so that no hit from now on is paired
    /// with one before.
    #[cfg(feature = "trace")]
    pub(crate) fn begin_generation(&self) {
        let _locked = lock();
        self.subscription.begin_generation();
    }

    pub(super) fn probes(&self) -> Vec<ProbeInfo> {
        operate(|control, loaded| {
            let ids = control.attachments.ids(self.number);
            control.attached_infos(&ids, loaded).map(|(_, info)| info).collect()
        })
    }

    pub(crate) fn foreign(&self) -> Vec<Refusal> {
        operate(|control, loaded| {
            let ids = control.attachments.ids(self.number);
            control.strays(&ids, loaded).into_iter().map(|(_, stray)| stray).collect()
        })
    }

    pub(super) fn counts(&self) -> Counts {
        self.counts.now(|| self.all_counts(), Counts::since)
    }

    pub(super) fn reset_counts(&self) -> Counts {
        self.counts.reset(|| self.all_counts(), Counts::since)
    }

    /// Returns the count of each probe since it was attached, regardless of resets. Collectors
    /// report these.
    pub(crate) fn all_counts(&self) -> Counts {
        let counts = operate(|control, loaded| {
            let counted = match self.screen() {
                None => control.attachments.counted(self.number),
                Some(screen) => {
                    let ids = control.attachments.ids(self.number);
                    ids.iter().filter_map(|id| Some((*id, screen.counted(*id)?))).collect()
                }
            };
            let ids: Vec<_> = counted.iter().map(|(id, _)| *id).collect();
            let probes = control.attached_infos(&ids, loaded);
            let count = |(id, probe)| {
                let at = counted.binary_search_by_key(&id, |(id, _)| *id).ok()?;
                Some(ProbeCount { probe, hits: counted[at].1 })
            };
            Some(probes.filter_map(count).collect())
        });
        Counts::new(counts.unwrap_or_default(), self.since.period())
    }

    /// Returns the number of its probes.
    #[cfg(probe_agent)]
    pub(crate) fn probe_count(&self) -> usize {
        lock().attachments.ids(self.number).len()
    }

    pub(crate) fn suppressed(&self) -> u64 {
        lock().attachments.suppressed(self.number)
    }

    /// Returns the terms of a standing selector that have named no probe so far.
    pub(crate) fn unmatched(&self) -> Vec<UnmatchedTerm> {
        let standing = |control: &Control, loaded: KeptLoaded<'_>| {
            let Rule::Named(selector, named) = self.standing_of(control)?.rule.clone() else { return None };
            Some(unmatched(control, &selector, &named, loaded))
        };
        if self.is_standing {
            operate(|control, loaded| standing(control, loaded)).unwrap_or_default()
        } else {
            Vec::new()
        }
    }

    /// Returns a line about probes that could not join, if there are any.
    pub(crate) fn left_out_later(&self) -> Option<String> {
        self.is_standing.then(|| operate(|control, _| self.standing_of(control)?.note())).flatten()
    }

    /// Returns a line about probes that were hit before they joined, if there are any.
    pub(crate) fn joined_late(&self) -> Option<String> {
        let note = |control: &Control, loaded: KeptLoaded<'_>| {
            self.standing_of(control)?.note_of_late(&control.registry, loaded)
        };
        self.is_standing.then(|| operate(|control, loaded| note(control, loaded))).flatten()
    }

    fn standing_of<'a>(&self, control: &'a Control) -> Option<&'a Standing> {
        control.attachments.attached(self.number)?.standing.as_deref()
    }

    pub(crate) fn failure(&self) -> Option<&str> {
        self.subscription.failure()
    }
}

impl Drop for Untyped {
    fn drop(&mut self) {
        let _ = self.leave();
    }
}
