//! Sites of another runtime, which was the first to attach to their definitions.

use std::ptr;

use super::ProbeId;
use super::loaded::Registry;
use super::tables::Tables;
use crate::engine::os::objects::Frozen;
use crate::engine::sites::Site;
use probe_core::abi::Definition;

impl Registry {
    /// Leaves the sites of these definitions to another runtime, until objects are unloaded. Call
    /// this while frozen, right after a refresh.
    #[cold]
    pub(crate) fn leave_out(&mut self, frozen: &Frozen, taken: &[(ProbeId, &Definition)]) {
        let listed: Vec<_> = taken.iter().map(|(id, _)| (*id, self.sites(*id).to_vec())).collect();
        for (_, definition) in taken {
            let addr = ptr::from_ref(*definition).addr();
            self.ranges.iter_mut().for_each(|range| range.forget(addr));
        }
        let objects = std::mem::take(&mut self.objects);
        let tables: Vec<_> =
            objects.iter().filter_map(|object| Tables::of(frozen, object, &objects)).collect();
        // Another runtime's sites can be read, so they don't count as skipped.
        let skipped = self.skipped;
        let found = self.read_sites(&tables);
        self.skipped = skipped;
        self.group_sites(found);
        drop(tables);
        self.objects = objects;
        for (id, sites) in listed {
            let left: Vec<_> = sites.into_iter().filter(|site| !self.sites(id).contains(site)).collect();
            // Other sites of the probe may have been left before.
            self.taken.entry(id).or_default().extend(left);
        }
    }

    /// Returns the sites of a probe that are left to another runtime.
    pub(crate) fn taken(&self, id: ProbeId) -> &[Site] {
        self.taken.get(&id).map_or(&[], Vec::as_slice)
    }
}
