//! All attachments: their records, attaching and detaching, and the hooks that result.
//!
//! An attachment has a slot in each of its probes. Its record counts the probes on which it alone
//! decides, and its slots that are off or frozen ([`AttachmentRecord::decides_alone`]). Only
//! methods of [`AttachmentTable`] change slots, and they keep these numbers true.

use std::cell::Cell;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::counting::CounterAllocator;
use super::join::JoinState;
use super::lock::Control;
use super::probe_attachments::{AttachmentSlot, ProbeAttachments, SlotArena, claim};
use super::reclaim::{DetachedAttachment, Reclaimable};
use super::site_backend::{HeldText, close_text, is_still_open, open_text, refuse, refuse_taken_sites};
use super::sites::{IdRange, PatchPolicy, id_ranges};
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
static ANY_ATTACHED: AtomicBool = AtomicBool::new(false);

/// Returns whether anything is attached.
#[cfg(probe_discovers)]
pub(crate) fn is_any_attached() -> bool {
    ANY_ATTACHED.load(Ordering::SeqCst)
}

/// All attachments by number, the attachments of each probe, and the counters.
#[derive(Default)]
pub(super) struct AttachmentTable {
    pub(super) records: Vec<Option<AttachmentRecord>>,
    pub(super) probes: Vec<ProbeAttachments>,
    pub(super) slots: SlotArena,
    pub(super) counters: CounterAllocator,
}

impl AttachmentTable {
    /// Returns the range of attachments' numbers.
    pub(super) fn numbers(&self) -> Range<usize> {
        0..self.records.len()
    }

    pub(super) fn record(&self, attachment: usize) -> Option<&AttachmentRecord> {
        self.records.get(attachment)?.as_ref()
    }

    pub(super) fn record_mut(&mut self, attachment: usize) -> Option<&mut AttachmentRecord> {
        self.records.get_mut(attachment)?.as_mut()
    }

    /// Returns the policies of all attachments.
    pub(super) fn policies(&self) -> impl Iterator<Item = PatchPolicy> + '_ {
        self.records.iter().flatten().map(|record| record.policy)
    }

    /// Returns the text policy where no attachment's own applies: through the kernel if any
    /// attachment writes so, since other ways may be denied.
    pub(super) fn common_text_policy(&self) -> TextPolicy {
        let uses_alias = self.policies().any(|policy| policy.text == TextPolicy::Alias);
        if uses_alias { TextPolicy::Alias } else { TextPolicy::Sealed }
    }

    /// Returns the attachments whose consumers have failed, and that are not paused yet.
    pub(super) fn newly_failed(&self) -> Vec<usize> {
        let has_failed =
            |record: &AttachmentRecord| record.subscription.has_failed() && !record.is_paused.get();
        self.numbers().filter(|at| self.record(*at).is_some_and(has_failed)).collect()
    }

    /// Fails the attachments that need a thread of the parent's, in a forked child. Returns whether
    /// there are any.
    pub(super) fn fail_orphans(&self) -> bool {
        let records = self.records.iter().flatten();
        records.filter(|record| record.subscription.orphan()).count() != 0
    }

    /// Returns whether probes may join any attachment.
    pub(super) fn any_persistent(&self) -> bool {
        self.records.iter().flatten().any(|record| record.join_state.is_some())
    }

    /// Returns whether probes with counted first hits are to join any attachment.
    pub(super) fn awaits_first_hits(&self) -> bool {
        let mut states = self.records.iter().flatten().filter_map(|record| record.join_state.as_ref());
        states.any(|it| it.counts_first_hits && !(it.pending.is_empty() && it.joining.is_empty()))
    }

    /// Returns the state of a persistent attachment.
    pub(super) fn join_state_mut(&mut self, attachment: usize) -> Option<&mut JoinState> {
        self.record_mut(attachment)?.join_state.as_deref_mut()
    }

    /// Returns the states of all persistent attachments.
    pub(super) fn join_states(&self) -> impl Iterator<Item = &JoinState> {
        self.records.iter().flatten().filter_map(|record| record.join_state.as_deref())
    }

    /// Ends joining that is under way, in a forked child.
    pub(super) fn abort_joins(&mut self) {
        self.records.iter_mut().flatten().filter_map(|it| it.join_state.as_mut()).for_each(|it| it.abort());
    }

    /// Keeps the report of a change to an attachment's sites that no caller has asked for.
    pub(super) fn set_late_report(&mut self, attachment: usize, report: Report) {
        if let Some(record) = self.record_mut(attachment) {
            record.late_report = report;
        }
    }

    /// Stores an attachment that hits may find from now on; returns its number.
    pub(super) fn insert(&mut self, record: AttachmentRecord, now: Epoch) -> usize {
        let number = self.records.iter().position(Option::is_none).unwrap_or_else(|| {
            self.records.push(None);
            self.records.len() - 1
        });
        self.records[number] = Some(AttachmentRecord { since: now, ..record });
        ANY_ATTACHED.store(true, Ordering::SeqCst);
        number
    }

    /// Removes an attachment and its slots. Returns it, and whether its own counters may have
    /// counted beside those of its probes.
    pub(super) fn remove(&mut self, attachment: usize) -> Option<(AttachmentRecord, bool)> {
        let record = self.records[attachment].take()?;
        ANY_ATTACHED.store(self.records.iter().any(Option::is_some), Ordering::SeqCst);
        let mut uses_own = false;
        for &id in &*record.ids {
            self.change(id, |probe, slots| {
                uses_own |= probe.remove(slots, attachment).is_some_and(|slot| slot.uses_own);
            });
        }
        Some((record, uses_own))
    }

    /// Returns a probe's attachments, if it ever had any.
    pub(super) fn probe(&self, id: ProbeId) -> Option<&ProbeAttachments> {
        self.probes.get(id.index())
    }

    /// Returns whether any attachment has a slot in a probe.
    pub(super) fn is_attached(&self, id: ProbeId) -> bool {
        self.probe(id).is_some_and(ProbeAttachments::is_attached)
    }

    /// Returns whether an attachment has a slot in a probe.
    pub(super) fn has_slot(&self, attachment: usize, id: ProbeId) -> bool {
        self.probe(id).is_some_and(|probe| probe.slot(&self.slots, attachment).is_some())
    }

    /// Returns the attachments that have slots in a probe.
    pub(super) fn attachments_of(&self, id: ProbeId) -> impl Iterator<Item = usize> {
        self.probe(id).into_iter().flat_map(|probe| probe.attachments(&self.slots))
    }

    /// Returns a probe's state.
    pub(super) fn state_of(&self, id: ProbeId) -> ProbeState {
        let state = |probe: &ProbeAttachments| probe.state(&self.slots, is_paused(&self.records));
        self.probe(id).map_or(ProbeState::Latent, state)
    }

    /// Returns the mode in which the last operation left the sites of a probe. Returns `None` if
    /// this copy of the crate has not switched them; another copy may have.
    #[inline]
    pub(super) fn mode_left(&self, id: ProbeId) -> Option<Mode> {
        let probe = self.probe(id).filter(|probe| probe.is_attached())?;
        Some(probe.mode(&self.slots, self.counters.of_probe(id), is_paused(&self.records)))
    }

    /// Returns [`mode_left`](Self::mode_left) of each of these probes.
    pub(super) fn modes_left(&self, ids: &[ProbeId]) -> Vec<Option<Mode>> {
        ids.iter().map(|id| self.mode_left(*id)).collect()
    }

    /// Returns the mode that a probe's sites should have.
    #[inline]
    pub(super) fn mode_of(&self, id: ProbeId) -> Mode {
        self.mode_left(id).unwrap_or(Mode::Latent)
    }

    /// Returns all probes up to the last one that ever had an attachment or a hold.
    pub(super) fn known_probes(&self) -> impl Iterator<Item = ProbeId> {
        (0..self.probes.len()).map(ProbeId::new)
    }

    /// Makes room for another slot in each of these probes, which ascend.
    pub(super) fn reserve(&mut self, ids: &[ProbeId]) {
        self.slots.reserve(ids.len());
        ids.last().into_iter().for_each(|last| self.make_room(*last));
    }

    /// Makes room for the attachments of this probe and of all with smaller numbers.
    pub(super) fn make_room(&mut self, id: ProbeId) {
        if self.probes.len() <= id.index() {
            self.probes.resize_with(id.index() + 1, ProbeAttachments::default);
        }
    }

    /// Adds an attachment's slot in a probe.
    pub(super) fn add(&mut self, id: ProbeId, slot: AttachmentSlot) {
        if let Some(record) = self.record_mut(slot.attachment()) {
            record.frozen_slots.set(record.frozen_slots.get() + usize::from(slot.is_frozen));
            record.off_slots += usize::from(slot.is_off);
        }
        self.change(id, |probe, slots| probe.add(slots, slot));
    }

    /// Forces probes off, until [`release`](Self::release).
    pub(super) fn hold(&mut self, ids: &[ProbeId]) {
        ids.iter().for_each(|id| self.change(*id, |probe, _| probe.hold()));
    }

    pub(super) fn release(&mut self, ids: &[ProbeId]) {
        ids.iter().for_each(|id| self.change(*id, |probe, _| probe.release()));
    }

    /// Changes a probe's attachments, and updates the number of probes on which each attachment
    /// alone decides.
    fn change(&mut self, id: ProbeId, change: impl FnOnce(&mut ProbeAttachments, &mut SlotArena)) {
        self.make_room(id);
        let probe = &mut self.probes[id.index()];
        let before = probe.sole(&self.slots);
        change(probe, &mut self.slots);
        let after = probe.sole(&self.slots);
        if before != after {
            for (attachment, sign) in [(before, -1), (after, 1)] {
                if let Some(record) = attachment.and_then(|at| self.records[at].as_mut()) {
                    record.sole_probes = record.sole_probes.wrapping_add_signed(sign);
                }
            }
        }
    }

    /// Switches an attachment's slot in a probe off or on. Returns whether that was a change;
    /// `None` if it has no slot.
    pub(super) fn set_off(&mut self, attachment: usize, id: ProbeId, is_off: bool) -> Option<bool> {
        let probe = self.probes.get(id.index())?;
        let is_change = probe.set_off(&mut self.slots, attachment, is_off)?;
        if let Some(record) = self.record_mut(attachment).filter(|_| is_change) {
            record.off_slots = if is_off { record.off_slots + 1 } else { record.off_slots - 1 };
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
        if let Some(probe) = self.probes.get(id.index()) {
            probe.set_counting(&mut self.slots, attachment, subscription, is_counting);
        }
    }

    /// Returns whether switching an attachment's slot in a probe off or on takes a new hook. A sole
    /// listener's hook stays, and only the sites change, unless its slot is frozen: it must first
    /// be thawed, so that hits counted for others are left out.
    pub(super) fn needs_new_hook(&self, attachment: usize, id: ProbeId) -> bool {
        self.attachments_of(id).nth(1).is_some()
            || self.probe(id).and_then(|it| it.slot(&self.slots, attachment)).is_some_and(|it| it.is_frozen)
    }

    /// Returns an attachment's probes.
    pub(super) fn ids(&self, attachment: usize) -> Arc<[ProbeId]> {
        self.record(attachment).map(|record| Arc::clone(&record.ids)).unwrap_or_default()
    }

    /// Returns the report of the last change to an attachment that no caller has asked for.
    pub(super) fn late_report(&self, attachment: usize) -> Report {
        self.record(attachment).map(|record| record.late_report.clone()).unwrap_or_default()
    }
}

/// Returns a function that returns whether an attachment is paused.
pub(super) fn is_paused(attachments: &[Option<AttachmentRecord>]) -> impl Fn(usize) -> bool + Clone + '_ {
    |at| attachments[at].as_ref().is_some_and(|record| record.is_paused.get())
}

/// The record of one attachment.
pub(super) struct AttachmentRecord {
    pub(super) ids: Arc<[ProbeId]>,
    pub(super) id_ranges: Vec<IdRange>,
    pub(super) delivery: DeliveryMode,
    /// Its own counters, as many as [`DeliveryMode::counters`] says.
    pub(super) counters: Range<usize>,
    pub(super) subscription: Arc<Subscription>,
    /// The time from which hits may have found it.
    pub(super) since: Epoch,
    pub(super) policy: PatchPolicy,
    pub(super) is_paused: Cell<bool>,
    /// The mode of its sites while it alone decides on them; `None` if they have several modes.
    pub(super) mode: Option<Mode>,
    /// The number of its probes on which it alone decides.
    pub(super) sole_probes: usize,
    /// The number of its slots that are switched off.
    pub(super) off_slots: usize,
    /// The number of its slots that are frozen.
    pub(super) frozen_slots: Cell<usize>,
    pub(super) text: HeldText,
    /// The result of the last change to its sites that no caller has asked for.
    pub(super) late_report: Report,
    /// Present in persistent attachments only.
    pub(super) join_state: Option<Box<JoinState>>,
}

impl AttachmentRecord {
    pub(super) fn new(
        ids: Arc<[ProbeId]>,
        delivery: DeliveryMode,
        counters: Range<usize>,
        subscription: &Arc<Subscription>,
        policy: PatchPolicy,
        text: HeldText,
    ) -> Self {
        Self {
            id_ranges: id_ranges(&ids),
            ids,
            delivery,
            counters,
            subscription: Arc::clone(subscription),
            since: Epoch::UNKNOWN,
            policy,
            is_paused: Cell::new(false),
            mode: (delivery == DeliveryMode::Delivered).then_some(Mode::Active),
            sole_probes: 0,
            off_slots: 0,
            frozen_slots: Cell::new(0),
            text,
            late_report: Report::default(),
            join_state: None,
        }
    }

    /// Returns whether it alone decides on all of its probes, and no slot is off or frozen.
    pub(super) fn decides_alone(&self) -> bool {
        self.sole_probes == self.ids.len() && self.off_slots == 0 && self.frozen_slots.get() == 0
    }

    /// Returns the mode that all of its sites were left in; `None` if each probe must be asked.
    pub(super) fn mode_left(&self) -> Option<Mode> {
        let mode = if self.is_paused.get() { Some(Mode::Latent) } else { self.mode };
        mode.filter(|_| self.decides_alone())
    }

    /// Returns the number of its counters, from the first, that may have counted while no other
    /// attachment shared its probes.
    pub(super) fn used_alone(&self) -> usize {
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
        policy: PatchPolicy,
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
            delivery == DeliveryMode::Delivered || ids.last().is_none_or(|last| pool.reserve_probe(*last));
        let counters = has_room.then(|| pool.allocate(wanted)).flatten();
        let counters = counters.ok_or(Error::OutOfCounters { wanted })?;
        let text = match open_text(&self.registry, &ids, policy, loaded) {
            Ok(text) => text,
            Err(error) => {
                self.attachments.counters.release(counters, 0);
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
        let record = AttachmentRecord::new(ids, delivery, counters, subscription, policy, text);
        let attachment = self.register_attachment(record, actions, starts, &mut report, loaded);
        Ok((attachment, report))
    }

    /// Adds an attachment to its probes, with an action for each, and switches their sites
    /// accordingly. Returns the attachment's number.
    pub(super) fn register_attachment(
        &mut self,
        record: AttachmentRecord,
        actions: impl Iterator<Item = Action>,
        starts: &[(ProbeId, Start)],
        report: &mut Report,
        loaded: KeptLoaded<'_>,
    ) -> usize {
        let (ids, policy) = (Arc::clone(&record.ids), record.policy);
        let left = self.attachments.modes_left(&ids);
        let attachment = self.attachments.insert(record, self.reclaimer.now());
        self.attachments.reserve(&ids);
        for (id, action) in ids.iter().zip(actions) {
            let start = starts.binary_search_by_key(id, |(id, _)| *id).map_or(Start::On, |at| starts[at].1);
            self.attachments.add(*id, AttachmentSlot::starting(attachment, action, start));
        }
        self.publish(&ids, loaded);
        self.keep_infos(&ids, loaded);
        let is_counted = self.switch_probes(&ids, &left, self.access_to_open(policy), report, loaded);
        // While it decides alone, its hooks don't change, so the mode stays valid.
        let record = self.attachments.record_mut(attachment);
        if let Some(record) = record.filter(|record| record.delivery == DeliveryMode::Counted) {
            record.mode = is_counted.then_some(Mode::Counting);
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
        refuse_taken_sites(&self.registry, &taken, report);
        free.into()
    }

    /// Prepares for reading strings of C, if a probe may have some.
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
        let Some(record) = self.attachments.record_mut(attachment) else { return report };
        record.subscription.close();
        // The attachment itself knows whether it is paused.
        let (left_all, ids) = (record.mode_left(), Arc::clone(&record.ids));
        let left = if left_all.is_none() { self.attachments.modes_left(&ids) } else { Vec::new() };
        let Some((record, uses_own)) = self.attachments.remove(attachment) else { return report };
        self.publish(&ids, loaded);
        self.drop_infos(&ids);
        // Retired after its hooks, so `reclaimer` returns it no earlier than them.
        let used = if uses_own { record.counters.len() } else { record.used_alone() };
        let AttachmentRecord { since, subscription, counters, policy, id_ranges, text, join_state, .. } =
            record;
        let joined = join_state.map(|state| state.counters).unwrap_or_default();
        let detached = DetachedAttachment { subscription, counters, used, joined };
        self.reclaimer.retire(since, Reclaimable::Detached(Box::new(detached)));
        let access = if is_still_open(&text, loaded) { self.access_to_open(policy) } else { policy.access() };
        if left_all.is_some() {
            // It alone decided on these probes, so none of them has an attachment now.
            self.switch_ranges(&id_ranges, Mode::Latent, access, left_all, &mut report, loaded);
        } else {
            self.switch_probes(&ids, &left, access, &mut report, loaded);
        }
        close_text(text, &mut report, loaded);
        report
    }
}

impl AttachmentTable {
    /// Publishes new hooks of these probes' listeners, and retires the previous ones.
    pub(super) fn publish(
        &mut self,
        ids: &[ProbeId],
        registry: &Registry,
        reclaimer: &mut Reclaimer<Reclaimable>,
        loaded: KeptLoaded<'_>,
    ) {
        self.freeze_or_thaw(ids);
        let (is_paused, now) = (is_paused(&self.records), reclaimer.now());
        let mut room = HookCapacity::default();
        for id in ids {
            let of_probe = &self.probes[id.index()];
            // Most probes have one listener.
            match of_probe.sole_slot(&self.slots) {
                Some(sole) => room.add(1, matches!(sole.action, Action::Wrap)),
                None => room.add(of_probe.hooked(&self.slots, &is_paused).count(), true),
            }
        }
        let mut old = Vec::new();
        let mut hooks = (room != HookCapacity::default()).then(|| HookBuilder::with_capacity(room, now));
        for &id in ids {
            let probe = &mut self.probes[id.index()];
            let (counter, attachments) = (self.counters.of_probe(id), &self.records);
            let listening = |slot: &AttachmentSlot| {
                let record = attachments[slot.attachment()].as_ref()?;
                Some((slot.action, &record.subscription, slot.is_counting))
            };
            let sole = probe.sole_slot(&self.slots);
            let hook = if let Some(sole) = sole.filter(|sole| !matches!(sole.action, Action::Wrap)) {
                let sole = hooks.as_mut().zip(listening(sole));
                sole.map(|(hooks, sole)| hooks.add_one(id, counter, sole))
            } else {
                let slots = probe.hooked(&self.slots, &is_paused);
                slots.clone().next().and_then(|_| {
                    hooks.as_mut().map(|hooks| hooks.add(id, counter, slots.filter_map(listening)))
                })
            };
            if let Some(hook) = probe.publish(hook, registry.definitions(id, loaded)) {
                Unpublished::add(&mut old, hook);
            }
        }
        old.into_iter().for_each(|hooks| reclaimer.retire(hooks.since(), Reclaimable::Hooks(hooks)));
    }

    /// Points the definitions of these probes to their hooks.
    pub(super) fn show(&self, ids: &[ProbeId], registry: &Registry, loaded: KeptLoaded<'_>) {
        for id in ids {
            let is_visible = cfg!(probe_backend = "patched") || self.state_of(*id) == ProbeState::Active;
            self.probe(*id).into_iter().for_each(|probe| {
                probe.show(registry.definitions(*id, loaded), is_visible);
            });
        }
    }

    /// Shows or hides the hooks of the probes in these ranges, which switches them where no site is
    /// patched.
    #[cfg(not(probe_backend = "patched"))]
    pub(super) fn switch(
        &self,
        ranges: &[IdRange],
        mode: Mode,
        registry: &Registry,
        report: &mut Report,
        loaded: KeptLoaded<'_>,
    ) {
        for id in ranges.iter().cloned().flatten().map(ProbeId::new) {
            let Some(probe) = self.probe(id) else { continue };
            let (switched, unchanged) = probe.show(registry.definitions(id, loaded), mode != Mode::Latent);
            report.add_patched(switched);
            report.add_unchanged(unchanged);
        }
    }
}
