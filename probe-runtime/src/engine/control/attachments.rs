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
use super::probe_attachments::{AttachmentSlot, ProbeAttachments, claim};
use super::reclaim::{DetachedAttachment, Reclaimable};
use super::site_backend::HeldText;
use super::sites::{IdRange, PatchPolicy, Switching, id_ranges};
use super::{DeliveryMode, Start};
use crate::engine::dispatch::{
    Action, Epoch, HookBuilder, HookCapacity, Reclaimer, Subscription, Unpublished,
};
use crate::engine::error::Error;
use crate::engine::os::objects::KeptLoaded;
use crate::engine::registry::{ProbeId, ProbeState, Registry};
use crate::engine::sites::{Mode, RefusalReason, Report, TextPolicy};
use probe_core::abi::{Convention, Definition};

/// Whether there is any attachment, for hooks.
static ANY_ATTACHED: AtomicBool = AtomicBool::new(false);

/// Returns whether anything is attached.
pub(crate) fn is_any_attached() -> bool {
    ANY_ATTACHED.load(Ordering::SeqCst)
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
    since: Epoch,
    pub(super) policy: PatchPolicy,
    pub(super) is_paused: Cell<bool>,
    /// The mode of its sites while it alone decides on them; `None` if they have several modes.
    pub(super) mode: Option<Mode>,
    /// The number of its probes on which it alone decides.
    sole_probes: usize,
    /// The number of its slots that are switched off.
    off_slots: usize,
    /// The number of its slots that are frozen.
    pub(super) frozen_slots: Cell<usize>,
    text: HeldText,
    /// The result of the last change to its sites that no caller has asked for.
    late_report: Report,
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
}

/// All attachments by number, the attachments of each probe, and the counters.
#[derive(Default)]
pub(super) struct AttachmentTable {
    pub(super) records: Vec<Option<AttachmentRecord>>,
    pub(super) probes: ProbeAttachments,
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

    /// Returns an attachment's probes.
    pub(super) fn ids(&self, attachment: usize) -> Arc<[ProbeId]> {
        self.record(attachment).map(|record| Arc::clone(&record.ids)).unwrap_or_default()
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
        self.records.iter().flatten().filter(|record| record.subscription.orphan()).count() != 0
    }

    /// Returns the state of a persistent attachment.
    pub(super) fn join_state_mut(&mut self, attachment: usize) -> Option<&mut JoinState> {
        self.record_mut(attachment)?.join_state.as_deref_mut()
    }

    /// Returns the states of all persistent attachments.
    pub(super) fn join_states(&self) -> impl Iterator<Item = &JoinState> {
        self.records.iter().flatten().filter_map(|record| record.join_state.as_deref())
    }

    pub(super) fn join_states_mut(&mut self) -> impl Iterator<Item = &mut JoinState> {
        self.records.iter_mut().flatten().filter_map(|record| record.join_state.as_deref_mut())
    }

    /// Returns the report of the last change to an attachment's sites that no caller has asked for.
    pub(super) fn late_report(&self, attachment: usize) -> Report {
        self.record(attachment).map(|record| record.late_report.clone()).unwrap_or_default()
    }

    pub(super) fn set_late_report(&mut self, attachment: usize, report: Report) {
        if let Some(record) = self.record_mut(attachment) {
            record.late_report = report;
        }
    }

    /// Stores an attachment that hits may find from now on; returns its number.
    fn insert(&mut self, record: AttachmentRecord) -> usize {
        ANY_ATTACHED.store(true, Ordering::SeqCst);
        let number = self.records.iter().position(Option::is_none).unwrap_or(self.records.len());
        self.records.resize_with(self.records.len().max(number + 1), || None);
        self.records[number] = Some(record);
        number
    }

    /// Removes an attachment and its slots. Returns it, and whether its own counters may have
    /// counted beside those of its probes.
    fn remove(&mut self, attachment: usize) -> Option<(AttachmentRecord, bool)> {
        let record = self.records[attachment].take()?;
        ANY_ATTACHED.store(self.records.iter().any(Option::is_some), Ordering::SeqCst);
        let mut uses_own = false;
        for &id in &*record.ids {
            self.change(id, |probes| {
                uses_own |= probes.remove(id, attachment).is_some_and(|slot| slot.uses_own);
            });
        }
        Some((record, uses_own))
    }

    /// Gives an attachment slots in these probes, which ascend, with an action for each. `starts`
    /// holds the initial state of probes that do not begin with [`Start::On`], in ascending order.
    pub(super) fn add_slots(
        &mut self,
        attachment: usize,
        ids: &[ProbeId],
        actions: impl Iterator<Item = Action>,
        starts: &[(ProbeId, Start)],
    ) {
        self.probes.reserve(ids);
        for (id, action) in ids.iter().zip(actions) {
            let start = starts.binary_search_by_key(id, |(id, _)| *id).map_or(Start::On, |at| starts[at].1);
            let slot = AttachmentSlot::new(attachment, action, start);
            if let Some(record) = self.record_mut(attachment) {
                *record.frozen_slots.get_mut() += usize::from(slot.is_frozen);
                record.off_slots += usize::from(slot.is_off);
            }
            self.change(*id, |probes| probes.add(*id, slot));
        }
    }

    /// Forces probes off, or lets them go. Holds add up.
    pub(super) fn set_held(&mut self, ids: &[ProbeId], is_held: bool) {
        ids.iter().for_each(|id| self.change(*id, |probes| probes.set_held(*id, is_held)));
    }

    /// Changes a probe's attachments, and updates the number of probes on which each attachment
    /// alone decides.
    fn change(&mut self, id: ProbeId, change: impl FnOnce(&mut ProbeAttachments)) {
        self.probes.make_room(id);
        let before = self.probes.sole(id);
        change(&mut self.probes);
        let after = self.probes.sole(id);
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
        let is_change = self.probes.set_off(id, attachment, is_off)?;
        if let Some(record) = self.record_mut(attachment).filter(|_| is_change) {
            record.off_slots = if is_off { record.off_slots + 1 } else { record.off_slots - 1 };
        }
        Some(is_change)
    }

    /// Returns whether switching an attachment's slot in a probe off or on takes a new hook. A sole
    /// listener's hook stays, and only the sites change, unless its slot is frozen: it must first
    /// be thawed, so that hits counted for others are left out.
    pub(super) fn needs_new_hook(&self, attachment: usize, id: ProbeId) -> bool {
        self.probes.slots(id).nth(1).is_some()
            || self.probes.slot(id, attachment).is_some_and(|slot| slot.is_frozen)
    }

    /// Returns a probe's state.
    pub(super) fn state_of(&self, id: ProbeId) -> ProbeState {
        self.probes.state(id, is_paused(&self.records))
    }

    /// Returns the mode in which the last operation left the sites of a probe. Returns `None` if
    /// this copy of the crate has not switched them; another copy may have.
    #[inline]
    fn mode_left(&self, id: ProbeId) -> Option<Mode> {
        self.probes.mode(id, self.counters.of_probe(id), is_paused(&self.records))
    }

    /// Returns the mode in which each of these probes was left, if this copy of the crate has
    /// switched it.
    pub(super) fn modes_left(&self, ids: &[ProbeId]) -> Vec<Option<Mode>> {
        ids.iter().map(|id| self.mode_left(*id)).collect()
    }

    /// Returns the mode that a probe's sites should have.
    #[inline]
    pub(super) fn mode_of(&self, id: ProbeId) -> Mode {
        self.mode_left(id).unwrap_or(Mode::Latent)
    }

    /// Publishes new hooks of these probes' listeners, and retires the previous ones.
    fn publish(
        &mut self,
        ids: &[ProbeId],
        registry: &Registry,
        reclaimer: &mut Reclaimer<Reclaimable>,
        loaded: KeptLoaded<'_>,
    ) {
        self.freeze_or_thaw(ids);
        let Self { records, probes, counters } = self;
        let is_paused = is_paused(records);
        let mut room = HookCapacity::default();
        for id in ids {
            // Most probes have one listener.
            match probes.sole_slot(*id) {
                Some(sole) => room.add(1, matches!(sole.action, Action::Wrap)),
                None => room.add(probes.hooked(*id, &is_paused).count(), true),
            }
        }
        let listening = |slot: &AttachmentSlot| {
            let record = records[slot.attachment()].as_ref()?;
            Some((slot.action, &record.subscription, slot.is_counting))
        };
        let mut hooks =
            (room != HookCapacity::default()).then(|| HookBuilder::with_capacity(room, reclaimer.now()));
        let mut old = Vec::new();
        for &id in ids {
            let counter = counters.of_probe(id);
            let sole = probes.sole_slot(id).filter(|sole| !matches!(sole.action, Action::Wrap));
            let hook = hooks.as_mut().and_then(|hooks| {
                if let Some(sole) = sole {
                    return Some(hooks.add_one(id, counter, listening(sole)?));
                }
                let slots = probes.hooked(id, &is_paused);
                slots.clone().next()?;
                Some(hooks.add(id, counter, slots.filter_map(listening)))
            });
            if let Some(hook) = probes.publish(id, hook, registry.definitions(id, loaded)) {
                Unpublished::add(&mut old, hook);
            }
        }
        old.into_iter().for_each(|hooks| reclaimer.retire(hooks.since(), Reclaimable::Hooks(hooks)));
    }
}

/// Returns a function that returns whether an attachment is paused.
pub(super) fn is_paused(records: &[Option<AttachmentRecord>]) -> impl Fn(usize) -> bool + Clone + '_ {
    |at| records[at].as_ref().is_some_and(|record| record.is_paused.get())
}

impl Control {
    /// Publishes new hooks of these probes' listeners, and retires the previous ones.
    pub(super) fn publish(&mut self, ids: &[ProbeId], loaded: KeptLoaded<'_>) {
        self.attachments.publish(ids, &self.registry, &mut self.reclaimer, loaded);
    }

    /// Publishes new hooks of these probes' listeners, and switches their sites. Returns whether
    /// hits of all these probes are only counted now.
    pub(super) fn publish_and_switch(
        &mut self,
        ids: &[ProbeId],
        left: &[Option<Mode>],
        switching: Switching<'_>,
    ) -> bool {
        self.publish(ids, switching.loaded);
        self.keep_infos(ids, switching.loaded);
        self.switch_probes(ids, left, switching)
    }

    /// Attaches a consumer; returns the attachment's number and the report of its activation.
    /// `starts` is as for [`AttachmentTable::add_slots`].
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
        let counters =
            self.attachments.counters.allocate_for(&ids, delivery, delivery.counters(ids.len()))?;
        let text = self.open_text(&ids, policy, loaded);
        let text = text.inspect_err(|_| self.attachments.counters.release(counters.clone(), 0))?;
        let suppressed = counters.start;
        let actions = (suppressed + delivery.counters(0)..).map(|own| delivery.action(suppressed, own));
        let record = AttachmentRecord::new(ids, delivery, counters, subscription, policy, text);
        let attachment = self.register_attachment(record, actions, starts, &mut report, loaded);
        Ok((attachment, report))
    }

    /// Adds an attachment to its probes, with an action for each, and switches their sites
    /// accordingly. Returns the attachment's number.
    pub(super) fn register_attachment(
        &mut self,
        mut record: AttachmentRecord,
        actions: impl Iterator<Item = Action>,
        starts: &[(ProbeId, Start)],
        report: &mut Report,
        loaded: KeptLoaded<'_>,
    ) -> usize {
        record.since = self.reclaimer.now();
        let (ids, delivery) = (Arc::clone(&record.ids), record.delivery);
        let access = self.access_to_open(record.policy);
        let left = self.attachments.modes_left(&ids);
        let attachment = self.attachments.insert(record);
        self.attachments.add_slots(attachment, &ids, actions, starts);
        let is_counted = self.publish_and_switch(&ids, &left, Switching { access, report, loaded });
        // While it decides alone, its hooks don't change, so the mode stays valid.
        let record = self.attachments.record_mut(attachment);
        if let Some(record) = record.filter(|_| delivery == DeliveryMode::Counted) {
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
        #[cfg(probe_backend = "patched")]
        self.prepare_for_texts(ids, loaded);
        let is_free = |id: &ProbeId| self.registry.definitions(*id, loaded).all(claim);
        // Most processes have one runtime.
        if ids.iter().all(is_free) {
            return ids.into();
        }
        let (free, taken): (Vec<_>, Vec<_>) = ids.iter().copied().partition(is_free);
        self.refuse(&taken, &RefusalReason::Taken, report);
        self.refuse_taken_sites(&taken, report);
        free.into()
    }

    /// Prepares for reading strings of C, if a probe may have some.
    #[cfg(probe_backend = "patched")]
    fn prepare_for_texts(&self, ids: &[ProbeId], loaded: KeptLoaded<'_>) {
        let may_have = |definition: &Definition| {
            definition.convention() == Convention::KeptColdBlock && definition.field_count() != 0
        };
        if ids.iter().any(|id| self.registry.definitions(*id, loaded).any(&may_have)) {
            crate::engine::os::guarded_read::prepare();
        }
    }

    /// Removes an attachment from all its probes. Its memory is retired, not freed.
    pub(super) fn detach(&mut self, attachment: usize, loaded: KeptLoaded<'_>) -> Report {
        let mut report = Report::default();
        let Some(record) = self.attachments.record(attachment) else { return report };
        record.subscription.close();
        // The attachment itself knows whether it is paused.
        let (left_all, ids) = (record.mode_left(), Arc::clone(&record.ids));
        let left = if left_all.is_none() { self.attachments.modes_left(&ids) } else { Vec::new() };
        let Some((record, uses_own)) = self.attachments.remove(attachment) else { return report };
        self.publish(&ids, loaded);
        self.drop_infos(&ids);
        let AttachmentRecord { subscription, counters, policy, text, .. } = record;
        // Unless another attachment shared its probes, only the first of its own counters has
        // counted.
        let used = if uses_own { counters.len() } else { record.delivery.counters(0) };
        let joined = record.join_state.map(|state| state.counters).unwrap_or_default();
        // Retired after its hooks, so `reclaimer` returns it no earlier than them.
        let detached = DetachedAttachment { subscription, counters, used, joined };
        self.reclaimer.retire(record.since, Reclaimable::Detached(Box::new(detached)));
        let access = if text.is_still_open(loaded) { self.access_to_open(policy) } else { policy.access() };
        let mut switching = Switching { access, report: &mut report, loaded };
        if left_all.is_some() {
            // It alone decided on these probes, so none of them has an attachment now.
            self.switch_ranges(&record.id_ranges, Mode::Latent, left_all, &mut switching);
        } else {
            self.switch_probes(&ids, &left, switching);
        }
        text.close(&mut report, loaded);
        report
    }
}
