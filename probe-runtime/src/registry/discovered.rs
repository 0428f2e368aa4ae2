//! The probes that were discovered: not in any object's tables.
//!
//! What is discovered while no object goes is added one by one ([`Registry::add_new`]), and looked at through its discovery, as
//! are real calls. Once there is so much of it that sites side by side are worth a pass over all of them, it becomes sites like all others: a fraction of
//! what there is waits for that, so each site has its share of a few passes.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use super::ProbeId;
use super::loaded::Registry;
use super::named::identity;
use super::provider::{self, CallSite, Provider};
use crate::patch::{Access, Report, Site};

/// Discoveries, with their probes.
#[derive(Default)]
pub(super) struct Discovered {
    all: Vec<(ProbeId, &'static dyn CallSite)>,
    /// Those that are looked at one by one: real calls, those that are switched as such, and what is new.
    calls: BTreeMap<ProbeId, Vec<&'static dyn CallSite>>,
    /// How many of these are sites by now.
    settled: usize,
    /// The others.
    sites: Vec<(ProbeId, Site)>,
}

impl Discovered {
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Adds one whose site is about to be grouped, if it is one.
    pub(super) fn add(&mut self, id: ProbeId, discovery: &'static dyn CallSite) {
        match discovery.site().filter(|_| discovery.is_settled()) {
            Some(site) => {
                self.list(id, discovery);
                self.sites.push((id, site));
            }
            None => self.add_call(id, discovery),
        }
    }

    fn add_call(&mut self, id: ProbeId, discovery: &'static dyn CallSite) {
        self.list(id, discovery);
        self.calls.entry(id).or_default().push(discovery);
    }

    fn list(&mut self, id: ProbeId, discovery: &'static dyn CallSite) {
        self.all.push((id, discovery));
        discovery.set_probe(id);
    }

    pub(super) fn all(&self) -> &[(ProbeId, &'static dyn CallSite)] {
        &self.all
    }

    /// Those of a probe that are looked at one by one.
    pub(super) fn calls(&self, id: ProbeId) -> &[&'static dyn CallSite] {
        self.calls.get(&id).map_or(&[], Vec::as_slice)
    }

    /// The sites of the others, with their probes.
    pub(super) fn sites(&self) -> &[(ProbeId, Site)] {
        &self.sites
    }

    /// Takes the sites out of those that are looked at one by one; returns them.
    fn settle(&mut self) -> &[(ProbeId, Site)] {
        self.settled = 0;
        let known = self.sites.len();
        let sites = &mut self.sites;
        self.calls.retain(|id, calls| {
            calls.retain(|call| {
                let site = call.site().filter(|_| call.is_settled());
                sites.extend(site.map(|site| (*id, site)));
                site.is_none()
            });
            !calls.is_empty()
        });
        &self.sites[known..]
    }
}

impl Registry {
    /// Adds what was discovered while no object has gone; returns what was not there yet.
    pub(super) fn add_new(
        &mut self,
        living: &[&'static dyn CallSite],
    ) -> Vec<(ProbeId, &'static dyn CallSite)> {
        let mut added = Vec::new();
        for &discovery in living {
            if discovery.is_settled() {
                self.discovered.settled += 1;
            }
            let Some(definition) = discovery.definition().filter(|_| discovery.probe().is_none()) else {
                continue;
            };
            let next = ProbeId::new(self.len());
            let id = *self.identities.entry(identity(definition)).or_insert(next);
            if id == next {
                self.add_probe();
            }
            self.define(id, definition);
            self.discovered.add_call(id, discovery);
            added.push((id, discovery));
        }
        if self.discovered.settled > self.grouped.len().max(1_024) / 4 {
            self.grouped.extend(self.discovered.settle().iter().copied());
        }
        added
    }

    /// What was discovered, with its probes.
    pub(crate) fn discovered(&self) -> &[(ProbeId, &'static dyn CallSite)] {
        self.discovered.all()
    }

    /// Whether something was discovered that an attachment may not have opened the text of.
    #[inline(always)]
    pub(crate) fn has_discovered(&self) -> bool {
        provider::IS_POSSIBLE && !self.discovered.all.is_empty()
    }

    /// Whether any probe has sites that are looked at one by one.
    #[inline(always)]
    pub(crate) fn has_calls(&self) -> bool {
        provider::IS_POSSIBLE && !self.discovered.calls.is_empty()
    }

    /// What is looked at one by one of neighbouring probes: real calls, calls that are switched as such, and sites that are new.
    pub(crate) fn calls_of_run(
        &self,
        run: RangeInclusive<usize>,
    ) -> impl Iterator<Item = &'static dyn CallSite> + '_ {
        let run = ProbeId::new(*run.start())..=ProbeId::new(*run.end());
        self.discovered.calls.range(run).flat_map(|(_, calls)| calls).copied()
    }

    /// Switches what is looked at one by one of these probes.
    #[inline(never)]
    pub(crate) fn switch_calls(
        &self,
        runs: &[RangeInclusive<usize>],
        active: bool,
        access: Access,
        report: &mut Report,
    ) {
        let calls: Vec<_> = runs.iter().flat_map(|run| self.calls_of_run(run.clone())).collect();
        if let Some(provider) = &self.provider {
            provider.switch(&calls, active, access, report);
        }
    }

    /// Who has found something, if anybody has.
    pub(crate) fn provider(&mut self) -> Option<&mut dyn Provider> {
        self.provider.as_deref_mut().map(|provider| provider as _)
    }

    /// Has names given to what was found since the last time. Before objects are frozen and
    /// [refreshed](Self::refresh), which takes in what has a name.
    pub(crate) fn name_pending(&mut self) {
        if let Some((entry, is_all)) = provider::take_noted() {
            self.provider.get_or_insert_with(entry.begin).name_pending(is_all);
        }
    }
}
