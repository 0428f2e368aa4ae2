//! Attaching, detaching, and forcing probes off, under the control lock.

use std::iter;
use std::sync::Arc;

use super::attached::Attached;
use super::garbage::{Detached, Garbage};
use super::members::claim;
use super::parts::Part;
use super::policy::Policy;
use super::state::Control;
use super::{HeldText, Start, Wants, close_text, is_still_open, open_text, refuse, refuse_taken};
use crate::engine::dispatch::{Action, CounterAt, Subscription};
use crate::engine::error::Error;
use crate::engine::os::objects::KeptLoaded;
use crate::engine::registry::ProbeId;
use crate::engine::sites::{Mode, Refusal, RefusalReason, Report, SiteAddr};
#[cfg(probe_backend = "patched")]
use probe_core::abi::Convention;
use probe_core::abi::Definition;

impl Control {
    /// Attaches a consumer; returns the attachment's number and the report of its activation.
    /// `starts` holds the initial state of probes that do not begin with [`Start::On`], in
    /// ascending order.
    pub(super) fn attach(
        &mut self,
        ids: &[ProbeId],
        policy: Policy,
        subscription: &Arc<Subscription>,
        wants: Wants,
        starts: &[(ProbeId, Start)],
        loaded: KeptLoaded<'_>,
    ) -> Result<(usize, Report), Error> {
        let mut report = Report::default();
        let ids = self.exclude_taken(ids, &mut report, loaded);
        let wanted = wants.counters(ids.len());
        let pool = &mut self.attachments.counters;
        let has_room = wants == Wants::Hits || ids.last().is_none_or(|last| pool.reserve(*last));
        let counters = has_room.then(|| pool.take(wanted)).flatten();
        let counters = counters.ok_or(Error::OutOfCounters { wanted })?;
        let text = match open_text(&self.registry, &ids, policy, loaded) {
            Ok(text) => text,
            Err(error) => {
                self.attachments.counters.give_back(counters, 0);
                return Err(error);
            }
        };
        let (suppressed, of_probes) = (counters.start, counters.start + wants.counters(0)..);
        let actions = of_probes.map(|counter| match wants {
            Wants::Counts => Action::Count(CounterAt::new(counter)),
            Wants::Hits => Action::Call { suppressed: CounterAt::new(suppressed), counted: None },
            Wants::Switchable => Action::Call {
                suppressed: CounterAt::new(suppressed),
                counted: Some(CounterAt::new(counter)),
            },
        });
        let attached = Attached::new(ids, wants, counters, subscription, policy, text);
        let attachment = self.enlist(attached, actions, starts, &mut report, loaded);
        Ok((attachment, report))
    }

    /// Installs a wrapper; returns the attachment's number, or `None` if another runtime has taken
    /// the probe.
    pub(super) fn install(
        &mut self,
        definition: &Definition,
        subscription: &Arc<Subscription>,
        loaded: KeptLoaded<'_>,
    ) -> (Option<usize>, Report) {
        let mut report = Report::default();
        let id = self.registry.id_of(definition);
        let ids = self.exclude_taken(&Vec::from_iter(id), &mut report, loaded);
        if ids.is_empty() {
            if report.refused() == 0 {
                report.refuse(Refusal::new(SiteAddr(0), RefusalReason::Taken));
            }
            return (None, report);
        }
        let policy = Policy { text: self.attachments.common_text_policy(), ..Policy::default() };
        let attached = Attached::new(ids, Wants::Counts, 0..0, subscription, policy, HeldText::default());
        let number = self.enlist(attached, iter::once(Action::Wrap), &[], &mut report, loaded);
        (Some(number), report)
    }

    /// Adds an attachment to its probes, with an action for each, and switches their sites
    /// accordingly. Returns the attachment's number.
    fn enlist(
        &mut self,
        attached: Attached,
        actions: impl Iterator<Item = Action>,
        starts: &[(ProbeId, Start)],
        report: &mut Report,
        loaded: KeptLoaded<'_>,
    ) -> usize {
        let (ids, policy) = (Arc::clone(&attached.ids), attached.policy);
        let left = self.attachments.left_each(&ids);
        let attachment = self.attachments.place(attached, self.reclaimer.now());
        self.attachments.reserve(&ids);
        for (id, action) in ids.iter().zip(actions) {
            let start = starts.binary_search_by_key(id, |(id, _)| *id).map_or(Start::On, |at| starts[at].1);
            self.attachments.add(*id, Part::starting(attachment, action, start));
        }
        self.publish(&ids, loaded);
        self.remember(&ids, loaded);
        let is_counted = self.switch_each(&ids, &left, self.access_to_open(policy), report, loaded);
        // While it decides alone, its hooks don't change, so the mode stays valid.
        let attached = self.attachments.attached_mut(attachment);
        if let Some(attached) = attached.filter(|attached| attached.wants == Wants::Counts) {
            attached.mode = is_counted.then_some(Mode::Counting);
        }
        attachment
    }

    /// Returns the probes without those that another runtime has taken, which it refuses.
    pub(super) fn exclude_taken(
        &self,
        ids: &[ProbeId],
        report: &mut Report,
        loaded: KeptLoaded<'_>,
    ) -> Arc<[ProbeId]> {
        self.prepare_for_texts(ids, loaded);
        let is_free = |id: &ProbeId| self.registry.definitions(*id, loaded).all(claim);
        // Most processes have one runtime.
        if ids.iter().all(is_free) {
            return ids.into();
        }
        let (free, taken): (Vec<_>, Vec<_>) = ids.iter().copied().partition(is_free);
        refuse(&self.registry, &taken, &RefusalReason::Taken, report);
        refuse_taken(&self.registry, &taken, report);
        free.into()
    }

    /// Gets ready to read strings of C, if a probe may have some.
    fn prepare_for_texts(&self, ids: &[ProbeId], loaded: KeptLoaded<'_>) {
        #[cfg(probe_backend = "patched")]
        {
            let may_have = |definition: &Definition| {
                definition.convention() == Convention::KeptColdBlock && definition.field_count() != 0
            };
            if ids.iter().any(|id| self.registry.definitions(*id, loaded).any(&may_have)) {
                crate::engine::os::guarded_read::prepare();
            }
        }
        #[cfg(not(probe_backend = "patched"))]
        let _ = (ids, loaded);
    }

    /// Removes an attachment from all its probes. Its memory is retired, not freed.
    pub(super) fn detach(&mut self, attachment: usize, loaded: KeptLoaded<'_>) -> Report {
        let mut report = Report::default();
        let Some(attached) = self.attachments.attached_mut(attachment) else { return report };
        attached.subscription.close();
        // The attachment itself knows whether it is paused.
        let (left_all, ids) = (attached.left(), Arc::clone(&attached.ids));
        let left = if left_all.is_none() { self.attachments.left_each(&ids) } else { Vec::new() };
        let Some((attached, is_mixed)) = self.attachments.remove(attachment) else { return report };
        self.publish(&ids, loaded);
        self.forget(&ids);
        // Retired after its hooks, so `reclaimer` returns it no earlier than them.
        let used = if is_mixed { attached.counters.len() } else { attached.own() };
        let Attached { since, subscription, counters, policy, runs, text, standing, .. } = attached;
        let late = standing.map(|standing| standing.counters).unwrap_or_default();
        let detached = Detached { subscription, counters, used, late };
        self.reclaimer.retire(since, Garbage::Detached(Box::new(detached)));
        let access = if is_still_open(&text, loaded) { self.access_to_open(policy) } else { policy.access() };
        if left_all.is_some() {
            // It alone decided on these probes, so none of them has a member now.
            self.switch_runs(&runs, Mode::Latent, access, left_all, &mut report, loaded);
        } else {
            self.switch_each(&ids, &left, access, &mut report, loaded);
        }
        close_text(text, &mut report, loaded);
        report
    }

    /// Forces probes off, until [`release`](Self::release).
    pub(super) fn hold(
        &mut self,
        ids: &[ProbeId],
        policy: Policy,
        loaded: KeptLoaded<'_>,
    ) -> Result<(Report, HeldText), Error> {
        let text = open_text(&self.registry, ids, policy, loaded)?;
        let mut report = Report::default();
        let left = self.attachments.left_each(ids);
        self.attachments.hold(ids);
        self.switch_each(ids, &left, policy.access(), &mut report, loaded);
        Ok((report, text))
    }

    pub(super) fn release(
        &mut self,
        ids: &[ProbeId],
        policy: Policy,
        text: HeldText,
        loaded: KeptLoaded<'_>,
    ) -> Report {
        let mut report = Report::default();
        let left = self.attachments.left_each(ids);
        self.attachments.release(ids);
        self.switch_each(ids, &left, policy.access(), &mut report, loaded);
        close_text(text, &mut report, loaded);
        report
    }
}
