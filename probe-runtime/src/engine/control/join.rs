//! Lets probes that appear join persistent attachments.
//!
//! Life: a set keeps the [`Rule`] that made it ▸ attaching keeps the rule
//! with the attachment ▸ an operation that finds new probes notes those that the rule names ▸ once
//! its lock is free, it takes the [turn](super::join_lock), asks the consumer to
//! [`join`](super::Consumer::join) them, and then adds parts, hooks and sites, as attaching does ▸
//! the operation's own work follows, and sees them joined. A consumer that needs no call, such as
//! `Count`, is joined under the lock at once.
//!
//! A probe joins an attachment once. Probes that have a part already, that are not loaded, or that
//! another runtime owns are left out. One that is left out joins when its object comes back.
//!
//! Cost: without a persistent attachment, a look at each attachment where probes came or went. With
//! one, the rule is tried on new probes alone; after an unload, on all.
//!
//! Persistent attachments: the rule that chooses their probes, and those that are to join.

use std::any::Any;
use std::collections::{BTreeMap, BTreeSet};
use std::mem;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use super::attachments::Attachments;
use super::counting::sums;
use super::lock::{Control, operate};
use super::probe_attachments::{Part, claim};
use super::reclaim::settle;
use super::sites::runs;
use super::{Consumer, DeliveryMode, ProbeSet, Start, join_lock};
use crate::engine::dispatch::{Action, CounterAt, Subscription, Transition};
use crate::engine::error::Error;
use crate::engine::os::objects::KeptLoaded;
use crate::engine::registry::{ProbeId, Registry};
use crate::engine::sites::{Report, Visibility};
use probe_lang::selector::{NamedTerms, Selector};

/// Lets all probes join that wait, in this thread's turn.
fn join_all() {
    let next = |control: &mut Control, loaded: KeptLoaded<'_>| {
        let late = control.take_late(loaded);
        if late.is_none() {
            control.replace_first_hooks(loaded);
        }
        late
    };
    while let Some(late) = operate(next) {
        late.join();
    }
}

/// Probes that are about to join an attachment.
struct Late {
    number: usize,
    subscription: Arc<Subscription>,
    consumer: Arc<dyn Consumer>,
    set: ProbeSet,
}

impl Late {
    fn join(self) {
        let Self { number, subscription, consumer, set } = self;
        // It is its own code, and the operation another's. The panic's message was printed.
        let joined = catch_unwind(AssertUnwindSafe(|| {
            consumer.join(&set)?;
            let starts = set.ids.iter().map(|id| (*id, consumer.start(*id)));
            Ok::<Vec<_>, Error>(starts.collect())
        }));
        let joined = joined.unwrap_or_else(|_| Err(Error::Consumer("the consumer panicked".into())));
        let unsettled = operate(|control, loaded| {
            let attached = control.attachments.attached_mut(number);
            let attached = attached.filter(|attached| Arc::ptr_eq(&attached.subscription, &subscription))?;
            let state = attached.join_state.as_mut()?;
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
        if let Some(unsettled) = unsettled {
            settle(Visibility::Synchronous, None);
            subscription.commit(unsettled);
        }
    }
}

impl Attachments {
    /// Notes the probes among these that join persistent attachments. `found` are those of a
    /// provider, ascending.
    pub(super) fn note_late(
        &mut self,
        ids: &[ProbeId],
        found: &[ProbeId],
        registry: &Registry,
        loaded: KeptLoaded<'_>,
    ) {
        let Self { all, members, parts, .. } = self;
        for (number, attached) in all.iter_mut().enumerate() {
            let state = attached.as_mut().and_then(|attached| attached.join_state.as_mut());
            let Some(state) = state else { continue };
            let has_part =
                |id: ProbeId| members.get(id.index()).is_some_and(|it| it.part(parts, number).is_some());
            let late =
                ids.iter().filter(|id| state.rule.matches(**id, registry, found, loaded) && !has_part(**id));
            state.waiting.extend(late);
            if !state.waiting.is_empty() && state.has_begun && !state.is_at_once {
                join_lock::note();
            }
        }
    }

    /// Notes that probes are gone for which consumers are getting ready. A consumer may not have
    /// seen them before, so they join when they come back.
    pub(super) fn note_gone(&mut self, registry: &Registry, loaded: KeptLoaded<'_>) {
        let state = self.all.iter_mut().flatten().filter_map(|it| it.join_state.as_mut());
        state.for_each(|it| it.joining.retain(|id| registry.definition(*id, loaded).is_some()));
    }

    /// Lets probes join an attachment from now on.
    pub(super) fn begin_joining(&mut self, number: usize) {
        let attached = self.attached_mut(number);
        if let Some(state) = attached.and_then(|attached| attached.join_state.as_mut()) {
            state.has_begun = true;
            if !state.waiting.is_empty() {
                join_lock::note();
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
        is_at_once: bool,
    ) {
        let attached = self.attachments.attached_mut(number);
        let Some((attached, rule)) = attached.zip(set.persistent_rule()) else { return };
        join_lock::set_work(join_all);
        let consumer = Box::new(Arc::downgrade(consumer));
        let mut state = JoinState::new(rule, set.room, consumer);
        (state.is_at_once, state.has_begun) = (is_at_once, is_at_once);
        attached.join_state = Some(Box::new(state));
    }

    /// Notes the probes that have appeared since an attachment's set was made.
    pub(super) fn note_since(&mut self, set: &ProbeSet, loaded: KeptLoaded<'_>) {
        if set.persistent_rule().is_some() && set.as_of != self.changes {
            let all: Vec<_> = (0..self.registry.len()).map(ProbeId::new).collect();
            let mut found: Vec<_> = self.registry.discovered_ids().collect();
            found.sort_unstable();
            self.attachments.note_late(&all, &found, &self.registry, loaded);
            self.join_at_once(loaded);
        }
    }

    /// Lets probes join attachments whose consumers need no call for it.
    pub(super) fn join_at_once(&mut self, loaded: KeptLoaded<'_>) {
        for number in self.attachments.numbers() {
            let attached = self.attachments.attached_mut(number);
            let state = attached.and_then(|attached| attached.join_state.as_mut());
            let Some(state) = state.filter(|it| it.is_at_once && !it.waiting.is_empty()) else {
                continue;
            };
            let starts: Vec<_> =
                mem::take(&mut state.waiting).into_iter().map(|id| (id, Start::On)).collect();
            let unsettled = self.join(number, &starts, loaded);
            if let Some((attached, unsettled)) = self.attachments.attached(number).zip(unsettled) {
                attached.subscription.commit_locked(unsettled);
            }
        }
        if !self.attachments.waits_for_first_hits() {
            self.replace_first_hooks(loaded);
        }
    }

    /// Takes the probes that are to join an attachment. Those of unloaded objects join when they
    /// come back, and those of another runtime never do.
    fn take_late(&mut self, loaded: KeptLoaded<'_>) -> Option<Late> {
        self.attachments.numbers().find_map(|number| {
            let attached = self.attachments.attached_mut(number)?;
            let subscription = Arc::clone(&attached.subscription);
            let state = attached.join_state.as_mut().filter(|state| state.has_begun)?;
            let waiting = mem::take(&mut state.waiting);
            if waiting.is_empty() || subscription.has_failed() {
                return None;
            }
            let ids = self.free_of(number, waiting, loaded);
            let attached = self.attachments.attached_mut(number)?;
            let state = attached.join_state.as_mut().filter(|_| !ids.is_empty())?;
            let consumer = state.consumer.downcast_ref::<Weak<dyn Consumer>>()?.upgrade()?;
            state.joining.clone_from(&ids);
            let set = ProbeSet {
                ids: ids.into(),
                policy: attached.policy,
                unmatched: Arc::default(),
                rule: None,
                as_of: 0,
                room: state.room,
            };
            Some(Late { number, subscription, consumer, set })
        })
    }

    /// Returns the probes among these that an attachment lacks, that are loaded, and that no other
    /// runtime has taken. The attachment leaves those out.
    fn free_of(
        &mut self,
        number: usize,
        ids: impl IntoIterator<Item = ProbeId>,
        loaded: KeptLoaded<'_>,
    ) -> Vec<ProbeId> {
        let lacks = |id: &ProbeId| {
            self.registry.definition(*id, loaded).is_some() && !self.attachments.has_part(number, *id)
        };
        let lacking = ids.into_iter().filter(lacks);
        let (free, taken): (Vec<_>, Vec<_>) =
            lacking.partition(|id| self.registry.definitions(*id, loaded).all(claim));
        let attached = self.attachments.attached_mut(number).filter(|_| !taken.is_empty());
        if let Some(state) = attached.and_then(|attached| attached.join_state.as_mut()) {
            state.leave_out(&taken, &Error::Consumer("another copy of this crate was faster".into()));
        }
        free
    }

    /// Adds probes to an attachment, whose consumer is ready for them, and switches their sites.
    fn join(
        &mut self,
        number: usize,
        starts: &[(ProbeId, Start)],
        loaded: KeptLoaded<'_>,
    ) -> Option<Transition> {
        let mut report = Report::default();
        // Objects may have been unloaded while the consumer got ready.
        let ids = self.free_of(number, starts.iter().map(|(id, _)| *id), loaded);
        let ids = self.limited(number, ids);
        if ids.is_empty() {
            return None;
        }
        let attached = self.attachments.attached(number)?;
        let (delivery, first) = (attached.delivery, attached.counters.start);
        let wanted = if delivery == DeliveryMode::Delivered { 0 } else { ids.len() };
        let pool = &mut self.attachments.counters;
        let has_room =
            delivery == DeliveryMode::Delivered || ids.last().is_none_or(|last| pool.reserve(*last));
        let Some(own) = has_room.then(|| pool.take(wanted)).flatten() else {
            let state = self.attachments.attached_mut(number)?.join_state.as_mut()?;
            state.leave_out(&ids, &Error::OutOfCounters { wanted });
            return None;
        };
        let left = self.attachments.left_each(&ids);
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
            self.attachments.add(*id, Part::starting(number, action, start));
        }
        let attached = self.attachments.attached_mut(number)?;
        let mut all = [&*attached.ids, &ids].concat();
        all.sort_unstable();
        attached.runs = runs(&all);
        attached.ids = all.into();
        if let Some(state) = &mut attached.join_state {
            state.take_in(&ids);
            state.note_reached(&ids, &self.registry);
            if !own.is_empty() {
                state.counters.push(own.clone());
            }
        }
        let unsettled = attached.subscription.begin_transition();
        self.add_first_hits(number, &ids);
        self.publish(&ids, loaded);
        self.remember(&ids, loaded);
        let is_counted = self.switch_each(&ids, &left, self.access_to_new(), &mut report, loaded);
        let attached = self.attachments.attached_mut(number)?;
        if delivery == DeliveryMode::Counted {
            attached.mode = attached.mode.filter(|_| is_counted);
        }
        self.attachments.keep_late(number, report);
        Some(unsettled)
    }
}

/// Chooses the probes of a persistent attachment.
#[derive(Clone, Debug)]
pub(super) enum Rule {
    /// Those that a selector names, and the terms that have named any.
    Named(Arc<Selector>, NamedTerms),
    /// Those that a provider finds.
    #[cfg_attr(not(probe_discovers), expect(dead_code, reason = "no provider is in this build"))]
    Discovered,
}

impl Rule {
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

/// The part of an attachment that lets probes join.
pub(super) struct JoinState {
    pub(super) rule: Rule,
    pub(super) room: usize,
    /// The consumer, of a type that this file need not know.
    pub(super) consumer: Box<dyn Any + Send>,
    /// Whether probes may join: the consumer was told that it is attached.
    pub(super) has_begun: bool,
    /// Whether probes join without a call of the consumer.
    pub(super) is_at_once: bool,
    /// Probes that are to join.
    pub(super) waiting: BTreeSet<ProbeId>,
    /// Probes for which the consumer is getting ready, without those that have gone meanwhile.
    pub(super) joining: Vec<ProbeId>,
    /// Own counters of probes that have joined.
    pub(super) counters: Vec<Range<usize>>,
    /// Whether first hits of discovered probes are counted for it.
    pub(super) has_first_hits: bool,
    /// The counters of these hits, some for each probe.
    pub(super) first_hits: Vec<(ProbeId, usize)>,
    /// Probes that could not join, and the last reason.
    left_out: BTreeSet<ProbeId>,
    problem: String,
    begun: Instant,
    /// Probes that were hit before they joined, and when they did.
    late: BTreeMap<ProbeId, Duration>,
}

impl JoinState {
    pub(super) fn new(rule: Rule, room: usize, consumer: Box<dyn Any + Send>) -> Self {
        Self {
            rule,
            room,
            consumer,
            has_begun: false,
            is_at_once: false,
            waiting: BTreeSet::new(),
            joining: Vec::new(),
            counters: Vec::new(),
            has_first_hits: false,
            first_hits: Vec::new(),
            left_out: BTreeSet::new(),
            problem: String::new(),
            begun: Instant::now(),
            late: BTreeMap::new(),
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
    pub(super) fn take_in(&mut self, ids: &[ProbeId]) {
        ids.iter().for_each(|id| _ = self.left_out.remove(id));
    }

    /// Notes the probes among these that were hit before they join now.
    pub(super) fn note_reached(&mut self, ids: &[ProbeId], registry: &Registry) {
        // Their earlier hits are counted.
        if !self.has_first_hits {
            let since = self.begun.elapsed();
            let reached = ids.iter().filter(|id| registry.was_reached(**id));
            reached.for_each(|id| _ = self.late.entry(*id).or_insert(since));
        }
    }

    /// Returns a line about probes that were hit before they joined, if there are any.
    pub(super) fn note_of_late(&self, registry: &Registry, loaded: KeptLoaded<'_>) -> Option<String> {
        const SHOWN: usize = 8;
        let told = |(id, since): (&ProbeId, &Duration)| {
            let definition = registry.definition(*id, loaded)?;
            let seconds = since.as_secs_f64();
            Some(format!("{} {} since {seconds:.3} s", definition.path(), definition.kind().name()))
        };
        let told: Vec<_> = self.late.iter().filter_map(told).collect();
        let more = match told.len().saturating_sub(SHOWN) {
            0 => String::new(),
            more => format!(", and {more} more"),
        };
        (!told.is_empty()).then(|| {
            let shown = told[..told.len().min(SHOWN)].join(", ");
            format!("hit before they could join, so this has a part of their hits: {shown}{more}")
        })
    }

    /// Ends joining, in a forked child: the thread that was at it is not there.
    pub(super) fn cut(&mut self) {
        let ids = mem::take(&mut self.joining);
        if !ids.is_empty() {
            self.has_begun = false;
            self.leave_out(&ids, &Error::Consumer("the process forked while they joined".into()));
        }
    }

    /// Adds the first hits of these probes: those before they joined.
    pub(super) fn add_first_hits(&self, ids: &[ProbeId], counted: &mut [u64]) {
        let counters = || self.first_hits.iter().map(|(_, counter)| *counter);
        let (Some(first), Some(last)) = (counters().min(), counters().max()) else { return };
        let sums = sums(first..last + 1);
        let mut own = BTreeMap::<ProbeId, u64>::new();
        for (id, counter) in &self.first_hits {
            *own.entry(*id).or_default() += sums[counter - first];
        }
        ids.iter().zip(counted).for_each(|(id, counted)| *counted += own.get(id).unwrap_or(&0));
    }

    /// Returns a line about probes that could not join, if there are any.
    pub(super) fn note(&self) -> Option<String> {
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
