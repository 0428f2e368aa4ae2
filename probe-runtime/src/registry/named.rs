//! Which probe a definition is: the one that its identity had before, or a new one.
//!
//! Cost: a hash of its text for each definition, unless all are the executable's.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::ptr;

use super::ProbeId;
use super::loaded::{DefinitionRange, Registry};
use super::tables::Tables;
use crate::abi::Definition;
#[cfg(probe_discovers)]
use crate::finstrument::Discovery;

pub(super) fn identity(definition: &Definition) -> u64 {
    let mut hasher = DefaultHasher::new();
    definition.identity().hash(&mut hasher);
    hasher.finish()
}

impl Registry {
    /// Gives each definition its id: the one that its identity had before, or a new one.
    pub(super) fn name_probes(
        &mut self,
        tables: &[Tables<'_>],
        #[cfg(probe_discovers)] living: &[&'static Discovery],
    ) {
        // With the executable alone, addresses are identity enough, and no text needs to be read.
        let compare = tables.len() > 1 || !self.identities.is_empty() || self.ranges.len() > 1;
        #[cfg(probe_discovers)]
        let compare = compare || !living.is_empty();
        let old = std::mem::take(&mut self.ranges);
        self.definitions.fill(None);
        self.copies.clear();
        for tables in tables {
            // The executable is never unloaded, so its addresses keep their meaning.
            let range = tables.definition_range();
            let same = old.iter().find(|old| tables.is_main() && old.range == range);
            self.name_table(tables, same, compare);
        }
        #[cfg(probe_discovers)]
        self.name_discovered(living);
    }

    /// The same for one object's. `same` is where these very definitions are known from.
    pub(super) fn name_table(&mut self, tables: &Tables<'_>, same: Option<&DefinitionRange>, compare: bool) {
        let range = tables.definition_range();
        if same.is_none() && !compare {
            // All are new.
            let first = self.definitions.len();
            self.definitions.extend(tables.definitions().map(Some));
            let ids = (first..self.definitions.len()).map(ProbeId::new).collect();
            self.ranges.push(DefinitionRange { range, ids });
            return;
        }
        let mut ids = vec![ProbeId::UNKNOWN; range.len() / size_of::<Definition>()];
        for definition in tables.definitions() {
            let addr = ptr::from_ref(definition).addr();
            let is_readable = !compare || tables.is_readable(definition);
            let identity = (compare && is_readable).then(|| identity(definition));
            let known = same
                .and_then(|old| old.id_of(addr))
                .or_else(|| identity.and_then(|identity| self.identities.get(&identity).copied()));
            if known.is_none() && !is_readable {
                // Without an id it has no sites.
                continue;
            }
            let id = known.unwrap_or_else(|| {
                self.definitions.push(None);
                ProbeId::new(self.definitions.len() - 1)
            });
            self.define(id, definition);
            if let Some(identity) = identity {
                self.identities.insert(identity, id);
            }
            ids[(addr - range.start) / size_of::<Definition>()] = id;
        }
        self.ranges.push(DefinitionRange { range, ids });
    }

    /// The same for what was discovered, which is in no table.
    #[cfg(probe_discovers)]
    fn name_discovered(&mut self, living: &[&'static Discovery]) {
        self.discovered.clear();
        for discovery in living {
            let Some(definition) = discovery.definition() else { continue };
            let id = *self.identities.entry(identity(definition)).or_insert_with(|| {
                self.definitions.push(None);
                ProbeId::new(self.definitions.len() - 1)
            });
            self.define(id, definition);
            self.discovered.add(id, discovery);
        }
    }

    /// Gives a probe that is new its number, the next one.
    #[cfg(probe_discovers)]
    pub(super) fn add_probe(&mut self) {
        self.definitions.push(None);
        self.grouped.add_probe();
    }

    /// Adds a definition to those of its probe.
    pub(super) fn define(&mut self, id: ProbeId, definition: &'static Definition) {
        match &mut self.definitions[id.index()] {
            first @ None => *first = Some(definition),
            Some(_) => self.copies.entry(id).or_default().push(definition),
        }
    }
}
