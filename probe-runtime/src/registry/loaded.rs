//! The registry where sites are patched: from the tables of all loaded objects.

use std::collections::HashMap;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::ops::Range;

use super::ProbeId;
use super::tables::{RecordAt, Tables};
use crate::abi::{Definition, NOTE_OWNER, NOTE_TYPE};
use crate::os::objects::{self, Generation, Object};
use crate::patch::{Site, SiteAddr};

/// All probes and sites of the loaded objects.
#[derive(Default)]
pub(crate) struct Registry {
    generation: Generation,
    objects: Vec<Object>,
    /// By probe; `None` once all its objects are unloaded.
    definitions: Vec<Option<&'static Definition>>,
    /// A probe's definitions in other objects: rare.
    copies: HashMap<ProbeId, Vec<&'static Definition>>,
    /// Grouped by probe; ascending within a group as the linker laid them out.
    sites: Vec<Site>,
    /// Where each probe's sites start, and, last, where all end.
    starts: Vec<u32>,
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
        // A plugin may have been loaded again where it was: its sites are latent, whatever they were.
        if objects == self.objects && objects.iter().all(|object| object.is_main) {
            return false;
        }
        self.rebuild(objects);
        true
    }

    fn rebuild(&mut self, objects: Vec<Object>) {
        let tables: Vec<_> = objects.iter().filter_map(Tables::of).collect();
        self.name_probes(&tables);
        let found = self.read_sites(&tables);
        self.group_sites(&tables, &found);
        drop(tables);
        self.objects = objects;
    }

    /// Gives each definition its id: the one that its identity had before, or a new one.
    fn name_probes(&mut self, tables: &[Tables<'_>]) {
        // With the executable alone, addresses are identity enough, and no text needs to be read.
        let compare = tables.len() > 1 || !self.identities.is_empty() || self.ranges.len() > 1;
        let old = std::mem::take(&mut self.ranges);
        self.definitions.fill(None);
        self.copies.clear();
        for tables in tables {
            let range = tables.definition_range();
            // The executable is never unloaded, so its addresses keep their meaning.
            let same = old.iter().find(|old| tables.is_main() && old.range == range);
            let mut ids = vec![ProbeId::UNKNOWN; range.len() / size_of::<Definition>()];
            for definition in tables.definitions() {
                let addr = std::ptr::from_ref(definition).addr();
                let identity = (compare && definition.is_readable()).then(|| identity(definition));
                let known = same
                    .and_then(|old| old.id_of(addr))
                    .or_else(|| identity.and_then(|identity| self.identities.get(&identity).copied()));
                let id = known.unwrap_or_else(|| {
                    self.definitions.push(None);
                    ProbeId::new(self.definitions.len() - 1)
                });
                match &mut self.definitions[id.index()] {
                    first @ None => *first = Some(definition),
                    Some(_) => self.copies.entry(id).or_default().push(definition),
                }
                if let Some(identity) = identity {
                    self.identities.insert(identity, id);
                }
                ids[(addr - range.start) / size_of::<Definition>()] = id;
            }
            self.ranges.push(DefinitionRange { range, ids });
        }
    }

    /// Reads all records: for each object, which probe's each site is, and where its record is. A site whose
    /// definition is in no table is skipped.
    fn read_sites(&mut self, tables: &[Tables<'_>]) -> Vec<Vec<(ProbeId, RecordAt)>> {
        self.skipped = 0;
        let ranges = &self.ranges;
        let mut read_one = |(own, tables): (usize, &Tables<'_>)| {
            let mut found = Vec::with_capacity(tables.capacity());
            let mut foreign = 0;
            self.skipped += tables.for_each_site(|record, definition| {
                let id = ranges[own]
                    .id_of(definition)
                    .or_else(|| ranges.iter().find_map(|range| range.id_of(definition)));
                match id {
                    Some(id) => found.push((id, record)),
                    None => foreign += 1,
                }
            });
            self.skipped += foreign;
            found
        };
        tables.iter().enumerate().map(&mut read_one).collect()
    }

    /// Sorts the sites by probe, keeping their order otherwise (a counting sort).
    fn group_sites(&mut self, tables: &[Tables<'_>], found: &[Vec<(ProbeId, RecordAt)>]) {
        let mut next = vec![0_u32; self.definitions.len() + 1];
        for (id, _) in found.iter().flatten() {
            next[id.index() + 1] += 1;
        }
        for at in 1..next.len() {
            next[at] += next[at - 1];
        }
        self.starts.clone_from(&next);
        let total = self.starts.last().map_or(0, |end| *end as usize);
        self.sites = vec![Site { addr: SiteAddr(0), target: 0 }; total];
        for (tables, found) in tables.iter().zip(found) {
            for (id, record) in found {
                let next = &mut next[id.index()];
                self.sites[*next as usize] = tables.site(*record);
                *next += 1;
            }
        }
    }

    /// How many probes there are, and were.
    pub(crate) fn len(&self) -> usize {
        self.definitions.len()
    }

    /// The definition that speaks for a probe, while one of its objects is loaded.
    pub(crate) fn definition(&self, id: ProbeId) -> Option<&'static Definition> {
        self.definitions[id.index()].filter(|definition| definition.is_readable())
    }

    /// All definitions of a probe: one in each object that has it.
    pub(crate) fn definitions(&self, id: ProbeId) -> impl Iterator<Item = &'static Definition> + '_ {
        self.definition(id).into_iter().chain(self.copies.get(&id).into_iter().flatten().copied())
    }

    /// The sites of one probe.
    #[inline]
    pub(crate) fn sites(&self, id: ProbeId) -> &[Site] {
        self.sites_of_run(id, id)
    }

    /// How many machine-code copies a probe has.
    pub(crate) fn site_count(&self, id: ProbeId) -> usize {
        self.sites(id).len()
    }

    /// The sites of neighbouring probes, which lie side by side.
    #[inline]
    pub(crate) fn sites_of_run(&self, first: ProbeId, last: ProbeId) -> &[Site] {
        &self.sites[self.starts[first.index()] as usize..self.starts[last.index() + 1] as usize]
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

    /// Whether all probes and sites that are known are the executable's.
    pub(crate) fn is_main_only(&self) -> bool {
        self.objects.iter().all(|object| object.is_main)
    }
}
