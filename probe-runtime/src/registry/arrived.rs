//! Objects that came while none has gone: what they bring is added, and nothing else is looked at.
//!
//! What is known stays true then, since the tables and the text of those before are what they were.
//! Everything is looked at where any of this holds:
//!
//! | what | why |
//! |---|---|
//! | nobody has looked yet | there is nothing to add to |
//! | an object has gone, or those that were there are no longer the first | another may lie in its place |
//! | a pointer of an object leads nowhere, or a record was skipped | it may lead to what came |
//! | what came has probes, and until now all were the executable's | their identities are not known |
//!
//! The dynamic linker counts what comes and what goes, and adds to the end of its list. The list is
//! compared, too, since glibc counts the objects of further namespaces (`dlmopen`) more than once.
//!
//! Cost: a walk over the list of loaded objects, and what the new ones bring. Where that is sites, a
//! pass over all sites.

use super::ProbeId;
use super::loaded::{Registry, is_among};
use super::ranges::DefinitionRange;
use super::tables::Tables;
use crate::abi::{NOTE_OWNER, NOTE_TYPE};
use crate::os::objects::{Frozen, Object};

impl Registry {
    /// The objects with probes among those that came since the last look; `None` where everything is to
    /// be looked at.
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

    /// Adds what these objects bring; returns their probes, ascending.
    pub(super) fn add_objects(&mut self, new: Vec<Object>) -> Vec<ProbeId> {
        if new.is_empty() {
            return Vec::new();
        }
        let (known, ranges, probes) = (self.objects.len(), self.ranges.len(), self.len());
        let mut objects = std::mem::take(&mut self.objects);
        objects.extend(new);
        let tables: Vec<_> =
            objects[known..].iter().filter_map(|object| Tables::of(object, &objects)).collect();
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

    /// Adds the objects that hold what was discovered, as far as they are not known.
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
    use crate::os::objects::freeze;
    use crate::registry::tables::Unsettled;

    /// What there is to add to what a registry knows, if that is all.
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
            // What has probes may have copies of probes whose identities are not known.
            let with_probes = frozen.loaded(0..all, NOTE_OWNER, NOTE_TYPE).len();
            assert_eq!(arrived(frozen, 0, |_| ()), (with_probes == 0).then_some(0));
            let id = |it: &mut Registry| _ = it.identities.insert(1, ProbeId::new(0));
            assert_eq!(arrived(frozen, 0, id), Some(with_probes));

            assert_eq!(arrived(frozen, all, |it| it.generation = None), None);
            assert_eq!(arrived(frozen, all, |it| it.headers.push(1)), None);
            assert_eq!(arrived(frozen, all, |it| it.headers.swap(0, 1)), None);
            assert_eq!(arrived(frozen, all, |it| it.skipped = 1), None);
            let unsettled = |it: &mut Registry| it.unsettled.push(Unsettled::UNKNOWN);
            assert_eq!(arrived(frozen, all, unsettled), None);
        });
    }
}
