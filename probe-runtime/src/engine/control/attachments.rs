//! All attachments, and their parts in probes.
//!
//! An attachment knows on how many probes it alone decides, and how many of its parts are off or
//! frozen ([`Attached::decides_alone`]). Only methods of [`Attachments`] change parts, and they
//! keep these numbers true.
//!
//! The control's record of one attachment.
//!
//! Attaching, detaching, and forcing probes off, under the control lock.
//!
//! The hooks that result from probes' members, and how definitions show them.

use std::cell::Cell;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::counting::Counters;
use super::join::JoinState;
use super::lock::Control;
use super::probe_attachments::{Members, Part, Parts, claim};
use super::reclaim::{Detached, Garbage};
use super::site_backend::{HeldText, close_text, is_still_open, open_text, refuse, refuse_taken};
use super::sites::{Policy, Run, runs};
use super::{DeliveryMode, Start};
use crate::engine::dispatch::{
    Action, CounterAt, Epoch, HookBuilder, HookCapacity, Reclaimer, Subscription, Unpublished,
};
use crate::engine::error::Error;
use crate::engine::os::objects::KeptLoaded;
use crate::engine::registry::{ProbeId, ProbeState, Registry};
use crate::engine::sites::{Mode, RefusalReason, Report, TextPolicy};
#[cfg(probe_backend = "patched")]
use probe_core::abi::{Convention, Definition};

/// Whether there is any attachment, for hooks.
static ANY: AtomicBool = AtomicBool::new(false);

/// Returns whether anything is attached.
#[cfg(probe_discovers)]
pub(crate) fn is_any_attached() -> bool {
    ANY.load(Ordering::SeqCst)
}

/// All attachments, by number, the members of each probe, and the counters.
#[derive(Default)]
pub(super) struct Attachments {
    pub(super) all: Vec<Option<Attached>>,
    pub(super) members: Vec<Members>,
    pub(super) parts: Parts,
    pub(super) counters: Counters,
}

impl Attachments {
    /// Returns the range of attachments' numbers.
    pub(super) fn numbers(&self) -> Range<usize> {
        0..self.all.len()
    }

    pub(super) fn attached(&self, attachment: usize) -> Option<&Attached> {
        self.all.get(attachment)?.as_ref()
    }

    pub(super) fn attached_mut(&mut self, attachment: usize) -> Option<&mut Attached> {
        self.all.get_mut(attachment)?.as_mut()
    }

    /// Returns the policies of all attachments.
    pub(super) fn policies(&self) -> impl Iterator<Item = Policy> + '_ {
        self.all.iter().flatten().map(|attached| attached.policy)
    }

    /// Returns the text policy where no attachment's own applies: through the kernel if any
    /// attachment writes so, since other ways may be denied.
    pub(super) fn common_text_policy(&self) -> TextPolicy {
        let uses_alias = self.policies().any(|policy| policy.text == TextPolicy::Alias);
        if uses_alias { TextPolicy::Alias } else { TextPolicy::Sealed }
    }

    /// Returns the attachments whose consumers have failed, and that are not paused yet.
    pub(super) fn failed(&self) -> Vec<usize> {
        let has_failed =
            |attached: &Attached| attached.subscription.has_failed() && !attached.is_paused.get();
        self.numbers().filter(|at| self.attached(*at).is_some_and(has_failed)).collect()
    }

    /// Fails the attachments that need a thread of the parent's, in a forked child. Returns whether
    /// there are any.
    pub(super) fn orphan(&self) -> bool {
        let attached = self.all.iter().flatten();
        attached.filter(|attached| attached.subscription.orphan()).count() != 0
    }

    /// Returns whether probes may join any attachment.
    pub(super) fn any_persistent(&self) -> bool {
        self.all.iter().flatten().any(|attached| attached.join_state.is_some())
    }

    /// Returns whether probes with first hits are to join any attachment.
    pub(super) fn waits_for_first_hits(&self) -> bool {
        let mut state = self.all.iter().flatten().filter_map(|attached| attached.join_state.as_ref());
        state.any(|it| it.has_first_hits && !(it.waiting.is_empty() && it.joining.is_empty()))
    }

    /// Ends joining that is under way, in a forked child.
    pub(super) fn cut_joining(&mut self) {
        self.all.iter_mut().flatten().filter_map(|it| it.join_state.as_mut()).for_each(|it| it.cut());
    }

    /// Keeps the report of a change that no caller has asked for.
    pub(super) fn keep_late(&mut self, attachment: usize, report: Report) {
        if let Some(attached) = self.attached_mut(attachment) {
            attached.late = report;
        }
    }

    /// Stores an attachment that hits may find from now on; returns its number.
    pub(super) fn place(&mut self, attached: Attached, now: Epoch) -> usize {
        let number = self.all.iter().position(Option::is_none).unwrap_or_else(|| {
            self.all.push(None);
            self.all.len() - 1
        });
        self.all[number] = Some(Attached { since: now, ..attached });
        ANY.store(true, Ordering::SeqCst);
        number
    }

    /// Removes an attachment and its parts. Returns it, and whether its own counters may have
    /// counted beside those of its probes.
    pub(super) fn remove(&mut self, attachment: usize) -> Option<(Attached, bool)> {
        let attached = self.all[attachment].take()?;
        ANY.store(self.all.iter().any(Option::is_some), Ordering::SeqCst);
        let mut is_mixed = false;
        for &id in &*attached.ids {
            self.change(id, |members, parts| {
                is_mixed |= members.remove(parts, attachment).is_some_and(|part| part.is_mixed);
            });
        }
        Some((attached, is_mixed))
    }

    /// Returns a probe's members, if it ever had any.
    pub(super) fn members(&self, id: ProbeId) -> Option<&Members> {
        self.members.get(id.index())
    }

    /// Returns whether attachments have parts in a probe.
    pub(super) fn has_parts(&self, id: ProbeId) -> bool {
        self.members(id).is_some_and(Members::has_parts)
    }

    /// Returns whether an attachment has a part in a probe.
    pub(super) fn has_part(&self, attachment: usize, id: ProbeId) -> bool {
        self.members(id).is_some_and(|members| members.part(&self.parts, attachment).is_some())
    }

    /// Returns the attachments that have parts in a probe.
    pub(super) fn attachments_of(&self, id: ProbeId) -> impl Iterator<Item = usize> {
        self.members(id).into_iter().flat_map(|members| members.attachments(&self.parts))
    }

    /// Returns a probe's state.
    pub(super) fn state_of(&self, id: ProbeId) -> ProbeState {
        let state = |members: &Members| members.state(&self.parts, is_paused(&self.all));
        self.members(id).map_or(ProbeState::Latent, state)
    }

    /// Returns the mode in which the last operation left the sites of a probe. Returns `None` if
    /// this copy of the crate has not switched them; another copy may have.
    #[inline]
    pub(super) fn left(&self, id: ProbeId) -> Option<Mode> {
        let members = self.members(id).filter(|members| members.has_parts())?;
        Some(members.mode(&self.parts, self.counters.of(id), is_paused(&self.all)))
    }

    /// Returns [`left`](Self::left) of each of these probes.
    pub(super) fn left_each(&self, ids: &[ProbeId]) -> Vec<Option<Mode>> {
        ids.iter().map(|id| self.left(*id)).collect()
    }

    /// Returns the mode that a probe's sites should have.
    #[inline]
    pub(super) fn mode_of(&self, id: ProbeId) -> Mode {
        self.left(id).unwrap_or(Mode::Latent)
    }

    /// Returns all probes up to the last one that had members.
    pub(super) fn known(&self) -> impl Iterator<Item = ProbeId> {
        (0..self.members.len()).map(ProbeId::new)
    }

    /// Makes room for another part in each of these probes, which ascend.
    pub(super) fn reserve(&mut self, ids: &[ProbeId]) {
        self.parts.reserve(ids.len());
        ids.last().into_iter().for_each(|last| self.make_room(*last));
    }

    /// Makes members for this probe and all with smaller numbers.
    pub(super) fn make_room(&mut self, id: ProbeId) {
        if self.members.len() <= id.index() {
            self.members.resize_with(id.index() + 1, Members::default);
        }
    }

    /// Adds an attachment's part in a probe.
    pub(super) fn add(&mut self, id: ProbeId, part: Part) {
        if let Some(attached) = self.attached_mut(part.attachment()) {
            attached.frozen.set(attached.frozen.get() + usize::from(part.is_frozen));
            attached.off += usize::from(part.is_off);
        }
        self.change(id, |members, parts| members.add(parts, part));
    }

    /// Forces probes off, until [`release`](Self::release).
    pub(super) fn hold(&mut self, ids: &[ProbeId]) {
        ids.iter().for_each(|id| self.change(*id, |members, _| members.hold()));
    }

    pub(super) fn release(&mut self, ids: &[ProbeId]) {
        ids.iter().for_each(|id| self.change(*id, |members, _| members.release()));
    }

    /// Changes a probe's members, and updates the number of probes on which each attachment alone
    /// decides.
    fn change(&mut self, id: ProbeId, change: impl FnOnce(&mut Members, &mut Parts)) {
        self.make_room(id);
        let members = &mut self.members[id.index()];
        let before = members.sole(&self.parts);
        change(members, &mut self.parts);
        let after = members.sole(&self.parts);
        if before != after {
            for (attachment, sign) in [(before, -1), (after, 1)] {
                if let Some(attached) = attachment.and_then(|at| self.all[at].as_mut()) {
                    attached.sole = attached.sole.wrapping_add_signed(sign);
                }
            }
        }
    }

    /// Switches an attachment's part in a probe off or on. Returns whether that was a change;
    /// `None` if it has no part.
    pub(super) fn set_off(&mut self, attachment: usize, id: ProbeId, is_off: bool) -> Option<bool> {
        let members = self.members.get(id.index())?;
        let is_change = members.set_off(&mut self.parts, attachment, is_off)?;
        if let Some(attached) = self.attached_mut(attachment).filter(|_| is_change) {
            attached.off = if is_off { attached.off + 1 } else { attached.off - 1 };
        }
        Some(is_change)
    }

    /// Counts or delivers an attachment's hits of a probe from now on.
    pub(super) fn set_counting(
        &mut self,
        attachment: usize,
        id: ProbeId,
        subscription: &Subscription,
        is_counting: bool,
    ) {
        if let Some(members) = self.members.get(id.index()) {
            members.set_counting(&mut self.parts, attachment, subscription, is_counting);
        }
    }

    /// Returns whether switching an attachment's part in a probe off or on takes a new hook. A sole
    /// listener's hook stays, and only the sites change, unless its part is frozen: it must first
    /// be thawed, so that hits counted for others are left out.
    pub(super) fn needs_hook(&self, attachment: usize, id: ProbeId) -> bool {
        self.attachments_of(id).nth(1).is_some()
            || self.members(id).and_then(|it| it.part(&self.parts, attachment)).is_some_and(|it| it.is_frozen)
    }

    /// Returns an attachment's probes.
    pub(super) fn ids(&self, attachment: usize) -> Arc<[ProbeId]> {
        self.attached(attachment).map(|attached| Arc::clone(&attached.ids)).unwrap_or_default()
    }

    /// Returns the report of the last change to an attachment that no caller has asked for.
    pub(super) fn late(&self, attachment: usize) -> Report {
        self.attached(attachment).map(|attached| attached.late.clone()).unwrap_or_default()
    }
}

/// Returns a function that returns whether an attachment is paused.
pub(super) fn is_paused(attachments: &[Option<Attached>]) -> impl Fn(usize) -> bool + Clone + '_ {
    |at| attachments[at].as_ref().is_some_and(|attached| attached.is_paused.get())
}

/// One attachment.
pub(super) struct Attached {
    pub(super) ids: Arc<[ProbeId]>,
    pub(super) runs: Vec<Run>,
    pub(super) delivery: DeliveryMode,
    /// Its own counters, as many as [`DeliveryMode::counters`] says.
    pub(super) counters: Range<usize>,
    pub(super) subscription: Arc<Subscription>,
    /// The time from which hits may have found it.
    pub(super) since: Epoch,
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
    /// Present in persistent attachments only.
    pub(super) join_state: Option<Box<JoinState>>,
}

impl Attached {
    pub(super) fn new(
        ids: Arc<[ProbeId]>,
        delivery: DeliveryMode,
        counters: Range<usize>,
        subscription: &Arc<Subscription>,
        policy: Policy,
        text: HeldText,
    ) -> Self {
        Self {
            runs: runs(&ids),
            ids,
            delivery,
            counters,
            subscription: Arc::clone(subscription),
            since: Epoch::UNKNOWN,
            policy,
            is_paused: Cell::new(false),
            mode: (delivery == DeliveryMode::Delivered).then_some(Mode::Active),
            sole: 0,
            off: 0,
            frozen: Cell::new(0),
            text,
            late: Report::default(),
            join_state: None,
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

    /// Returns the number of its counters, from the first, that may have counted while no other
    /// attachment shared its probes.
    pub(super) fn own(&self) -> usize {
        self.delivery.counters(0)
    }
}

impl Control {
    /// Attaches a consumer; returns the attachment's number and the report of its activation.
    /// `starts` holds the initial state of probes that do not begin with [`Start::On`], in
    /// ascending order.
    pub(super) fn attach(
        &mut self,
        ids: &[ProbeId],
        policy: Policy,
        subscription: &Arc<Subscription>,
        delivery: DeliveryMode,
        starts: &[(ProbeId, Start)],
        loaded: KeptLoaded<'_>,
    ) -> Result<(usize, Report), Error> {
        let mut report = Report::default();
        let ids = self.exclude_taken(ids, &mut report, loaded);
        let wanted = delivery.counters(ids.len());
        let pool = &mut self.attachments.counters;
        let has_room =
            delivery == DeliveryMode::Delivered || ids.last().is_none_or(|last| pool.reserve(*last));
        let counters = has_room.then(|| pool.take(wanted)).flatten();
        let counters = counters.ok_or(Error::OutOfCounters { wanted })?;
        let text = match open_text(&self.registry, &ids, policy, loaded) {
            Ok(text) => text,
            Err(error) => {
                self.attachments.counters.give_back(counters, 0);
                return Err(error);
            }
        };
        let (suppressed, of_probes) = (counters.start, counters.start + delivery.counters(0)..);
        let actions = of_probes.map(|counter| match delivery {
            DeliveryMode::Counted => Action::Count(CounterAt::new(counter)),
            DeliveryMode::Delivered => Action::Call { suppressed: CounterAt::new(suppressed), counted: None },
            DeliveryMode::Switchable => Action::Call {
                suppressed: CounterAt::new(suppressed),
                counted: Some(CounterAt::new(counter)),
            },
        });
        let attached = Attached::new(ids, delivery, counters, subscription, policy, text);
        let attachment = self.enlist(attached, actions, starts, &mut report, loaded);
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
        if let Some(attached) = attached.filter(|attached| attached.delivery == DeliveryMode::Counted) {
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
        let Attached { since, subscription, counters, policy, runs, text, join_state, .. } = attached;
        let late = join_state.map(|state| state.counters).unwrap_or_default();
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
}

impl Attachments {
    /// Publishes new hooks of these probes' listeners, and retires the previous ones.
    pub(super) fn publish(
        &mut self,
        ids: &[ProbeId],
        registry: &Registry,
        reclaimer: &mut Reclaimer<Garbage>,
        loaded: KeptLoaded<'_>,
    ) {
        self.turn(ids);
        let (is_paused, now) = (is_paused(&self.all), reclaimer.now());
        let mut room = HookCapacity::default();
        for id in ids {
            let of_probe = &self.members[id.index()];
            // Most probes have one listener.
            match of_probe.sole_part(&self.parts) {
                Some(sole) => room.add(1, matches!(sole.action, Action::Wrap)),
                None => room.add(of_probe.hooked(&self.parts, &is_paused).count(), true),
            }
        }
        let mut old = Vec::new();
        let mut hooks = (room != HookCapacity::default()).then(|| HookBuilder::with_capacity(room, now));
        for &id in ids {
            let members = &mut self.members[id.index()];
            let (counter, attachments) = (self.counters.of(id), &self.all);
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
            if let Some(hook) = members.publish(hook, registry.definitions(id, loaded)) {
                Unpublished::add(&mut old, hook);
            }
        }
        old.into_iter().for_each(|hooks| reclaimer.retire(hooks.since(), Garbage::Hooks(hooks)));
    }

    /// Points the definitions of these probes to their hooks.
    pub(super) fn show(&self, ids: &[ProbeId], registry: &Registry, loaded: KeptLoaded<'_>) {
        for id in ids {
            let is_visible = cfg!(probe_backend = "patched") || self.state_of(*id) == ProbeState::Active;
            self.members(*id).into_iter().for_each(|members| {
                members.show(registry.definitions(*id, loaded), is_visible);
            });
        }
    }

    /// Shows or hides the hooks of the probes in these runs, which switches them where no site is
    /// patched.
    #[cfg(not(probe_backend = "patched"))]
    pub(super) fn switch(
        &self,
        runs: &[Run],
        mode: Mode,
        registry: &Registry,
        report: &mut Report,
        loaded: KeptLoaded<'_>,
    ) {
        for id in runs.iter().cloned().flatten().map(ProbeId::new) {
            let Some(members) = self.members(id) else { continue };
            let (switched, unchanged) = members.show(registry.definitions(id, loaded), mode != Mode::Latent);
            report.add_patched(switched);
            report.add_unchanged(unchanged);
        }
    }
}
