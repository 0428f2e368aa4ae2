//! Sites, grouped by probe: those of neighbouring probes lie side by side.
//!
//! Cost: 16 bytes a site, 4 a probe; each change is a pass over all.

use super::ProbeId;
use crate::patch::{Instruction, Site, SiteAddr};

/// The sites of all probes.
#[derive(Default)]
pub(super) struct Grouped {
    /// In the order in which they came within a group, which is ascending as the linker laid them out.
    sites: Vec<Site>,
    /// Where each probe's sites start, and, last, where all end.
    starts: Vec<u32>,
}

impl Grouped {
    /// Groups what `all` gives, each time the same, by a counting sort.
    pub(super) fn new<I, T>(probes: usize, all: impl Fn() -> I, site: impl Fn(T) -> Site) -> Self
    where
        I: Iterator<Item = (ProbeId, T)>,
    {
        let mut next = vec![0_u32; probes + 1];
        all().for_each(|(id, _)| next[id.index() + 1] += 1);
        for at in 1..next.len() {
            next[at] += next[at - 1];
        }
        let starts = next.clone();
        let total = starts[probes] as usize;
        let mut sites = vec![Site::new(SiteAddr(0), Instruction::NOP5); total];
        for (id, found) in all() {
            let next = &mut next[id.index()];
            sites[*next as usize] = site(found);
            *next += 1;
        }
        Self { sites, starts }
    }

    /// The sites of neighbouring probes.
    #[inline]
    pub(super) fn of_run(&self, first: ProbeId, last: ProbeId) -> &[Site] {
        &self.sites[self.starts[first.index()] as usize..self.starts[last.index() + 1] as usize]
    }

    /// A probe's sites, with their places in the list.
    #[inline]
    pub(super) fn places(&self, id: ProbeId) -> impl Iterator<Item = (u32, &Site)> {
        (self.starts[id.index()]..).zip(self.of_run(id, id))
    }

    /// The site at a place.
    #[inline]
    pub(super) fn site(&self, at: u32) -> Site {
        self.sites[at as usize]
    }

    /// The site at a place, to give it a block.
    #[inline]
    pub(super) fn site_mut(&mut self, at: u32) -> &mut Site {
        &mut self.sites[at as usize]
    }

    /// A probe's sites, to give them blocks.
    pub(super) fn sites_mut(&mut self, id: ProbeId) -> &mut [Site] {
        let (start, end) = (self.starts[id.index()], self.starts[id.index() + 1]);
        &mut self.sites[start as usize..end as usize]
    }

    /// All sites.
    pub(super) fn all(&self) -> &[Site] {
        &self.sites
    }

    /// Adds a probe without sites.
    pub(super) fn add_probe(&mut self) {
        self.starts.push(self.starts.last().copied().unwrap_or_default());
    }

    /// Adds sites to those of their probes.
    pub(super) fn extend(&mut self, sites: &[(ProbeId, Site)]) {
        let probes = self.starts.len() - 1;
        let known =
            (0..probes).map(ProbeId::new).flat_map(|id| self.of_run(id, id).iter().map(move |it| (id, *it)));
        *self = Self::new(probes, || known.clone().chain(sites.iter().copied()), |site| site);
    }

    /// How many there are.
    #[cfg(any(probe_discovers, test))]
    pub(super) fn len(&self) -> usize {
        self.sites.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
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
            let mut grouped = Grouped::new(9, || first.iter().copied(), |site| site);
            grouped.add_probe();
            grouped.extend(&later);
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
