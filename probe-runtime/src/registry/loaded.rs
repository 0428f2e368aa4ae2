//! The registry where sites are patched: from the tables of all loaded objects.

use std::collections::HashMap;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::ops::Range;

use super::tables::Tables;
use super::{Probe, ProbeId};
use crate::abi::{Definition, NOTE_OWNER, NOTE_TYPE};
use crate::os::objects::{self, Generation, Object};
use crate::patch::Site;

/// All probes and sites of the loaded objects.
#[derive(Default)]
pub(crate) struct Registry {
    generation: Generation,
    objects: Vec<Object>,
    probes: Vec<Probe>,
    /// Grouped by probe; ascending within a group as the linker laid them out.
    sites: Vec<Site>,
    ranges: Vec<DefinitionRange>,
    /// The probes by what tells them apart, once there is more than one object. A hash, since the text goes
    /// away with its object.
    identities: HashMap<u64, ProbeId>,
    skipped: usize,
}

/// The definitions of one object, and their probes.
struct DefinitionRange {
    range: Range<usize>,
    ids: Vec<ProbeId>,
}

impl DefinitionRange {
    fn id_of(&self, definition: usize) -> Option<ProbeId> {
        let offset = definition.checked_sub(self.range.start)?;
        let is_whole = offset % size_of::<Definition>() == 0;
        let id = is_whole.then(|| self.ids.get(offset / size_of::<Definition>()).copied())??;
        (id != ProbeId::UNKNOWN).then_some(id)
    }
}

fn identity(definition: &Definition) -> u64 {
    let mut hasher = DefaultHasher::new();
    definition.identity().hash(&mut hasher);
    hasher.finish()
}

impl Registry {
    /// Looks for objects that came or went. Returns whether the lists have changed.
    pub(crate) fn refresh(&mut self) -> bool {
        if objects::generation() == self.generation {
            return false;
        }
        let (generation, objects) = objects::loaded(NOTE_OWNER, NOTE_TYPE);
        self.generation = generation;
        if objects == self.objects {
            return false;
        }
        self.rebuild(objects);
        true
    }

    fn rebuild(&mut self, objects: Vec<Object>) {
        let tables: Vec<_> = objects.iter().filter_map(Tables::of).collect();
        self.name_probes(&tables);
        let found = self.read_sites(&tables);
        self.group_sites(&found);
        drop(tables);
        self.objects = objects;
    }

    /// Gives each definition its id: the one that its identity had before, or a new one.
    fn name_probes(&mut self, tables: &[Tables<'_>]) {
        // With the executable alone, addresses are identity enough, and no text needs to be read.
        let compare = tables.len() > 1 || !self.identities.is_empty() || self.ranges.len() > 1;
        let old = std::mem::take(&mut self.ranges);
        for probe in &mut self.probes {
            probe.forget_definitions();
        }
        for tables in tables {
            let range = tables.definition_range();
            // The executable is never unloaded, so its addresses keep their meaning.
            let same = old.iter().find(|old| tables.is_main() && old.range == range);
            let mut ids = vec![ProbeId::UNKNOWN; range.len() / size_of::<Definition>()];
            for definition in tables.definitions() {
                let addr = std::ptr::from_ref(definition).addr();
                let identity = compare.then(|| identity(definition));
                let known = same
                    .and_then(|old| old.id_of(addr))
                    .or_else(|| identity.and_then(|identity| self.identities.get(&identity).copied()));
                let id = if let Some(id) = known {
                    self.probes[id.index()].add_copy(definition);
                    id
                } else {
                    self.probes.push(Probe::new(definition));
                    ProbeId::new(self.probes.len() - 1)
                };
                if let Some(identity) = identity {
                    self.identities.insert(identity, id);
                }
                ids[(addr - range.start) / size_of::<Definition>()] = id;
            }
            self.ranges.push(DefinitionRange { range, ids });
        }
    }

    /// Reads all records; a site whose definition is in no table is skipped.
    fn read_sites(&mut self, tables: &[Tables<'_>]) -> Vec<(ProbeId, Site)> {
        let mut found = Vec::with_capacity(tables.iter().map(Tables::capacity).sum());
        let mut skipped = 0;
        for (own, tables) in tables.iter().enumerate() {
            skipped += tables.for_each_site(|site| {
                let id = self.ranges[own]
                    .id_of(site.definition)
                    .or_else(|| self.ranges.iter().find_map(|range| range.id_of(site.definition)));
                match id {
                    Some(id) => found.push((id, site.site)),
                    None => skipped += 1,
                }
            });
        }
        self.skipped = skipped;
        found
    }

    /// Sorts the sites by probe, keeping their order otherwise (a counting sort).
    fn group_sites(&mut self, found: &[(ProbeId, Site)]) {
        let mut ends = vec![0_u32; self.probes.len() + 1];
        for (id, _) in found {
            ends[id.index() + 1] += 1;
        }
        for at in 1..ends.len() {
            ends[at] += ends[at - 1];
        }
        for (probe, bounds) in self.probes.iter_mut().zip(ends.windows(2)) {
            probe.sites = bounds[0]..bounds[1];
        }
        self.sites = found.iter().map(|(_, site)| *site).collect();
        for (id, site) in found {
            let next = &mut ends[id.index()];
            self.sites[*next as usize] = *site;
            *next += 1;
        }
    }

    pub(crate) fn probes(&self) -> &[Probe] {
        &self.probes
    }

    /// The sites of one probe.
    #[inline]
    pub(crate) fn sites(&self, id: ProbeId) -> &[Site] {
        let range = &self.probes[id.index()].sites;
        &self.sites[range.start as usize..range.end as usize]
    }

    /// How many machine-code copies a probe has.
    pub(crate) fn site_count(&self, id: ProbeId) -> usize {
        self.sites(id).len()
    }

    /// The sites of neighbouring probes, which lie side by side.
    pub(crate) fn sites_of_run(&self, first: ProbeId, last: ProbeId) -> &[Site] {
        let (start, end) = (self.probes[first.index()].sites.start, self.probes[last.index()].sites.end);
        &self.sites[start as usize..end as usize]
    }

    /// Records that this reader could not understand: damaged, or newer than it.
    pub(crate) fn skipped(&self) -> usize {
        self.skipped
    }

    /// The text segments that hold these sites.
    pub(crate) fn text_of(&self, sites: &[Site]) -> Vec<Range<usize>> {
        let texts = self.objects.iter().flat_map(|object| &object.segments).filter(|segment| segment.is_text);
        texts
            .map(|segment| segment.range.clone())
            .filter(|text| sites.iter().any(|site| text.contains(&site.addr.0)))
            .collect()
    }

    /// Whether a text segment is still loaded.
    pub(crate) fn has_text(&self, pages: &Range<usize>) -> bool {
        self.objects
            .iter()
            .flat_map(|object| &object.segments)
            .any(|segment| segment.is_text && crate::os::text::pages(segment.range.clone()) == *pages)
    }

    /// Whether all these sites are in the executable, which is never unloaded.
    pub(crate) fn is_all_main(&self, sites: &[Site]) -> bool {
        let main: Vec<_> =
            self.objects.iter().filter(|object| object.is_main).flat_map(|object| &object.segments).collect();
        sites.iter().all(|site| main.iter().any(|segment| segment.range.contains(&site.addr.0)))
    }
}
