//! The lists of discoveries, with their probes.

use std::collections::{BTreeMap, BTreeSet};

use super::ProbeId;
use super::provider::{self, CallSite};
use crate::engine::sites::Site;

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
