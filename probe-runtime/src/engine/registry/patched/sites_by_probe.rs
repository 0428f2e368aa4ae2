//! Sites, grouped by probe. The sites of neighbouring probes lie side by side.
//!
//! Cost: 16 bytes a site and 4 a probe. Each change is a pass over all sites, with 4 more bytes a
//! site.

use std::iter;

use super::ProbeId;
use crate::engine::sites::Site;

/// The sites of all probes.
#[derive(Default)]
pub(super) struct SitesByProbe {
    /// Within a group, sites keep the order of the tables; the linker lays them out ascending.
    pub(super) sites: Vec<Site>,
    /// The place at which each probe's sites start, then the place at which all sites end.
    starts: Vec<u32>,
}

/// Sites in the order in which they were found, with their probes.
#[derive(Default)]
pub(super) struct UngroupedSites {
    ids: Vec<ProbeId>,
    sites: Vec<Site>,
}

impl UngroupedSites {
    /// Returns an empty list with room for `capacity` sites.
    pub(super) fn with_capacity(capacity: usize) -> Self {
        Self { ids: Vec::with_capacity(capacity), sites: Vec::with_capacity(capacity) }
    }

    #[inline]
    pub(super) fn push(&mut self, id: ProbeId, site: Site) {
        self.ids.push(id);
        self.sites.push(site);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }
}

impl IntoIterator for UngroupedSites {
    type Item = (ProbeId, Site);
    type IntoIter = iter::Zip<std::vec::IntoIter<ProbeId>, std::vec::IntoIter<Site>>;

    fn into_iter(self) -> Self::IntoIter {
        self.ids.into_iter().zip(self.sites)
    }
}

impl SitesByProbe {
    /// Groups the sites by a stable counting sort, in place.
    pub(super) fn new(probes: usize, found: UngroupedSites) -> Self {
        let UngroupedSites { ids, mut sites } = found;
        // Before the last pass, a probe's start is the place of its next site, stored one entry
        // later.
        let mut starts = vec![0_u32; probes + 2];
        ids.iter().for_each(|id| starts[id.index() + 2] += 1);
        let mut sum = 0;
        for start in &mut starts {
            sum += *start;
            *start = sum;
        }
        let place = |id: ProbeId| {
            let next = &mut starts[id.index() + 1];
            *next += 1;
            *next - 1
        };
        let mut places: Vec<u32> = ids.into_iter().map(place).collect();
        starts.truncate(probes + 1);
        for at in 0..sites.len() {
            // Each exchange moves one site to its place.
            while places[at] as usize != at {
                let place = places[at] as usize;
                sites.swap(at, place);
                places.swap(at, place);
            }
        }
        Self { sites, starts }
    }

    /// Returns the sites of neighbouring probes.
    #[inline]
    pub(super) fn of_run(&self, first: ProbeId, last: ProbeId) -> &[Site] {
        &self.sites[self.starts[first.index()] as usize..self.starts[last.index() + 1] as usize]
    }

    /// Returns a probe's sites, with their places in the list.
    #[inline]
    pub(super) fn places(&self, id: ProbeId) -> impl Iterator<Item = (u32, &Site)> {
        (self.starts[id.index()]..).zip(self.of_run(id, id))
    }

    #[inline]
    pub(super) fn site(&self, at: u32) -> Site {
        self.sites[at as usize]
    }

    /// Returns the site at a place, for setting its block.
    #[inline]
    pub(super) fn site_mut(&mut self, at: u32) -> &mut Site {
        &mut self.sites[at as usize]
    }

    /// Returns a probe's sites, for setting their blocks.
    pub(super) fn sites_mut(&mut self, id: ProbeId) -> &mut [Site] {
        let (start, end) = (self.starts[id.index()], self.starts[id.index() + 1]);
        &mut self.sites[start as usize..end as usize]
    }

    /// Adds a probe without sites.
    pub(super) fn add_probe(&mut self) {
        self.starts.push(self.starts.last().copied().unwrap_or_default());
    }

    /// Adds sites to those of their probes.
    pub(super) fn extend(&mut self, new: impl IntoIterator<Item = (ProbeId, Site)>) {
        let probes = self.starts.len() - 1;
        let ids = (0..probes).map(ProbeId::new).flat_map(|id| iter::repeat_n(id, self.of_run(id, id).len()));
        let mut found = UngroupedSites { ids: ids.collect(), sites: std::mem::take(&mut self.sites) };
        new.into_iter().for_each(|(id, site)| found.push(id, site));
        *self = Self::new(probes, found);
    }

    /// Returns the number of sites.
    pub(super) fn len(&self) -> usize {
        self.sites.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::sites::{Instruction, SiteAddr};
    use proptest::prelude::*;

    fn site(addr: usize) -> Site {
        Site::new(SiteAddr(addr), Instruction::NOP5)
    }

    proptest! {
        #[test]
        fn each_probe_has_its_sites_in_their_order(
            first in prop::collection::vec(0_usize..9, 0..40),
            later in prop::collection::vec(0_usize..10, 0..40),
        ) {
            let numbered = |ids: &[usize], base: usize| -> Vec<_> {
                (ids.iter().enumerate()).map(|(at, id)| (ProbeId::new(*id), site(base + at))).collect()
            };
            let (first, later) = (numbered(&first, 0), numbered(&later, 100));
            let mut found = UngroupedSites::default();
            first.iter().for_each(|(id, site)| found.push(*id, *site));
            let mut grouped = SitesByProbe::new(9, found);
            grouped.add_probe();
            grouped.extend(later.iter().copied());
            prop_assert_eq!(grouped.len(), first.len() + later.len());
            for id in (0..10).map(ProbeId::new) {
                let own = first.iter().chain(&later).filter(|(of, _)| *of == id).map(|(_, site)| *site);
                prop_assert_eq!(grouped.of_run(id, id), own.collect::<Vec<_>>());
            }
            let all = grouped.of_run(ProbeId::new(0), ProbeId::new(9));
            prop_assert_eq!(all.len(), grouped.len());
        }
    }
}
