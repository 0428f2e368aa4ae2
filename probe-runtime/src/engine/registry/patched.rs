//! The registry for the backend that patches sites. It reads the tables of all loaded objects.
//!
//! Adds the probes of newly loaded objects without reading the other objects again.
//!
//! If no object was unloaded, the tables and the text of the known objects are unchanged. So is all
//! that the registry has read from them. The registry reads all objects again in these cases:
//!
//! | case | reason |
//! |---|---|
//! | this is the first refresh | there is nothing to add to |
//! | an object was unloaded, or the list begins differently | another may lie in its place |
//! | a pointer of an object led nowhere, or a record was skipped | it may lead into a new object |
//! | new probes came, and all known ones are the executable's | their identities are unknown |
//!
//! The dynamic linker counts loads and unloads, and appends to its list. The registry compares the
//! list, too, since glibc counts the objects of further namespaces (`dlmopen`) more than once.
//!
//! Cost: a walk over the list of loaded objects, and reading the new ones. If these have sites, one
//! pass over all sites.

// Safety: relies on every address that the registry knows lying in one of its `objects`, and on
// objects that stay loaded while they can't be unloaded, which `Frozen` proves.
#![expect(unsafe_code, reason = "see above")]

mod blocks;
mod definitions;
mod discoveries;
mod sites_by_probe;
mod tables;

use std::collections::HashMap;
use std::ops::{Range, RangeInclusive};
use std::ptr;

use super::provider::{self, CallSite, Due, Providers};
use super::{Change, ProbeId};
use crate::engine::os::objects::{Frozen, Generation, KeptLoaded, Object};
use crate::engine::os::text::pages;
use crate::engine::sites::Site;
use blocks::Blocks;
use definitions::{DefinitionPtr, DefinitionRange, Definitions};
use discoveries::Discoveries;
use probe_core::abi::{Definition, NOTE_OWNER, NOTE_TYPE, Type};
use sites_by_probe::{SitesByProbe, UngroupedSites};
use tables::{TableRecord, Tables, UnresolvedPointer};

/// All probes and sites of the loaded objects.
#[derive(Default)]
pub(crate) struct Registry {
    /// The generation of the objects below; `None` before the first refresh.
    generation: Option<Generation>,
    /// The addresses of all objects' headers at that time, with or without probes.
    headers: Vec<usize>,
    /// The objects that have probes.
    objects: Vec<Object>,
    /// Pointers in the objects that led nowhere. If one has changed, the objects are read again:
    /// the list of objects does not change when the dynamic linker has finished one of them.
    unresolved: Vec<UnresolvedPointer>,
    all_definitions: Definitions,
    /// A probe's definitions in further objects; rare.
    copies: HashMap<ProbeId, Vec<DefinitionPtr>>,
    sites_by_probe: SitesByProbe,
    blocks: Blocks,
    ranges: Vec<DefinitionRange>,
    /// The probes by a hash of their identities, once more than one object has probes. The text
    /// itself goes away with its object.
    identities: HashMap<u64, ProbeId>,
    skipped: usize,
    /// The types of fields; `None` if copies of a probe disagree.
    types: HashMap<(ProbeId, u8), Option<Type>>,
    /// Sites whose definitions belong to another runtime. No list above has them.
    owned_elsewhere: HashMap<ProbeId, Vec<Site>>,
    /// The providers that have found something.
    providers: Providers,
    discovered: Discoveries,
}

/// Returns the sites of probes that have fields, by their addresses, with the addresses of their
/// definitions: for each object that has probes, and with the object's address. Reads no text of
/// a definition: pointers to it are not there yet in an object that is still loading.
#[cfg(probe_values)]
pub(crate) fn sites_with_fields(frozen: &Frozen) -> Vec<(usize, Vec<(usize, usize)>)> {
    let objects = frozen.loaded(0..usize::MAX, NOTE_OWNER, NOTE_TYPE);
    let tables = objects.iter().filter_map(|object| Tables::of(frozen, object, &objects));
    let sites = |tables: Tables<'_>| {
        let fit = tables.definitions().iter().filter(|it| it.field_count() != 0);
        let fit: Vec<_> = fit.map(|it| ptr::from_ref(it).addr()).collect();
        let mut sites = Vec::new();
        tables.for_each_record(|entry, definition| {
            if let TableRecord::Site(site) = entry
                && fit.binary_search(&definition).is_ok()
            {
                sites.push((site.addr.0, definition));
            }
        });
        sites.sort_unstable();
        (tables.base(), sites)
    };
    tables.map(sites).collect()
}

/// Returns the pages of unloaded objects. Pages that another object occupies by now are left out,
/// even if the same object was loaded again: the new object's rights say whether they are open.
fn gone(before: &[Object], now: &[Object]) -> Vec<Range<usize>> {
    let segments = |objects| <[Object]>::iter(objects).flat_map(|object| &object.segments);
    let is_gone = |range: &Range<usize>| {
        !segments(now).any(|segment| {
            let there = pages(segment.range.clone());
            there.start < range.end && range.start < there.end
        })
    };
    segments(before).map(|segment| pages(segment.range.clone())).filter(is_gone).collect()
}

/// Returns whether an object is among others. Neither side needs its notes.
fn is_among(objects: &[Object], other: &Object) -> bool {
    objects.iter().any(|object| object.base == other.base && object.segments == other.segments)
}

impl Registry {
    /// Looks for loaded and unloaded objects and for new discoveries. Returns the changes, if there
    /// are any, and the proof that all known objects stay loaded.
    pub(crate) fn refresh<'a>(&mut self, frozen: &'a Frozen) -> (Option<Change>, KeptLoaded<'a>) {
        let change = self.update(frozen);
        debug_assert_eq!(self.generation, Some(frozen.generation()));
        // SAFETY: just refreshed: all known objects are loaded, and stay so while `frozen` lives.
        (change, unsafe { KeptLoaded::new() })
    }

    fn update(&mut self, frozen: &Frozen) -> Option<Change> {
        let pending = self.provider().map_or(Due::Nothing, |it| it.patch_pending(frozen));
        let generation = Some(frozen.generation());
        let is_same =
            self.generation == generation && !self.unresolved.iter().any(|it| it.has_changed(frozen));
        let is_quiet = pending == Due::Nothing;
        if is_same && is_quiet {
            return None;
        }
        let new_objects = if is_same { Some(Vec::new()) } else { self.newly_loaded(frozen) };
        let mut unloaded = Vec::new();
        if let Some(objects) = new_objects.filter(|_| pending != Due::All) {
            let provider = self.provider().filter(|_| !is_quiet);
            let new = provider.map(|it| it.find(frozen, false)).unwrap_or_default();
            // Without identities, the names of other probes are not known.
            let is_known = new.living.is_empty() || !self.identities.is_empty();
            if is_known && new.unloaded.is_none() {
                let mut new_probes = self.add_objects(frozen, objects);
                self.add_holders(new.objects);
                let found = self.add_new(frozen, &new.living);
                new_probes.extend(found.iter().map(|(id, _)| *id));
                return Some(Change { new_probes, found, ..Change::default() });
            }
            unloaded.extend(new.unloaded);
        }
        let headers = frozen.headers();
        let mut objects = frozen.loaded(0..headers.len(), NOTE_OWNER, NOTE_TYPE);
        self.generation = generation;
        self.headers = headers;
        let all = self.provider().map(|it| it.find(frozen, true)).unwrap_or_default();
        unloaded.extend(all.unloaded);
        for object in all.objects {
            if !is_among(&objects, &object) {
                objects.push(object);
            }
        }
        let has_news = !is_quiet || !unloaded.is_empty();
        // A plugin may have been loaded again at the same place. Its sites are latent then.
        if !has_news && objects == self.objects && objects.iter().all(|object| object.is_main) {
            return Some(Change::default());
        }
        let gone = gone(&self.objects, &objects);
        self.rebuild(frozen, objects, &all.living);
        let found = self.discovered().to_vec();
        Some(Change { gone, unloaded, is_list_new: true, found, ..Change::default() })
    }

    fn rebuild(&mut self, frozen: &Frozen, objects: Vec<Object>, living: &[&'static dyn CallSite]) {
        let tables: Vec<_> =
            objects.iter().filter_map(|object| Tables::of(frozen, object, &objects)).collect();
        self.assign_ids(frozen, &tables, living);
        self.owned_elsewhere.clear();
        let found = self.read_sites(&tables);
        self.group_sites(found);
        self.unresolved = tables.iter().flat_map(Tables::unresolved).collect();
        drop(tables);
        self.objects = objects;
    }

    /// Reads all records: the sites, with their probes. Skips sites whose definitions are in no
    /// table.
    fn read_sites(&mut self, tables: &[Tables<'_>]) -> UngroupedSites {
        self.skipped = 0;
        self.types.clear();
        self.read_more_sites(tables, 0)
    }

    /// Reads the records of further objects, whose definitions are in the ranges from `first` on.
    fn read_more_sites(&mut self, tables: &[Tables<'_>], first: usize) -> UngroupedSites {
        let ranges = &self.ranges;
        let mut found = UngroupedSites::with_capacity(tables.iter().map(Tables::capacity).sum());
        let mut skipped = 0;
        for (own, tables) in ranges[first..].iter().zip(tables) {
            let mut foreign = 0;
            skipped += tables.for_each_record(|entry, definition| {
                let id =
                    own.id_of(definition).or_else(|| ranges.iter().find_map(|range| range.id_of(definition)));
                match (id, entry) {
                    (Some(id), TableRecord::Site(site)) => found.push(id, site),
                    // An exit by a panic. Its record says nothing of the type on other exits.
                    (_, TableRecord::Type(record)) if record.ty() == Some(Type::Absent) => {}
                    (Some(id), TableRecord::Type(record)) => {
                        let ty = self.types.entry((id, record.index)).or_insert(record.ty());
                        *ty = ty.filter(|ty| Some(*ty) == record.ty());
                    }
                    (None, TableRecord::Site(_)) => foreign += 1,
                    (None, TableRecord::Type(_)) => {}
                }
            });
            skipped += foreign;
        }
        self.skipped += skipped;
        found
    }

    /// Groups the sites from tables with the sites of discoveries.
    fn group_sites(&mut self, found: UngroupedSites) {
        let before = std::mem::take(&mut self.sites_by_probe);
        self.sites_by_probe = SitesByProbe::new(self.len(), found);
        if provider::IS_POSSIBLE && !self.discovered.sites().is_empty() {
            self.sites_by_probe.extend(self.discovered.sites().iter().copied());
        }
        self.keep_blocks(&before);
    }

    /// Returns the number of probes, unloaded ones included.
    pub(crate) fn len(&self) -> usize {
        self.all_definitions.len()
    }

    /// Returns the representative definition of a probe, while one of its objects is loaded.
    pub(crate) fn definition<'a>(&self, id: ProbeId, loaded: KeptLoaded<'a>) -> Option<&'a Definition> {
        self.all_definitions.get(id, loaded).filter(|definition| definition.is_readable())
    }

    /// Returns the file of the object that has a probe; empty for the executable.
    pub(crate) fn object_of(&self, id: ProbeId) -> &str {
        let Some(addr) = self.all_definitions.address(id) else { return "" };
        let has = |object: &&Object| object.segments.iter().any(|it| it.range.contains(&addr));
        self.objects.iter().find(has).map_or("", |object| &object.name)
    }

    /// Returns the probe of a definition, unless another runtime has it.
    pub(crate) fn id_of(&self, definition: &Definition) -> Option<ProbeId> {
        let addr = ptr::from_ref(definition).addr();
        self.ranges.iter().find_map(|range| range.id_of(addr))
    }

    /// Returns all definitions of a probe: one in each object that has it.
    #[inline]
    pub(crate) fn definitions<'a>(
        &self,
        id: ProbeId,
        loaded: KeptLoaded<'a>,
    ) -> impl Iterator<Item = &'a Definition> {
        let copies = self.copies.get(&id).into_iter().flatten();
        self.definition(id, loaded).into_iter().chain(copies.map(move |copy| copy.get(loaded)))
    }

    /// Returns the type of a probe's field, if its sites record one.
    pub(crate) fn field_type(&self, id: ProbeId, field: usize) -> Option<Type> {
        self.types.get(&(id, u8::try_from(field).ok()?)).copied().flatten()
    }

    #[inline]
    pub(crate) fn sites(&self, id: ProbeId) -> &[Site] {
        self.sites_by_probe.of_run(id, id)
    }

    /// Returns the number of a probe's machine-code copies, those of other runtimes included.
    pub(crate) fn site_count(&self, id: ProbeId) -> usize {
        let calls = self.discovered.calls(id).iter().map(|call| call.places());
        self.sites(id).len() + self.owned_elsewhere(id).len() + calls.sum::<usize>()
    }

    /// Returns the sites of neighbouring probes, which lie side by side.
    #[inline]
    pub(crate) fn sites_of_run(&self, run: &RangeInclusive<usize>) -> &[Site] {
        self.sites_by_probe.of_run(ProbeId::new(*run.start()), ProbeId::new(*run.end()))
    }

    /// Returns the number of sites that this reader skipped. Their records or definitions are
    /// damaged, or newer than this reader.
    pub(crate) fn skipped(&self, loaded: KeptLoaded<'_>) -> usize {
        let unreadable = (0..self.len())
            .map(ProbeId::new)
            .filter(|id| {
                self.all_definitions.get(*id, loaded).is_some_and(|definition| !definition.is_readable())
            })
            .map(|id| self.site_count(id));
        self.skipped + unreadable.sum::<usize>()
    }

    /// Returns the text segments that hold these sites.
    pub(crate) fn text_of<'a, Sites>(&self, sites: impl Fn() -> Sites) -> Vec<Range<usize>>
    where
        Sites: Iterator<Item = &'a Site>,
    {
        let texts = self.objects.iter().flat_map(|object| &object.segments).filter(|segment| segment.is_text);
        texts
            .map(|segment| segment.range.clone())
            .filter(|text| sites().any(|site| text.contains(&site.addr.0)))
            .collect()
    }

    /// Returns whether a probe's definition is the executable's.
    pub(crate) fn is_in_main(&self, id: ProbeId) -> bool {
        let addr = self.all_definitions.address(id);
        let mut main = self.objects.iter().filter(|object| object.is_main);
        addr.is_some_and(|addr| {
            main.any(|object| object.segments.iter().any(|segment| segment.range.contains(&addr)))
        })
    }

    /// Returns the proof that all known objects stay loaded, if they are the executable alone.
    #[inline(always)]
    pub(crate) fn kept_loaded(&self) -> Option<KeptLoaded<'_>> {
        // SAFETY: all that the registry knows is the executable's, which is never unloaded. It
        // learns nothing while it is borrowed.
        self.is_main_only().then(|| unsafe { KeptLoaded::new() })
    }

    /// Calls `run` with that proof and the owner of the registry, which `run` must not
    /// [refresh](Self::refresh). Returns `None`, without a call, if other objects are known.
    pub(crate) fn with_kept_loaded<O, T>(
        owner: &mut O,
        registry: impl FnOnce(&O) -> &Self,
        run: impl FnOnce(&mut O, KeptLoaded<'_>) -> T,
    ) -> Option<T> {
        // SAFETY: as in `kept_loaded`. `run` can't keep the proof.
        registry(owner).is_main_only().then(|| run(owner, unsafe { KeptLoaded::new() }))
    }

    /// Returns whether all known probes and sites are the executable's.
    pub(crate) fn is_main_only(&self) -> bool {
        self.objects.iter().all(|object| object.is_main)
    }
}

impl Registry {
    /// Returns the objects with probes that were loaded since the last refresh; `None` if all
    /// objects have to be read again.
    fn newly_loaded(&mut self, frozen: &Frozen) -> Option<Vec<Object>> {
        let generation = frozen.generation();
        let headers = frozen.headers();
        let is_more = self.generation.is_some_and(|known| generation.has_lost_none_since(known))
            && headers.starts_with(&self.headers);
        if !is_more || !self.unresolved.is_empty() || self.skipped != 0 {
            return None;
        }
        let objects = frozen.loaded(self.headers.len()..headers.len(), NOTE_OWNER, NOTE_TYPE);
        if !objects.is_empty() && self.identities.is_empty() {
            return None;
        }
        self.generation = Some(generation);
        self.headers = headers;
        Some(objects)
    }

    /// Adds the probes of new objects; returns them, ascending.
    fn add_objects(&mut self, frozen: &Frozen, new: Vec<Object>) -> Vec<ProbeId> {
        if new.is_empty() {
            return Vec::new();
        }
        let (known, ranges, probes) = (self.objects.len(), self.ranges.len(), self.len());
        let mut objects = std::mem::take(&mut self.objects);
        objects.extend(new);
        let tables: Vec<_> =
            objects[known..].iter().filter_map(|object| Tables::of(frozen, object, &objects)).collect();
        tables.iter().for_each(|tables| self.assign_ids_in(tables, None, true));
        (probes..self.len()).for_each(|_| self.sites_by_probe.add_probe());
        let found = self.read_more_sites(&tables, ranges);
        if !found.is_empty() {
            self.sites_by_probe.extend(found);
        }
        self.blocks.retry();
        self.unresolved.extend(tables.iter().flat_map(Tables::unresolved));
        drop(tables);
        self.objects = objects;
        let mut ids: Vec<_> = self.ranges[ranges..].iter().flat_map(DefinitionRange::ids).collect();
        ids.sort_unstable();
        ids.dedup();
        ids
    }

    /// Adds the objects that hold discoveries, except those that are already known.
    fn add_holders(&mut self, new: Vec<Object>) {
        for object in new {
            if !is_among(&self.objects, &object) {
                self.objects.push(object);
            }
        }
    }
}

impl Registry {
    /// Leaves the sites of these definitions to another runtime, until objects are unloaded. Call
    /// this while frozen, right after a refresh.
    #[cold]
    pub(crate) fn cede(&mut self, frozen: &Frozen, taken: &[(ProbeId, &Definition)]) {
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
            self.owned_elsewhere.entry(id).or_default().extend(left);
        }
    }

    /// Returns the sites of a probe that are left to another runtime.
    pub(crate) fn owned_elsewhere(&self, id: ProbeId) -> &[Site] {
        self.owned_elsewhere.get(&id).map_or(&[], Vec::as_slice)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::os::objects::freeze;

    /// Returns the number of objects that a changed registry would add, if it need not start anew.
    fn newly_loaded(frozen: &Frozen, known: usize, change: impl FnOnce(&mut Registry)) -> Option<usize> {
        let headers = frozen.headers();
        let mut registry = Registry {
            generation: Some(frozen.generation()),
            headers: headers[..known].to_vec(),
            ..Registry::default()
        };
        change(&mut registry);
        let objects = registry.newly_loaded(frozen)?;
        assert_eq!((registry.generation, registry.headers), (Some(frozen.generation()), headers));
        Some(objects.len())
    }

    #[test]
    #[cfg_attr(miri, ignore = "dl_iterate_phdr(3)")]
    fn only_what_is_surely_more_is_added() {
        freeze(|frozen| {
            let all = frozen.headers().len();
            assert!(all > 1, "the executable, and libraries");
            for known in [all, all - 1, 1] {
                assert_eq!(newly_loaded(frozen, known, |_| ()), Some(0), "libraries have no probes");
            }
            // A new object with probes may have copies of known probes without identities.
            let with_probes = frozen.loaded(0..all, NOTE_OWNER, NOTE_TYPE).len();
            assert_eq!(newly_loaded(frozen, 0, |_| ()), (with_probes == 0).then_some(0));
            let id = |it: &mut Registry| _ = it.identities.insert(1, ProbeId::new(0));
            assert_eq!(newly_loaded(frozen, 0, id), Some(with_probes));

            assert_eq!(newly_loaded(frozen, all, |it| it.generation = None), None);
            assert_eq!(newly_loaded(frozen, all, |it| it.headers.push(1)), None);
            assert_eq!(newly_loaded(frozen, all, |it| it.headers.swap(0, 1)), None);
            assert_eq!(newly_loaded(frozen, all, |it| it.skipped = 1), None);
            let unresolved = |it: &mut Registry| it.unresolved.push(UnresolvedPointer::UNKNOWN);
            assert_eq!(newly_loaded(frozen, all, unresolved), None);
        });
    }
}
