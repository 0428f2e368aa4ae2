//! The probes that were discovered: not in any object's tables.

use std::collections::HashMap;

use super::ProbeId;
use crate::finstrument::Discovery;
use crate::patch::Site;

/// Discoveries, with their probes.
#[derive(Default)]
pub(super) struct Discovered {
    all: Vec<(ProbeId, &'static Discovery)>,
    /// Those that have no bytes to switch: real calls.
    calls: HashMap<ProbeId, Vec<&'static Discovery>>,
}

impl Discovered {
    pub(super) fn clear(&mut self) {
        self.all.clear();
        self.calls.clear();
    }

    pub(super) fn add(&mut self, id: ProbeId, discovery: &'static Discovery) {
        self.all.push((id, discovery));
        if !discovery.is_settled() {
            self.calls.entry(id).or_default().push(discovery);
        }
    }

    pub(super) fn all(&self) -> &[(ProbeId, &'static Discovery)] {
        &self.all
    }

    /// The real calls of a probe.
    pub(super) fn calls(&self, id: ProbeId) -> &[&'static Discovery] {
        self.calls.get(&id).map_or(&[], Vec::as_slice)
    }

    pub(super) fn has_calls(&self) -> bool {
        !self.calls.is_empty()
    }

    /// The sites, with their probes.
    pub(super) fn sites(&self) -> impl Iterator<Item = (ProbeId, Site)> + '_ {
        self.all.iter().filter_map(|(id, discovery)| {
            let is_call = self.calls(*id).iter().any(|call| std::ptr::eq(*call, *discovery));
            Some((*id, discovery.site().filter(|_| !is_call)?))
        })
    }
}
