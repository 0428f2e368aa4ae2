//! Discovered probes, which no object's table lists.
//!
//! While no object is unloaded, each discovery is added by itself ([`Registry::add_new`]), and
//! operations look at it one by one, as at a real call. Once more than 256 of these are settled
//! sites, and they are more than a quarter as many as the grouped sites, a pass groups them with
//! the others. So each site has its share of a few passes.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use super::ProbeId;
use super::loaded::Registry;
use super::named::identity;
use super::provider::{self, CallSite, Provider};
use crate::patch::{Access, Report, Site};

/// Discoveries, with their probes.
#[derive(Default)]
pub(super) struct Discoveries {
    all: Vec<(ProbeId, &'static dyn CallSite)>,
    /// Discoveries that operations look at one by one: real calls, calls that are switched as such,
    /// and new sites.
    calls: BTreeMap<ProbeId, Vec<&'static dyn CallSite>>,
    /// The number of these that are settled sites.
    settled: usize,
    /// The sites of all other discoveries.
    sites: Vec<(ProbeId, Site)>,
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

    /// Returns the discoveries of a probe that operations look at one by one.
    pub(super) fn calls(&self, id: ProbeId) -> &[&'static dyn CallSite] {
        self.calls.get(&id).map_or(&[], Vec::as_slice)
    }

    /// Returns the sites of all other discoveries, with their probes.
    pub(super) fn sites(&self) -> &[(ProbeId, Site)] {
        &self.sites
    }

    /// Moves settled sites from `calls` to `sites`; returns them.
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
    /// Adds discoveries while no object has gone; returns those that are new.
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

    /// Returns all discoveries, with their probes.
    pub(crate) fn discovered(&self) -> &[(ProbeId, &'static dyn CallSite)] {
        self.discovered.all()
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
    ) {
        let calls: Vec<_> = runs.iter().flat_map(|run| self.calls_of_run(run.clone())).collect();
        if let Some(provider) = &self.provider {
            provider.switch(&calls, active, access, report);
        }
    }

    /// Returns the provider, once an operation has made it.
    pub(crate) fn provider(&mut self) -> Option<&mut dyn Provider> {
        self.provider.as_deref_mut().map(|provider| provider as _)
    }

    /// Names new discoveries. Runs before objects are frozen and [refreshed](Self::refresh), which
    /// lists named discoveries.
    pub(crate) fn name_pending(&mut self) {
        if let Some((entry, is_all)) = provider::take_noted() {
            self.provider.get_or_insert_with(entry.begin).name_pending(is_all);
        }
    }
}

#[cfg(all(test, probe_discovers))]
mod tests {
    use std::ops::Range;
    use std::sync::Arc;
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::abi::{Definition, Kind};
    use crate::dispatch::Subscription;
    use crate::os::objects::Frozen;
    use crate::registry::provider::{Due, Findings, RetiredMemory};

    /// A real call, which is never settled.
    struct Call(Definition, AtomicUsize);

    impl Call {
        const fn new(line: u32) -> Self {
            Self(Definition::new(Kind::Entry, "a::b", "a::b", "", "", line, 1), AtomicUsize::new(0))
        }
    }

    impl CallSite for Call {
        fn definition(&'static self) -> Option<&'static Definition> {
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

        fn probe(&self) -> Option<ProbeId> {
            self.1.load(Ordering::Relaxed).checked_sub(1).map(ProbeId::new)
        }

        fn set_probe(&self, id: ProbeId) {
            self.1.store(id.index() + 1, Ordering::Relaxed);
        }

        fn counter(&self) -> Option<usize> {
            None
        }
    }

    /// Notes the probes of each batch.
    struct Batches(Arc<Mutex<Vec<Vec<usize>>>>);

    impl Provider for Batches {
        fn name_pending(&mut self, _is_all: bool) {}

        fn patch_pending(&mut self, _frozen: &Frozen) -> Due {
            Due::Nothing
        }

        fn find(&mut self, _frozen: &Frozen, _is_all: bool) -> Findings {
            Findings::default()
        }

        fn switch(&self, calls: &[&'static dyn CallSite], _: bool, _: Access, _: &mut Report) {
            let probes = calls.iter().filter_map(|call| Some(call.probe()?.index()));
            self.0.lock().unwrap().push(probes.collect());
        }

        fn begin_growing(&mut self, _: Arc<Subscription>, _: Range<usize>) {}

        fn is_growing(&self) -> bool {
            false
        }

        fn pause_growing(&mut self, _is_paused: bool) {}

        fn take_counter(&mut self, _call: &'static dyn CallSite) -> Option<usize> {
            None
        }

        fn take_hooks(&mut self, _calls: &[&'static dyn CallSite]) -> Option<RetiredMemory> {
            None
        }

        fn end_growing(&mut self) -> Option<RetiredMemory> {
            None
        }
    }

    #[test]
    fn the_calls_of_several_runs_are_one_batch() {
        static CALLS: [Call; 5] = [Call::new(1), Call::new(2), Call::new(1), Call::new(3), Call::new(4)];
        let batches = Arc::new(Mutex::new(Vec::new()));
        let provider = Some(Box::new(Batches(Arc::clone(&batches))) as _);
        let mut registry = Registry { provider, ..Registry::default() };
        let calls: Vec<_> = CALLS.iter().map(|call| call as &dyn CallSite).collect();
        let ids: Vec<_> = registry.add_new(&calls).iter().map(|(id, _)| id.index()).collect();
        assert_eq!(ids, [0, 1, 0, 2, 3], "the first and the third have one identity");
        assert_eq!((registry.len(), registry.site_count(ProbeId::new(0))), (4, 4));
        assert!(registry.add_new(&calls).is_empty(), "all are known");
        registry.switch_calls(&[0..=0, 2..=9], true, Access::ByRun, &mut Report::default());
        assert_eq!(*batches.lock().unwrap(), [[0, 0, 2, 3]]);
    }
}
