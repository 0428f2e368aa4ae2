//! Persistent attachments: the rule that chooses their probes, and how probes that appear join.
//!
//! Life: a set keeps the [`JoinRule`] that made it ▸ attaching keeps the rule with the attachment ▸
//! an operation that finds new probes notes those that the rule names ▸ once the control lock is
//! free, it takes the [join lock](super::join_lock), asks the consumer to
//! [`join`](super::Consumer::join) them, and then adds slots, hooks and sites, as attaching does ▸
//! the operation's own work follows, and sees them joined. A consumer that needs no call, such as
//! `Count`, is joined under the control lock at once.
//!
//! A probe joins an attachment once. Probes that are in it already, that are not loaded, or that
//! another runtime owns are left out. A probe whose object was unloaded joins when the object comes
//! back.
//!
//! Cost: without a persistent attachment, a look at each attachment where probes came or went. With
//! one, the rule is tried on new probes alone; after an unload, on all.

use std::any::Any;
use std::collections::{BTreeMap, BTreeSet};
use std::mem;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use super::attachments::AttachmentTable;
use super::counting::sum_range;
use super::lock::{Control, operate};
use super::probe_attachments::{AttachmentSlot, claim};
use super::reclaim::finish_operation;
use super::sites::id_ranges;
use super::{Consumer, DeliveryMode, ProbeSet, Start, join_lock};
use crate::engine::dispatch::{Action, CounterAt, Subscription, Transition};
use crate::engine::error::Error;
use crate::engine::os::objects::KeptLoaded;
use crate::engine::registry::{ProbeId, Registry};
use crate::engine::sites::{Report, Visibility};
use probe_lang::selector::{NamedTerms, Selector};

/// Lets all pending probes join, on the thread that holds the join lock.
fn join_pending() {
    let next = |control: &mut Control, loaded: KeptLoaded<'_>| {
        let pending = control.next_pending(loaded);
        if pending.is_none() {
            control.replace_provider_hooks(loaded);
        }
        pending
    };
    while let Some(pending) = operate(next) {
        pending.join();
    }
}

/// Probes that are about to join an attachment.
struct PendingJoin {
    number: usize,
    subscription: Arc<Subscription>,
    consumer: Arc<dyn Consumer>,
    set: ProbeSet,
}

impl PendingJoin {
    fn join(self) {
        let Self { number, subscription, consumer, set } = self;
        // The consumer's panic must not end an operation that concerns another one. Its message was
        // printed.
        let joined = catch_unwind(AssertUnwindSafe(|| {
            consumer.join(&set)?;
            let starts = set.ids.iter().map(|id| (*id, consumer.start(*id)));
            Ok::<Vec<_>, Error>(starts.collect())
        }));
        let joined = joined.unwrap_or_else(|_| Err(Error::Consumer("the consumer panicked".into())));
        let transition = operate(|control, loaded| {
            let record = control.attachments.record_mut(number);
            let record = record.filter(|record| Arc::ptr_eq(&record.subscription, &subscription))?;
            let state = record.join_state.as_mut()?;
            let joining = mem::take(&mut state.joining);
            match joined {
                Ok(mut starts) => {
                    starts.retain(|(id, _)| joining.binary_search(id).is_ok());
                    control.join(number, &starts, loaded)
                }
                Err(error) => {
                    state.leave_out(&set.ids, &error);
                    None
                }
            }
        });
        if let Some(transition) = transition {
            finish_operation(Visibility::Synchronous, None);
            subscription.commit(transition);
        }
    }
}

impl AttachmentTable {
    /// Notes the probes among these that join persistent attachments. `found` are those of a
    /// provider, ascending.
    pub(super) fn note_new(
        &mut self,
        ids: &[ProbeId],
        found: &[ProbeId],
        registry: &Registry,
        loaded: KeptLoaded<'_>,
    ) {
        let Self { records, probes, slots, .. } = self;
        for (number, record) in records.iter_mut().enumerate() {
            let state = record.as_mut().and_then(|record| record.join_state.as_mut());
            let Some(state) = state else { continue };
            let has_slot =
                |id: ProbeId| probes.get(id.index()).is_some_and(|it| it.slot(slots, number).is_some());
            let new =
                ids.iter().filter(|id| state.rule.matches(**id, registry, found, loaded) && !has_slot(**id));
            state.pending.extend(new);
            if !state.pending.is_empty() && state.has_started && !state.joins_at_once {
                join_lock::request();
            }
        }
    }

    /// Forgets unloaded probes that consumers are preparing for. A consumer may not have seen them
    /// before, so they join when they come back.
    pub(super) fn forget_unloaded(&mut self, registry: &Registry, loaded: KeptLoaded<'_>) {
        let state = self.records.iter_mut().flatten().filter_map(|it| it.join_state.as_mut());
        state.for_each(|it| it.joining.retain(|id| registry.definition(*id, loaded).is_some()));
    }

    /// Lets probes join an attachment from now on.
    pub(super) fn begin_joining(&mut self, number: usize) {
        let record = self.record_mut(number);
        if let Some(state) = record.and_then(|record| record.join_state.as_mut()) {
            state.has_started = true;
            if !state.pending.is_empty() {
                join_lock::request();
            }
        }
    }
}

impl Control {
    /// Makes an attachment persistent, if its set is.
    pub(super) fn make_persistent(
        &mut self,
        number: usize,
        set: &ProbeSet,
        consumer: &Arc<dyn Consumer>,
        joins_at_once: bool,
    ) {
        let record = self.attachments.record_mut(number);
        let Some((record, rule)) = record.zip(set.persistent_rule()) else { return };
        join_lock::set_work(join_pending);
        let consumer = Box::new(Arc::downgrade(consumer));
        let mut state = JoinState::new(rule, set.room, consumer);
        (state.joins_at_once, state.has_started) = (joins_at_once, joins_at_once);
        record.join_state = Some(Box::new(state));
    }

    /// Notes the probes that have appeared since an attachment's set was made.
    pub(super) fn note_appeared_since(&mut self, set: &ProbeSet, loaded: KeptLoaded<'_>) {
        if set.persistent_rule().is_some() && set.as_of != self.changes {
            let all: Vec<_> = (0..self.registry.len()).map(ProbeId::new).collect();
            let mut found: Vec<_> = self.registry.discovered_ids().collect();
            found.sort_unstable();
            self.attachments.note_new(&all, &found, &self.registry, loaded);
            self.join_without_calls(loaded);
        }
    }

    /// Lets pending probes join attachments whose consumers need no call for it.
    pub(super) fn join_without_calls(&mut self, loaded: KeptLoaded<'_>) {
        for number in self.attachments.numbers() {
            let record = self.attachments.record_mut(number);
            let state = record.and_then(|record| record.join_state.as_mut());
            let Some(state) = state.filter(|it| it.joins_at_once && !it.pending.is_empty()) else {
                continue;
            };
            let starts: Vec<_> =
                mem::take(&mut state.pending).into_iter().map(|id| (id, Start::On)).collect();
            let transition = self.join(number, &starts, loaded);
            if let Some((record, transition)) = self.attachments.record(number).zip(transition) {
                record.subscription.commit_locked(transition);
            }
        }
        if !self.attachments.awaits_first_hits() {
            self.replace_provider_hooks(loaded);
        }
    }

    /// Takes the pending probes of one attachment. Those of unloaded objects join when they come
    /// back, and those of another runtime never do.
    fn next_pending(&mut self, loaded: KeptLoaded<'_>) -> Option<PendingJoin> {
        self.attachments.numbers().find_map(|number| {
            let record = self.attachments.record_mut(number)?;
            let subscription = Arc::clone(&record.subscription);
            let state = record.join_state.as_mut().filter(|state| state.has_started)?;
            let pending = mem::take(&mut state.pending);
            if pending.is_empty() || subscription.has_failed() {
                return None;
            }
            let ids = self.joinable(number, pending, loaded);
            let record = self.attachments.record_mut(number)?;
            let state = record.join_state.as_mut().filter(|_| !ids.is_empty())?;
            let consumer = state.consumer.downcast_ref::<Weak<dyn Consumer>>()?.upgrade()?;
            state.joining.clone_from(&ids);
            let set = ProbeSet {
                ids: ids.into(),
                policy: record.policy,
                unmatched: Arc::default(),
                rule: None,
                as_of: 0,
                room: state.room,
            };
            Some(PendingJoin { number, subscription, consumer, set })
        })
    }

    /// Returns the probes among these that are loaded, that are not in the attachment yet, and that
    /// no other runtime has taken. The attachment leaves taken ones out.
    fn joinable(
        &mut self,
        number: usize,
        ids: impl IntoIterator<Item = ProbeId>,
        loaded: KeptLoaded<'_>,
    ) -> Vec<ProbeId> {
        let lacks = |id: &ProbeId| {
            self.registry.definition(*id, loaded).is_some() && !self.attachments.has_slot(number, *id)
        };
        let lacking = ids.into_iter().filter(lacks);
        let (free, taken): (Vec<_>, Vec<_>) =
            lacking.partition(|id| self.registry.definitions(*id, loaded).all(claim));
        let record = self.attachments.record_mut(number).filter(|_| !taken.is_empty());
        if let Some(state) = record.and_then(|record| record.join_state.as_mut()) {
            state.leave_out(&taken, &Error::Consumer("another copy of this crate was faster".into()));
        }
        free
    }

    /// Adds probes to an attachment, whose consumer has prepared for them, and switches their
    /// sites.
    fn join(
        &mut self,
        number: usize,
        starts: &[(ProbeId, Start)],
        loaded: KeptLoaded<'_>,
    ) -> Option<Transition> {
        let mut report = Report::default();
        // Objects may have been unloaded while the consumer prepared.
        let ids = self.joinable(number, starts.iter().map(|(id, _)| *id), loaded);
        let ids = self.limited_to_room(number, ids);
        if ids.is_empty() {
            return None;
        }
        let record = self.attachments.record(number)?;
        let (delivery, first) = (record.delivery, record.counters.start);
        let wanted = if delivery == DeliveryMode::Delivered { 0 } else { ids.len() };
        let pool = &mut self.attachments.counters;
        let has_room =
            delivery == DeliveryMode::Delivered || ids.last().is_none_or(|last| pool.reserve_probe(*last));
        let Some(own) = has_room.then(|| pool.allocate(wanted)).flatten() else {
            let state = self.attachments.record_mut(number)?.join_state.as_mut()?;
            state.leave_out(&ids, &Error::OutOfCounters { wanted });
            return None;
        };
        let left = self.attachments.modes_left(&ids);
        self.attachments.reserve(&ids);
        for (at, id) in ids.iter().enumerate() {
            // Counts have no counter of suppressed hits, and hits none of their own.
            let (suppressed, counter) = (|| CounterAt::new(first), || CounterAt::new(own.start + at));
            let action = match delivery {
                DeliveryMode::Counted => Action::Count(counter()),
                DeliveryMode::Delivered => Action::Call { suppressed: suppressed(), counted: None },
                DeliveryMode::Switchable => {
                    Action::Call { suppressed: suppressed(), counted: Some(counter()) }
                }
            };
            let start = starts.binary_search_by_key(id, |(id, _)| *id).map_or(Start::On, |at| starts[at].1);
            self.attachments.add(*id, AttachmentSlot::starting(number, action, start));
        }
        let record = self.attachments.record_mut(number)?;
        let mut all = [&*record.ids, &ids].concat();
        all.sort_unstable();
        record.id_ranges = id_ranges(&all);
        record.ids = all.into();
        if let Some(state) = &mut record.join_state {
            state.note_joined(&ids);
            state.note_hit_before(&ids, &self.registry);
            if !own.is_empty() {
                state.counters.push(own.clone());
            }
        }
        let transition = record.subscription.begin_transition();
        self.add_first_hits(number, &ids);
        self.publish(&ids, loaded);
        self.keep_infos(&ids, loaded);
        let is_counted = self.switch_probes(&ids, &left, self.access_to_new(), &mut report, loaded);
        let record = self.attachments.record_mut(number)?;
        if delivery == DeliveryMode::Counted {
            record.mode = record.mode.filter(|_| is_counted);
        }
        self.attachments.set_late_report(number, report);
        Some(transition)
    }
}

/// Chooses the probes of a persistent attachment.
#[derive(Clone, Debug)]
pub(super) enum JoinRule {
    /// Probes that a selector names, and the terms that have named any.
    Named(Arc<Selector>, NamedTerms),
    /// Probes that a provider finds.
    #[cfg_attr(not(probe_discovers), expect(dead_code, reason = "no provider is in this build"))]
    Discovered,
}

impl JoinRule {
    pub(super) fn matches(
        &mut self,
        id: ProbeId,
        registry: &Registry,
        found: &[ProbeId],
        loaded: KeptLoaded<'_>,
    ) -> bool {
        let Some(definition) = registry.definition(id, loaded) else { return false };
        let is_left_out = || definition.skipped().is_some();
        match self {
            Self::Named(selector, named) => selector.matches_noting(definition, named, is_left_out),
            Self::Discovered => found.binary_search(&id).is_ok() && !is_left_out(),
        }
    }
}

/// The state of a persistent attachment that lets probes join.
pub(super) struct JoinState {
    pub(super) rule: JoinRule,
    pub(super) room: usize,
    /// The consumer, of a type that this file need not know.
    pub(super) consumer: Box<dyn Any + Send>,
    /// Whether probes may join: the consumer was told that it is attached.
    pub(super) has_started: bool,
    /// Whether probes join without a call of the consumer.
    pub(super) joins_at_once: bool,
    /// Probes that are to join. The consumer has not been asked yet.
    pub(super) pending: BTreeSet<ProbeId>,
    /// Probes that the consumer is preparing for, without those that were unloaded meanwhile.
    pub(super) joining: Vec<ProbeId>,
    /// The attachment's own counters of probes that have joined.
    pub(super) counters: Vec<Range<usize>>,
    /// Whether first hits of discovered probes are counted for it.
    pub(super) counts_first_hits: bool,
    /// The counters of these hits. A probe may have several.
    pub(super) first_hit_counters: Vec<(ProbeId, usize)>,
    /// Probes that could not join.
    left_out: BTreeSet<ProbeId>,
    /// The last reason why a probe could not join.
    problem: String,
    attached_at: Instant,
    /// Probes that were hit before they joined, and the time from `attached_at` until they joined.
    hit_before: BTreeMap<ProbeId, Duration>,
}

impl JoinState {
    pub(super) fn new(rule: JoinRule, room: usize, consumer: Box<dyn Any + Send>) -> Self {
        Self {
            rule,
            room,
            consumer,
            has_started: false,
            joins_at_once: false,
            pending: BTreeSet::new(),
            joining: Vec::new(),
            counters: Vec::new(),
            counts_first_hits: false,
            first_hit_counters: Vec::new(),
            left_out: BTreeSet::new(),
            problem: String::new(),
            attached_at: Instant::now(),
            hit_before: BTreeMap::new(),
        }
    }

    /// Notes that these probes could not join.
    pub(super) fn leave_out(&mut self, ids: &[ProbeId], error: &Error) {
        if !ids.is_empty() {
            self.left_out.extend(ids);
            self.problem = error.to_string();
        }
    }

    /// Notes that these probes have joined.
    pub(super) fn note_joined(&mut self, ids: &[ProbeId]) {
        ids.iter().for_each(|id| _ = self.left_out.remove(id));
    }

    /// Notes the probes among these that were hit before they join now.
    pub(super) fn note_hit_before(&mut self, ids: &[ProbeId], registry: &Registry) {
        // If first hits are counted, it has all of them.
        if !self.counts_first_hits {
            let since = self.attached_at.elapsed();
            let hit = ids.iter().filter(|id| registry.was_reached(**id));
            hit.for_each(|id| _ = self.hit_before.entry(*id).or_insert(since));
        }
    }

    /// Returns a line about probes that were hit before they joined, if there are any.
    pub(super) fn hit_before_note(&self, registry: &Registry, loaded: KeptLoaded<'_>) -> Option<String> {
        const SHOWN: usize = 8;
        let line = |(id, since): (&ProbeId, &Duration)| {
            let definition = registry.definition(*id, loaded)?;
            let seconds = since.as_secs_f64();
            Some(format!("{} {} since {seconds:.3} s", definition.path(), definition.kind().name()))
        };
        let lines: Vec<_> = self.hit_before.iter().filter_map(line).collect();
        let more = match lines.len().saturating_sub(SHOWN) {
            0 => String::new(),
            more => format!(", and {more} more"),
        };
        (!lines.is_empty()).then(|| {
            let shown = lines[..lines.len().min(SHOWN)].join(", ");
            format!("hit before they could join, so this has a part of their hits: {shown}{more}")
        })
    }

    /// Ends joining that was under way, in a forked child, which does not have the thread that did
    /// it.
    pub(super) fn abort(&mut self) {
        let ids = mem::take(&mut self.joining);
        if !ids.is_empty() {
            self.has_started = false;
            self.leave_out(&ids, &Error::Consumer("the process forked while they joined".into()));
        }
    }

    /// Adds the first hits of these probes: those before they joined.
    pub(super) fn add_first_hits(&self, ids: &[ProbeId], counted: &mut [u64]) {
        let counters = || self.first_hit_counters.iter().map(|(_, counter)| *counter);
        let (Some(first), Some(last)) = (counters().min(), counters().max()) else { return };
        let sums = sum_range(first..last + 1);
        let mut own = BTreeMap::<ProbeId, u64>::new();
        for (id, counter) in &self.first_hit_counters {
            *own.entry(*id).or_default() += sums[counter - first];
        }
        ids.iter().zip(counted).for_each(|(id, counted)| *counted += own.get(id).unwrap_or(&0));
    }

    /// Returns a line about probes that could not join, if there are any.
    pub(super) fn left_out_note(&self) -> Option<String> {
        let (len, problem) = (self.left_out.len(), &self.problem);
        let probes =
            if len == 1 { "1 probe that appeared later is" } else { "probes that appeared later are" };
        match len {
            0 => None,
            1 => Some(format!("{probes} left out: {problem}")),
            _ => Some(format!("{len} {probes} left out: {problem}")),
        }
    }
}
