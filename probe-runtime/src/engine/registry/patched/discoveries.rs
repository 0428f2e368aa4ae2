//! Discovered probes, which no object's table lists.
//!
//! While no object is unloaded, each discovery is added by itself ([`Registry::add_new`]), and
//! operations look at it one by one, as at a real call. Once more than 256 of these are settled
//! sites, and they are more than a quarter as many as the grouped sites, a pass groups them with
//! the others. So each site has its share of a few passes.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;

use super::definitions::identity;
use super::provider::{self, CallSite, Provider};
use super::{ProbeId, Registry};
use crate::engine::os::objects::{Frozen, KeptLoaded};
use crate::engine::sites::{Access, Report, Site};

/// All discoveries, those that operations look at one by one, and the sites of the others.
#[derive(Default)]
pub(super) struct Discoveries {
    pub(super) all: Vec<(ProbeId, &'static dyn CallSite)>,
    /// Discoveries that operations look at one by one: real calls, calls that are switched as such,
    /// and new sites.
    pub(super) calls: BTreeMap<ProbeId, Vec<&'static dyn CallSite>>,
    /// The number of these that are settled sites.
    pub(super) settled: usize,
    /// The sites of all other discoveries.
    sites: Vec<(ProbeId, Site)>,
    /// The probes of discoveries that hits have found.
    reached: BTreeSet<ProbeId>,
}

impl Discoveries {
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Adds a discovery. The caller is about to group its site, if it is a settled one.
    pub(super) fn add(&mut self, id: ProbeId, discovery: &'static dyn CallSite) {
        match discovery.site().filter(|_| discovery.is_settled()) {
            Some(site) => {
                self.list(id, discovery);
                self.sites.push((id, site));
            }
            None => self.add_call(id, discovery),
        }
    }

    pub(super) fn add_call(&mut self, id: ProbeId, discovery: &'static dyn CallSite) {
        self.list(id, discovery);
        self.calls.entry(id).or_default().push(discovery);
    }

    fn list(&mut self, id: ProbeId, discovery: &'static dyn CallSite) {
        self.all.push((id, discovery));
        if discovery.was_reached() {
            self.reached.insert(id);
        }
        discovery.set_probe(id);
    }

    /// Returns the discoveries of a probe that operations look at one by one.
    pub(super) fn calls(&self, id: ProbeId) -> &[&'static dyn CallSite] {
        if !provider::IS_POSSIBLE {
            return &[];
        }
        self.calls.get(&id).map_or(&[], Vec::as_slice)
    }

    /// Returns whether a hit has found a probe.
    pub(super) fn was_reached(&self, id: ProbeId) -> bool {
        provider::IS_POSSIBLE && self.reached.contains(&id)
    }

    /// Returns the sites of all other discoveries, with their probes.
    pub(super) fn sites(&self) -> &[(ProbeId, Site)] {
        &self.sites
    }

    /// Moves settled sites from `calls` to `sites`; returns them.
    pub(super) fn settle(&mut self) -> &[(ProbeId, Site)] {
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
    /// Adds discoveries while no object has gone; returns those that are new.
    pub(super) fn add_new(
        &mut self,
        frozen: &Frozen,
        living: &[&'static dyn CallSite],
    ) -> Vec<(ProbeId, &'static dyn CallSite)> {
        let mut added = Vec::new();
        if !provider::IS_POSSIBLE {
            return added;
        }
        for &discovery in living {
            if discovery.is_settled() {
                self.discovered.settled += 1;
            }
            let Some(definition) = discovery.definition(frozen).filter(|_| discovery.probe().is_none())
            else {
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
        if self.discovered.settled > self.sites_by_probe.len().max(1_024) / 4 {
            self.sites_by_probe.extend(self.discovered.settle().iter().copied());
        }
        added
    }

    pub(crate) fn discovered(&self) -> &[(ProbeId, &'static dyn CallSite)] {
        &self.discovered.all
    }

    /// Returns the discoveries of a probe that operations look at one by one.
    #[cfg(probe_values)]
    pub(crate) fn calls(&self, id: ProbeId) -> &[&'static dyn CallSite] {
        self.discovered.calls(id)
    }

    /// Returns the probes of all discoveries.
    pub(crate) fn discovered_ids(&self) -> impl Iterator<Item = ProbeId> + '_ {
        self.discovered.all.iter().map(|(id, _)| *id)
    }

    /// Returns the discoveries of these probes, which ascend.
    pub(crate) fn calls_of(&self, ids: &[ProbeId]) -> impl Iterator<Item = &'static dyn CallSite> {
        self.discovered.all.iter().filter(|(id, _)| ids.binary_search(id).is_ok()).map(|(_, call)| *call)
    }

    /// Returns whether a hit has found a probe, so that others may have passed before it joined.
    pub(crate) fn was_reached(&self, id: ProbeId) -> bool {
        self.discovered.was_reached(id)
    }

    /// Returns whether there are discoveries, whose text an attachment may not have opened.
    #[inline(always)]
    pub(crate) fn has_discovered(&self) -> bool {
        provider::IS_POSSIBLE && !self.discovered.all.is_empty()
    }

    /// Returns whether any discovery is looked at one by one.
    #[inline(always)]
    pub(crate) fn has_calls(&self) -> bool {
        provider::IS_POSSIBLE && !self.discovered.calls.is_empty()
    }

    /// Returns the discoveries of neighbouring probes that operations look at one by one: real
    /// calls, calls that are switched as such, and new sites.
    pub(crate) fn calls_of_run(
        &self,
        run: RangeInclusive<usize>,
    ) -> impl Iterator<Item = &'static dyn CallSite> + '_ {
        let run = ProbeId::new(*run.start())..=ProbeId::new(*run.end());
        self.discovered.calls.range(run).flat_map(|(_, calls)| calls).copied()
    }

    /// Switches the discoveries of these probes that operations look at one by one.
    #[inline(never)]
    pub(crate) fn switch_calls(
        &self,
        runs: &[RangeInclusive<usize>],
        active: bool,
        access: Access,
        report: &mut Report,
        loaded: KeptLoaded<'_>,
    ) {
        let calls: Vec<_> = runs.iter().flat_map(|run| self.calls_of_run(run.clone())).collect();
        self.providers.switch(&calls, active, access, report, loaded);
    }

    /// Returns the providers as one, once an operation has made some.
    pub(crate) fn provider(&mut self) -> Option<&mut dyn Provider> {
        let is_any = provider::IS_POSSIBLE && !self.providers.is_empty();
        is_any.then_some(&mut self.providers as _)
    }

    /// Names new discoveries. Runs before objects are frozen and [refreshed](Self::refresh), which
    /// lists named discoveries.
    pub(crate) fn name_pending(&mut self) {
        let noted = provider::take_noted();
        if noted.is_some() {
            self.providers.begin_registered();
        }
        let Some(provider) = self.provider() else { return };
        let has_found = provider.look_ahead();
        if noted.is_some() || has_found {
            provider.name_pending(noted.unwrap_or_default());
        }
    }
}

#[cfg(all(test, probe_discovers))]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;
    use crate::engine::os::objects::freeze;
    use crate::engine::registry::provider::{Due, Findings, ListedProbe, Providers};
    use probe_core::abi::{Definition, Kind};

    /// A real call, which is never settled.
    struct Call(Definition, ListedProbe);

    impl Call {
        const fn new(line: u32) -> Self {
            Self(Definition::new(Kind::Entry, "a::b", "a::b", "", "", line, 1), ListedProbe::new())
        }
    }

    impl CallSite for Call {
        fn definition<'a>(&'static self, _frozen: &'a Frozen) -> Option<&'a Definition> {
            Some(&self.0)
        }

        fn site(&'static self) -> Option<Site> {
            None
        }

        fn is_settled(&self) -> bool {
            false
        }

        fn places(&self) -> usize {
            2
        }

        fn was_reached(&self) -> bool {
            true
        }

        fn probe(&self) -> Option<ProbeId> {
            self.1.get()
        }

        fn set_probe(&self, id: ProbeId) {
            self.1.set(id);
        }

        fn counter(&self) -> Option<usize> {
            None
        }
    }

    /// Notes the probes of each batch.
    struct Batches(Arc<Mutex<Vec<Vec<usize>>>>);

    impl Provider for Batches {
        fn look_ahead(&mut self) -> bool {
            false
        }

        fn name_pending(&mut self, _is_all: bool) {}

        fn patch_pending(&mut self, _frozen: &Frozen) -> Due {
            Due::Nothing
        }

        fn find(&mut self, _frozen: &Frozen, _is_all: bool) -> Findings {
            Findings::default()
        }

        fn switch(
            &self,
            calls: &[&'static dyn CallSite],
            _: bool,
            _: Access,
            _: &mut Report,
            _: KeptLoaded<'_>,
        ) {
            let probes = calls.iter().filter_map(|call| Some(call.probe()?.index()));
            self.0.lock().unwrap().push(probes.collect());
        }
    }

    #[test]
    fn the_calls_of_several_runs_are_one_batch() {
        static CALLS: [Call; 5] = [Call::new(1), Call::new(2), Call::new(1), Call::new(3), Call::new(4)];
        let batches = Arc::new(Mutex::new(Vec::new()));
        let providers = Providers::of(Box::new(Batches(Arc::clone(&batches))));
        let mut registry = Registry { providers, ..Registry::default() };
        let calls: Vec<_> = CALLS.iter().map(|call| call as &dyn CallSite).collect();
        let added = freeze(|frozen| registry.add_new(frozen, &calls));
        let ids: Vec<_> = added.iter().map(|(id, _)| id.index()).collect();
        assert_eq!(ids, [0, 1, 0, 2, 3], "the first and the third have one identity");
        assert_eq!((registry.len(), registry.site_count(ProbeId::new(0))), (4, 4));
        assert!(freeze(|frozen| registry.add_new(frozen, &calls)).is_empty(), "all are known");
        let (mut report, loaded) = (Report::default(), registry.kept_loaded().unwrap());
        registry.switch_calls(&[0..=0, 2..=9], true, Access::ByRun, &mut report, loaded);
        assert_eq!(*batches.lock().unwrap(), [[0, 0, 2, 3]]);
    }
}
