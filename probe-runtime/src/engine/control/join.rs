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

use std::collections::{BTreeMap, BTreeSet};
use std::mem;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use super::attachments::AttachmentTable;
use super::counting::sum_each;
use super::lock::{Control, operate};
use super::probe_attachments::claim;
use super::reclaim::finish_operation;
use super::sites::{Switching, id_ranges};
use super::{Consumer, DeliveryMode, ProbeSet, Start, join_lock};
#[cfg(probe_values)]
use crate::engine::c_values::ValueTable;
use crate::engine::dispatch::{CounterAt, Subscription, Transition};
use crate::engine::error::Error;
use crate::engine::os::objects::KeptLoaded;
use crate::engine::registry::{Change, ProbeId, Registry};
use crate::engine::sites::{Report, Visibility};
use probe_lang::selector::{NamedTerms, Selector};

/// Lets all pending probes join, on the thread that holds the join lock.
pub(super) fn join_pending() {
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
            #[cfg(probe_values)]
            set.read_values();
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

impl Control {
    /// Notes the probes among these that join persistent attachments. `found` are those of a
    /// provider.
    fn note_new(&mut self, ids: &[ProbeId], mut found: Vec<ProbeId>, loaded: KeptLoaded<'_>) {
        found.sort_unstable();
        let (registry, AttachmentTable { records, probes, .. }) = (&self.registry, &mut self.attachments);
        for (number, record) in records.iter_mut().enumerate() {
            let state = record.as_mut().and_then(|record| record.join_state.as_mut());
            let Some(state) = state else { continue };
            let has_slot = |id: ProbeId| probes.slot(id, number).is_some();
            let new = ids.iter();
            let new = new.filter(|id| state.rule.matches(**id, registry, &found, loaded) && !has_slot(**id));
            state.pending.extend(new);
            state.request_join();
        }
    }

    /// Notes the probes of a change that join persistent attachments. Forgets unloaded ones that
    /// consumers are preparing for: a consumer may not have seen them before, so they join when
    /// they come back.
    pub(super) fn note_change(&mut self, change: &Change, loaded: KeptLoaded<'_>) {
        if self.attachments.join_states().next().is_none() {
            return;
        }
        let found = change.found.iter().map(|(id, _)| *id).collect();
        if !change.is_list_new {
            return self.note_new(&change.new_probes, found, loaded);
        }
        let is_loaded = |id: &ProbeId| self.registry.definition(*id, loaded).is_some();
        self.attachments.join_states_mut().for_each(|state| state.joining.retain(is_loaded));
        self.note_new(&self.all_ids(), found, loaded);
    }

    /// Notes the probes that have appeared since an attachment's set was made.
    pub(super) fn note_appeared_since(&mut self, set: &ProbeSet, loaded: KeptLoaded<'_>) {
        if set.persistent_rule().is_some() && set.as_of != self.changes {
            self.note_new(&self.all_ids(), self.registry.discovered_ids().collect(), loaded);
            self.join_without_calls(loaded);
        }
    }

    /// Lets probes join an attachment from now on.
    pub(super) fn begin_joining(&mut self, number: usize) {
        if let Some(state) = self.attachments.join_state_mut(number) {
            state.has_started = true;
            state.request_join();
        }
    }

    /// Lets pending probes join attachments whose consumers need no call for it.
    pub(super) fn join_without_calls(&mut self, loaded: KeptLoaded<'_>) {
        for number in self.attachments.numbers() {
            let state = self.attachments.join_state_mut(number).filter(|state| state.joins_at_once);
            let pending = state.map(|state| mem::take(&mut state.pending)).unwrap_or_default();
            let starts: Vec<_> = pending.into_iter().map(|id| (id, Start::On)).collect();
            let transition = self.join(number, &starts, loaded);
            if let Some((record, transition)) = self.attachments.record(number).zip(transition) {
                record.subscription.commit_locked(transition);
            }
        }
        let has_pending = |state: &JoinState| !(state.pending.is_empty() && state.joining.is_empty());
        if !self.attachments.join_states().any(|state| state.counts_first_hits && has_pending(state)) {
            self.replace_provider_hooks(loaded);
        }
    }

    /// Takes the pending probes of one attachment. Those of unloaded objects join when they come
    /// back, and those of another runtime never do.
    fn next_pending(&mut self, loaded: KeptLoaded<'_>) -> Option<PendingJoin> {
        self.attachments.numbers().find_map(|number| {
            let state = self.attachments.join_state_mut(number).filter(|state| state.has_started)?;
            let pending = mem::take(&mut state.pending);
            let subscription = Arc::clone(&self.attachments.record(number)?.subscription);
            if pending.is_empty() || subscription.has_failed() {
                return None;
            }
            let ids = self.joinable(number, pending, loaded);
            let record = self.attachments.record_mut(number)?;
            let state = record.join_state.as_mut().filter(|_| !ids.is_empty())?;
            let consumer = state.consumer.upgrade()?;
            state.joining.clone_from(&ids);
            let set = ProbeSet {
                room: state.room,
                policy: record.policy,
                #[cfg(probe_values)]
                values: state.values.clone(),
                ..ProbeSet::of(ids)
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
            self.registry.definition(*id, loaded).is_some()
                && self.attachments.probes.slot(*id, number).is_none()
        };
        let lacking = ids.into_iter().filter(lacks);
        let (free, taken): (Vec<_>, Vec<_>) =
            lacking.partition(|id| self.registry.definitions(*id, loaded).all(claim));
        if let Some(state) = self.attachments.join_state_mut(number) {
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
        // Objects may have been unloaded while the consumer prepared.
        let ids = self.joinable(number, starts.iter().map(|(id, _)| *id), loaded);
        let ids = self.limited_to_room(number, ids);
        if ids.is_empty() {
            return None;
        }
        let record = self.attachments.record(number)?;
        let (delivery, suppressed) = (record.delivery, record.counters.start);
        // The attachment has its counter of suppressed hits.
        let wanted = delivery.counters(ids.len()) - delivery.counters(0);
        let own = match self.attachments.counters.allocate_for(&ids, delivery, wanted) {
            Ok(own) => own,
            Err(error) => {
                self.attachments.join_state_mut(number)?.leave_out(&ids, &error);
                return None;
            }
        };
        let left = self.attachments.modes_left(&ids);
        let actions = (own.start..).map(|own| delivery.action(suppressed, own));
        self.attachments.add_slots(number, &ids, actions, starts);
        let record = self.attachments.record_mut(number)?;
        let mut all = [&*record.ids, &ids].concat();
        all.sort_unstable();
        record.id_ranges = id_ranges(&all);
        record.ids = all.into();
        if let Some(state) = &mut record.join_state {
            state.note_joined(&ids, own, &self.registry);
        }
        let transition = record.subscription.begin_transition();
        self.add_first_hits(number, &ids);
        let (access, mut report) = (self.access_to_new(), Report::default());
        let switching = Switching { access, report: &mut report, loaded };
        let is_counted = self.publish_and_switch(&ids, &left, switching);
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
    /// Probes that any of these selectors names, each with the terms that have named any.
    Named(Vec<(Arc<Selector>, NamedTerms)>),
    /// Probes that a provider finds, but those of modules.
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
            Self::Named(selectors) => {
                let matches = |(selector, named): &mut (Arc<Selector>, NamedTerms)| {
                    selector.matches_noting(definition, named, is_left_out)
                };
                // Each notes its own terms.
                selectors.iter_mut().map(matches).fold(false, |any, one| any | one)
            }
            Self::Discovered => {
                let is_in_module = || definition.note("module").is_some();
                found.binary_search(&id).is_ok() && !is_left_out() && !is_in_module()
            }
        }
    }
}

/// The state of a persistent attachment that lets probes join.
pub(super) struct JoinState {
    pub(super) rule: JoinRule,
    pub(super) room: usize,
    consumer: Weak<dyn Consumer>,
    /// Whether probes may join: the consumer was told that it is attached.
    has_started: bool,
    /// Whether probes join without a call of the consumer.
    joins_at_once: bool,
    /// Probes that are to join. The consumer has not been asked yet.
    pub(super) pending: BTreeSet<ProbeId>,
    /// Probes that the consumer is preparing for, without those that were unloaded meanwhile.
    joining: Vec<ProbeId>,
    /// The attachment's own counters of probes that have joined.
    pub(super) counters: Vec<Range<usize>>,
    /// Whether first hits of discovered probes are counted for it.
    pub(super) counts_first_hits: bool,
    /// The counters of these hits. A probe may have several.
    pub(super) first_hit_counters: Vec<(ProbeId, usize)>,
    /// The values that the attachment reads.
    #[cfg(probe_values)]
    values: Option<Arc<ValueTable>>,
    /// Probes that could not join.
    left_out: BTreeSet<ProbeId>,
    /// The last reason why a probe could not join.
    problem: String,
    attached_at: Instant,
    /// Probes that were hit before they joined, and the time from `attached_at` until they joined.
    hit_before: BTreeMap<ProbeId, Duration>,
}

impl JoinState {
    /// Returns the state of an attachment to a set, if the set is persistent.
    pub(super) fn of(set: &ProbeSet, consumer: &Arc<dyn Consumer>, joins_at_once: bool) -> Option<Box<Self>> {
        Some(Box::new(Self {
            rule: set.persistent_rule()?,
            room: set.room,
            consumer: Arc::downgrade(consumer),
            has_started: joins_at_once,
            joins_at_once,
            pending: BTreeSet::new(),
            joining: Vec::new(),
            counters: Vec::new(),
            counts_first_hits: false,
            first_hit_counters: Vec::new(),
            #[cfg(probe_values)]
            values: set.values.clone(),
            left_out: BTreeSet::new(),
            problem: String::new(),
            attached_at: Instant::now(),
            hit_before: BTreeMap::new(),
        }))
    }

    /// Asks the next operation to let pending probes join, if their consumer is called for it.
    fn request_join(&self) {
        if !self.pending.is_empty() && self.has_started && !self.joins_at_once {
            join_lock::request();
        }
    }

    /// Notes that these probes could not join.
    pub(super) fn leave_out(&mut self, ids: &[ProbeId], error: &Error) {
        if !ids.is_empty() {
            self.left_out.extend(ids);
            self.problem = error.to_string();
        }
    }

    /// Notes that these probes have joined, with these counters, and which of them were hit before.
    fn note_joined(&mut self, ids: &[ProbeId], counters: Range<usize>, registry: &Registry) {
        ids.iter().for_each(|id| _ = self.left_out.remove(id));
        self.counters.extend(Some(counters).filter(|range| !range.is_empty()));
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
        let places = self.first_hit_counters.iter().map(|(_, counter)| Some(CounterAt::new(*counter)));
        let mut own = BTreeMap::<ProbeId, u64>::new();
        for ((id, _), sum) in self.first_hit_counters.iter().zip(sum_each(&places)) {
            *own.entry(*id).or_default() += sum;
        }
        ids.iter().zip(counted).for_each(|(id, counted)| *counted += own.get(id).unwrap_or(&0));
    }

    /// Returns a line about probes that could not join, if there are any.
    pub(super) fn left_out_note(&self) -> Option<String> {
        let problem = &self.problem;
        match self.left_out.len() {
            0 => None,
            1 => Some(format!("1 probe that appeared later is left out: {problem}")),
            len => Some(format!("{len} probes that appeared later are left out: {problem}")),
        }
    }
}
