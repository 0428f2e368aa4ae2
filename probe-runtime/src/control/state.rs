//! The state that the control lock guards, and the steps that change it.

use std::any::Any;
#[cfg(probe_backend = "patched")]
use std::cell::RefCell;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use super::attached::{Attached, Policy};
use super::counters::Counters;
use super::garbage::{Detached, Garbage};
use super::members::{Members, claim};
use super::parts::{Part, Parts};
#[cfg(probe_backend = "patched")]
use super::strays::Unswitched;
use super::{HeldText, close_text, is_still_open};
use super::{Start, Wants};
use crate::dispatch::{Action, CounterAt, Hooks, Limbo, Room, Subscription, Unpublished};
use crate::error::Error;
use crate::patch::{Access, Mode, RefusalReason, Report};
use crate::registry::{ProbeId, ProbeInfo, ProbeState, Registry};

/// A reading of any type.
pub(super) type Kept = Arc<dyn Any + Send + Sync>;

/// All of the control's state.
#[derive(Default)]
pub(super) struct Control {
    pub(super) registry: Registry,
    pub(super) members: Vec<Members>,
    pub(super) parts: Parts,
    /// The attachment that discovered probes are added to.
    pub(super) growing: Option<usize>,
    pub(super) attachments: Vec<Option<Attached>>,
    pub(super) counters: Counters,
    /// The baselines of consumers that were reset, by number.
    pub(super) baselines: Vec<(usize, Kept)>,
    /// Memory that hits may still be reading.
    pub(super) limbo: Limbo<Garbage>,
    /// Whether `limbo` holds places of unloaded call sites that others could use.
    pub(super) has_unloaded: bool,
    #[cfg(probe_backend = "patched")]
    pub(super) unswitched: RefCell<Unswitched>,
    /// Copies of the data of attached probes that may be unloaded.
    pub(super) remembered: HashMap<ProbeId, ProbeInfo>,
}

impl Control {
    pub(super) fn keep_late(&mut self, attachment: usize, report: Report) {
        if let Some(attached) = &mut self.attachments[attachment] {
            attached.late = report;
        }
    }

    /// Returns the range of attachments' numbers.
    pub(super) fn numbers(&self) -> Range<usize> {
        0..self.attachments.len()
    }

    /// Returns the policies of all attachments.
    pub(super) fn policies(&self) -> impl Iterator<Item = Policy> + '_ {
        self.attachments.iter().flatten().map(|attached| attached.policy)
    }

    /// Returns a probe's members, if it ever had any.
    pub(super) fn members(&self, id: ProbeId) -> Option<&Members> {
        self.members.get(id.index())
    }

    /// Returns a probe's state.
    pub(super) fn state_of(&self, id: ProbeId) -> ProbeState {
        let state = |members: &Members| members.state(&self.parts, is_paused(&self.attachments));
        self.members(id).map_or(ProbeState::Latent, state)
    }

    /// Changes a probe's members, and updates the number of probes on which each attachment alone
    /// decides.
    pub(super) fn change(&mut self, id: ProbeId, change: impl FnOnce(&mut Members, &mut Parts)) {
        if self.members.len() <= id.index() {
            self.members.resize_with(self.registry.len(), Members::default);
        }
        let members = &mut self.members[id.index()];
        let before = members.sole(&self.parts);
        change(members, &mut self.parts);
        let after = members.sole(&self.parts);
        if before != after {
            for (attachment, sign) in [(before, -1), (after, 1)] {
                if let Some(attached) = attachment.and_then(|at| self.attachments[at].as_mut()) {
                    attached.sole = attached.sole.wrapping_add_signed(sign);
                }
            }
        }
    }

    /// Publishes new hooks of these probes' listeners, and retires the previous ones.
    pub(super) fn publish(&mut self, ids: &[ProbeId]) {
        self.turn(ids);
        let (is_paused, now) = (is_paused(&self.attachments), self.limbo.now());
        let mut room = Room::default();
        for id in ids {
            let of_probe = &self.members[id.index()];
            // Most probes have one listener.
            match of_probe.sole_part(&self.parts) {
                Some(sole) => room.add(1, matches!(sole.action, Action::Wrap)),
                None => room.add(of_probe.hooked(&self.parts, &is_paused).count(), true),
            }
        }
        let mut old = Vec::new();
        let mut hooks = (room != Room::default()).then(|| Hooks::with_room(room, now));
        for &id in ids {
            let members = &mut self.members[id.index()];
            let (counter, attachments) = (self.counters.of(id), &self.attachments);
            let listening = |part: &Part| {
                let attached = attachments[part.attachment()].as_ref()?;
                Some((part.action, &attached.subscription, part.is_counting))
            };
            let sole = members.sole_part(&self.parts);
            let hook = if let Some(sole) = sole.filter(|sole| !matches!(sole.action, Action::Wrap)) {
                let sole = hooks.as_mut().zip(listening(sole));
                sole.map(|(hooks, sole)| hooks.add_one(id, counter, sole))
            } else {
                let parts = members.hooked(&self.parts, &is_paused);
                parts.clone().next().and_then(|_| {
                    hooks.as_mut().map(|hooks| hooks.add(id, counter, parts.filter_map(listening)))
                })
            };
            if let Some(hook) = members.publish(hook, self.registry.definitions(id)) {
                Unpublished::add(&mut old, hook);
            }
        }
        old.into_iter().for_each(|hooks| self.limbo.retire(hooks.since(), Garbage::Hooks(hooks)));
    }

    pub(super) fn attached(&self, attachment: usize) -> Option<&Attached> {
        self.attachments[attachment].as_ref()
    }

    pub(super) fn attached_mut(&mut self, attachment: usize) -> Option<&mut Attached> {
        self.attachments[attachment].as_mut()
    }

    /// Stores an attachment; returns its number.
    pub(super) fn place(&mut self, mut attached: Attached) -> usize {
        let attachment = self.vacant();
        attached.since = self.limbo.now();
        self.attachments[attachment] = Some(attached);
        attachment
    }

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
    ) -> Result<(usize, Report), Error> {
        let mut report = Report::default();
        let ids = self.exclude_taken(ids, &mut report);
        let wanted = wants.counters(ids.len());
        let has_room = wants == Wants::Hits || ids.last().is_none_or(|last| self.counters.reserve(*last));
        let counters = has_room.then(|| self.counters.take(wanted)).flatten();
        let counters = counters.ok_or(Error::OutOfCounters { wanted })?;
        let text = match self.open_text(&ids, policy) {
            Ok(text) => text,
            Err(error) => {
                self.counters.give_back(counters, 0);
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
        let attachment = self.enlist(attached, actions, starts, &mut report);
        Ok((attachment, report))
    }

    /// Adds an attachment to its probes, with an action for each, and switches their sites
    /// accordingly. Returns the attachment's number.
    pub(super) fn enlist(
        &mut self,
        attached: Attached,
        actions: impl Iterator<Item = Action>,
        starts: &[(ProbeId, Start)],
        report: &mut Report,
    ) -> usize {
        let (ids, policy) = (Arc::clone(&attached.ids), attached.policy);
        let left = self.left_each(&ids);
        let attachment = self.place(attached);
        self.parts.reserve(ids.len());
        for (id, action) in ids.iter().zip(actions) {
            let start = starts.binary_search_by_key(id, |(id, _)| *id).map_or(Start::On, |at| starts[at].1);
            self.add_part(*id, Part::starting(attachment, action, start));
        }
        self.publish(&ids);
        self.remember(&ids);
        let is_counted = self.switch_each(&ids, &left, self.access_to_open(policy), report);
        // While it decides alone, its hooks don't change, so the mode stays valid.
        if let Some(attached) = self.attachments[attachment].as_mut().filter(|it| it.wants == Wants::Counts) {
            attached.mode = is_counted.then_some(Mode::Counting);
        }
        attachment
    }

    /// Returns whether an attachment of this policy can be switched while objects come and go: its
    /// text is open, and all sites are the executable's.
    #[inline(always)]
    pub(super) fn is_fixed(&self, policy: Policy) -> bool {
        policy.is_open() && self.registry.is_main_only()
    }

    /// Returns the access to the sites of an attachment that has opened their text if its policy
    /// says so. Discovered call sites may lie in text that it has not opened.
    #[inline(always)]
    pub(super) fn access_to_open(&self, policy: Policy) -> Access {
        let is_held = self.is_fixed(policy) && !self.registry.has_discovered();
        if is_held { Access::Held } else { policy.access() }
    }

    /// Adds an attachment's part in a probe.
    pub(super) fn add_part(&mut self, id: ProbeId, part: Part) {
        if let Some(attached) = &mut self.attachments[part.attachment()] {
            attached.frozen.set(attached.frozen.get() + usize::from(part.is_frozen));
            attached.off += usize::from(part.is_off);
        }
        self.change(id, |members, parts| members.add(parts, part));
    }

    /// Returns the probes without those that another runtime has taken, which it refuses.
    pub(super) fn exclude_taken(&self, ids: &[ProbeId], report: &mut Report) -> Arc<[ProbeId]> {
        let is_free = |id: &ProbeId| self.registry.definitions(*id).all(claim);
        // Most processes have one runtime.
        if ids.iter().all(is_free) {
            return ids.into();
        }
        let (free, taken): (Vec<_>, Vec<_>) = ids.iter().copied().partition(is_free);
        self.refuse(&taken, &RefusalReason::Taken, report);
        self.refuse_taken(&taken, report);
        free.into()
    }

    fn vacant(&mut self) -> usize {
        self.attachments.iter().position(Option::is_none).unwrap_or_else(|| {
            self.attachments.push(None);
            self.attachments.len() - 1
        })
    }

    /// Removes an attachment from all its probes. Its memory is retired, not freed.
    pub(super) fn detach(&mut self, attachment: usize) -> Report {
        self.settle_growth(attachment);
        let mut report = Report::default();
        // The attachment itself knows whether it is paused.
        let left_all = self.attached(attachment).and_then(Attached::left);
        let left = match self.attached(attachment) {
            Some(attached) if left_all.is_none() => self.left_each(&attached.ids),
            _ => Vec::new(),
        };
        let Some(attached) = self.attachments[attachment].take() else { return report };
        attached.subscription.close();
        self.growing.take_if(|growing| *growing == attachment);
        let mut is_mixed = false;
        for &id in &*attached.ids {
            self.change(id, |members, parts| {
                is_mixed |= members.remove(parts, attachment).is_some_and(|part| part.is_mixed);
            });
        }
        self.publish(&attached.ids);
        self.forget(&attached.ids);
        // Retired after its hooks, so `limbo` returns it no earlier than them.
        let Attached { since, subscription, counters, .. } = &attached;
        let used = if is_mixed { counters.len() } else { attached.own() };
        let detached = Detached { subscription: Arc::clone(subscription), counters: counters.clone(), used };
        self.limbo.retire(*since, Garbage::Detached(Box::new(detached)));
        let is_open = is_still_open(&attached.text);
        let access = if is_open { self.access_to_open(attached.policy) } else { attached.policy.access() };
        if left_all.is_some() {
            // It alone decided on these probes, so none of them has a member now.
            self.change_runs(&attached.runs, Mode::Latent, access, left_all, &mut report);
        } else {
            self.switch_each(&attached.ids, &left, access, &mut report);
        }
        close_text(attached.text, &mut report);
        report
    }

    /// Forces probes off, until [`release`](Self::release).
    pub(super) fn hold(&mut self, ids: &[ProbeId], policy: Policy) -> Result<(Report, HeldText), Error> {
        let text = self.open_text(ids, policy)?;
        let mut report = Report::default();
        let left = self.left_each(ids);
        ids.iter().for_each(|id| self.change(*id, |members, _| members.hold()));
        self.switch_each(ids, &left, policy.access(), &mut report);
        Ok((report, text))
    }

    pub(super) fn release(&mut self, ids: &[ProbeId], policy: Policy, text: HeldText) -> Report {
        let mut report = Report::default();
        let left = self.left_each(ids);
        ids.iter().for_each(|id| self.change(*id, |members, _| members.release()));
        self.switch_each(ids, &left, policy.access(), &mut report);
        close_text(text, &mut report);
        report
    }

    /// Fails the attachments that need a thread of the parent's, in a forked child. Returns whether
    /// there are any.
    pub(super) fn orphan(&self) -> bool {
        let attached = self.attachments.iter().flatten();
        attached.filter(|attached| attached.subscription.orphan()).count() != 0
    }

    /// Detaches the attachments whose consumers have failed.
    pub(super) fn sweep(&mut self) {
        let has_failed = |attached: &Option<Attached>| {
            attached
                .as_ref()
                .is_some_and(|attached| attached.subscription.has_failed() && !attached.is_paused.get())
        };
        for at in self.numbers().filter(|at| has_failed(&self.attachments[*at])).collect::<Vec<_>>() {
            let mut late = Report::default();
            // Hits are not delivered any more, so there is nothing to settle.
            let _ = self.set_paused(at, true, &mut late);
            self.keep_late(at, late);
        }
    }
}

/// Returns a function that returns whether an attachment is paused.
pub(super) fn is_paused(attachments: &[Option<Attached>]) -> impl Fn(usize) -> bool + Clone + '_ {
    |at| attachments[at].as_ref().is_some_and(|attached| attached.is_paused.get())
}
