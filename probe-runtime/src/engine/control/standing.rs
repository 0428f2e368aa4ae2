//! Standing attachments: the rule that chooses their probes, and those that are to join.

use std::any::Any;
use std::collections::{BTreeMap, BTreeSet};
use std::mem;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::counters::sums;
use crate::engine::error::Error;
use crate::engine::os::objects::KeptLoaded;
use crate::engine::registry::{ProbeId, Registry};
use probe_lang::selector::{NamedTerms, Selector};

/// Chooses the probes of a standing attachment.
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
pub(super) struct Standing {
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

impl Standing {
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
