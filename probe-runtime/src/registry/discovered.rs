//! The probes that were discovered: not in any object's tables.
//!
//! What is discovered while no object goes is added one by one ([`Registry::add_new`]), and looked at through its discovery, as
//! are real calls. Once there is so much of it that sites side by side are worth a pass over all of them, it becomes sites like all others: a fraction of
//! what there is waits for that, so each site has its share of a few passes.

use std::collections::HashMap;

use super::ProbeId;
use super::loaded::Registry;
use super::named::identity;
use crate::finstrument::{Absorbed, Discovery};
use crate::patch::Site;

/// Discoveries, with their probes.
#[derive(Default)]
pub(super) struct Discovered {
    all: Vec<(ProbeId, &'static Discovery)>,
    /// Those that are looked at one by one: real calls, those that are switched as such, and what is new.
    calls: HashMap<ProbeId, Vec<&'static Discovery>>,
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
    pub(super) fn add(&mut self, id: ProbeId, discovery: &'static Discovery) {
        match discovery.site().filter(|_| discovery.is_settled()) {
            Some(site) => {
                self.list(id, discovery);
                self.sites.push((id, site));
            }
            None => self.add_call(id, discovery),
        }
    }

    fn add_call(&mut self, id: ProbeId, discovery: &'static Discovery) {
        self.list(id, discovery);
        self.calls.entry(id).or_default().push(discovery);
    }

    fn list(&mut self, id: ProbeId, discovery: &'static Discovery) {
        self.all.push((id, discovery));
        discovery.set_probe(id);
    }

    pub(super) fn all(&self) -> &[(ProbeId, &'static Discovery)] {
        &self.all
    }

    /// Those of a probe that are looked at one by one.
    pub(super) fn calls(&self, id: ProbeId) -> &[&'static Discovery] {
        self.calls.get(&id).map_or(&[], Vec::as_slice)
    }

    pub(super) fn has_calls(&self) -> bool {
        !self.calls.is_empty()
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
    pub(super) fn add_new(&mut self, new: &Absorbed) -> Vec<(ProbeId, &'static Discovery)> {
        let mut added = Vec::new();
        for discovery in &new.living {
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
            added.push((id, *discovery));
        }
        if self.discovered.settled > self.grouped.len().max(1_024) / 4 {
            self.grouped.extend(self.discovered.settle().iter().copied());
        }
        added
    }

    /// What was discovered, with its probes.
    pub(crate) fn discovered(&self) -> &[(ProbeId, &'static Discovery)] {
        self.discovered.all()
    }

    /// Whether any probe has sites that are looked at one by one.
    pub(crate) fn has_calls(&self) -> bool {
        self.discovered.has_calls()
    }

    /// What is looked at one by one of neighbouring probes: real calls, calls that are switched as such, and sites that are new.
    pub(crate) fn calls_of_run(
        &self,
        run: std::ops::RangeInclusive<usize>,
    ) -> impl Iterator<Item = &'static Discovery> + '_ {
        let run = Some(run).filter(|_| self.discovered.has_calls());
        run.into_iter().flatten().flat_map(|id| self.discovered.calls(ProbeId::new(id))).copied()
    }
}
