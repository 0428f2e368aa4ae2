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

use super::ProbeId;
use super::loaded::{Registry, is_among};
use super::ranges::DefinitionRange;
use super::tables::Tables;
use crate::engine::os::objects::{Frozen, Object};
use probe_core::abi::{NOTE_OWNER, NOTE_TYPE};

impl Registry {
    /// Returns the objects with probes that were loaded since the last refresh; `None` if all
    /// objects have to be read again.
    pub(super) fn arrived(&mut self, frozen: &Frozen) -> Option<Vec<Object>> {
        let generation = frozen.generation();
        let headers = frozen.headers();
        let is_more = self.generation.is_some_and(|known| generation.has_lost_none_since(known))
            && headers.starts_with(&self.headers);
        if !is_more || !self.unsettled.is_empty() || self.skipped != 0 {
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
    pub(super) fn add_objects(&mut self, frozen: &Frozen, new: Vec<Object>) -> Vec<ProbeId> {
        if new.is_empty() {
            return Vec::new();
        }
        let (known, ranges, probes) = (self.objects.len(), self.ranges.len(), self.len());
        let mut objects = std::mem::take(&mut self.objects);
        objects.extend(new);
        let tables: Vec<_> =
            objects[known..].iter().filter_map(|object| Tables::of(frozen, object, &objects)).collect();
        tables.iter().for_each(|tables| self.name_table(tables, None, true));
        (probes..self.len()).for_each(|_| self.grouped.add_probe());
        let found = self.read_more_sites(&tables, ranges);
        if !found.is_empty() {
            self.grouped.extend(found);
        }
        self.blocks.retry();
        self.unsettled.extend(tables.iter().flat_map(Tables::unsettled));
        drop(tables);
        self.objects = objects;
        let mut ids: Vec<_> = self.ranges[ranges..].iter().flat_map(DefinitionRange::ids).collect();
        ids.sort_unstable();
        ids.dedup();
        ids
    }

    /// Adds the objects that hold discoveries, except those that are already known.
    pub(super) fn add_holders(&mut self, new: Vec<Object>) {
        for object in new {
            if !is_among(&self.objects, &object) {
                self.objects.push(object);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::os::objects::freeze;
    use crate::engine::registry::tables::UnsettledPointer;

    /// Returns the number of objects that a changed registry would add, if it need not start anew.
    fn arrived(frozen: &Frozen, known: usize, change: impl FnOnce(&mut Registry)) -> Option<usize> {
        let headers = frozen.headers();
        let mut registry = Registry {
            generation: Some(frozen.generation()),
            headers: headers[..known].to_vec(),
            ..Registry::default()
        };
        change(&mut registry);
        let arrived = registry.arrived(frozen)?;
        assert_eq!((registry.generation, registry.headers), (Some(frozen.generation()), headers));
        Some(arrived.len())
    }

    #[test]
    #[cfg_attr(miri, ignore = "dl_iterate_phdr(3)")]
    fn only_what_is_surely_more_is_added() {
        freeze(|frozen| {
            let all = frozen.headers().len();
            assert!(all > 1, "the executable, and libraries");
            for known in [all, all - 1, 1] {
                assert_eq!(arrived(frozen, known, |_| ()), Some(0), "libraries have no probes");
            }
            // A new object with probes may have copies of known probes without identities.
            let with_probes = frozen.loaded(0..all, NOTE_OWNER, NOTE_TYPE).len();
            assert_eq!(arrived(frozen, 0, |_| ()), (with_probes == 0).then_some(0));
            let id = |it: &mut Registry| _ = it.identities.insert(1, ProbeId::new(0));
            assert_eq!(arrived(frozen, 0, id), Some(with_probes));

            assert_eq!(arrived(frozen, all, |it| it.generation = None), None);
            assert_eq!(arrived(frozen, all, |it| it.headers.push(1)), None);
            assert_eq!(arrived(frozen, all, |it| it.headers.swap(0, 1)), None);
            assert_eq!(arrived(frozen, all, |it| it.skipped = 1), None);
            let unsettled = |it: &mut Registry| it.unsettled.push(UnsettledPointer::UNKNOWN);
            assert_eq!(arrived(frozen, all, unsettled), None);
        });
    }
}
