//! Definitions that are one probe: they agree in path, file, line, column and kind.

use std::collections::hash_map::Entry;
use std::hash::{BuildHasher, Hasher, RandomState};

use rustc_hash::FxHashMap;

use super::probe::Probe;
use super::record::Record;
use probe_runtime::Type;

/// The probes, and which definition belongs to which.
#[derive(Default)]
pub(super) struct Grouped {
    pub(super) probes: Vec<Probe>,
    /// Places of probes, by their definitions' numbers in the table.
    places: Vec<Option<u32>>,
    /// Hashes identities, so that no file can choose those that collide.
    hashes: RandomState,
    /// The first place of a probe with a hash of its identity, and the next one with the same hash,
    /// by places.
    known: FxHashMap<u64, u32>,
    alike: Vec<Option<u32>>,
    /// Types of fields according to their sites, by probe and field: `None` where sites disagree.
    types: FxHashMap<(u32, u8), Option<Type>>,
}

impl Grouped {
    /// Adds the next definition of the table.
    pub(super) fn add(&mut self, probe: Option<Probe>) {
        let place = probe.map(|probe| self.place(probe));
        self.places.push(place);
    }

    fn place(&mut self, probe: Probe) -> u32 {
        // A table has at most 1 GiB, so few enough definitions.
        let place = u32::try_from(self.probes.len()).unwrap_or(u32::MAX);
        let next = match self.known.entry(self.hash(&probe)) {
            Entry::Vacant(entry) => {
                entry.insert(place);
                None
            }
            Entry::Occupied(mut entry) => {
                let mut alike = Some(*entry.get());
                while let Some(other) = alike {
                    if identity(&self.probes[other as usize]) == identity(&probe) {
                        return other;
                    }
                    alike = self.alike[other as usize];
                }
                Some(entry.insert(place))
            }
        };
        self.alike.push(next);
        self.probes.push(probe);
        place
    }

    /// Hashes an identity by few calls, which take longer than short texts do.
    fn hash(&self, probe: &Probe) -> u64 {
        let (path, file, line, column, kind) = identity(probe);
        let mut hasher = self.hashes.build_hasher();
        hasher.write(path.as_bytes());
        hasher.write(file.as_bytes());
        hasher.write_u64(u64::from(line) << 32 | u64::from(column));
        hasher.write_u64((path.len() as u64) << 8 | u64::from(kind));
        hasher.finish()
    }

    /// Adds a record of the definition with this number. Returns whether there is such a one.
    pub(super) fn note(&mut self, definition: usize, record: Record) -> bool {
        let Some(Some(place)) = self.places.get(definition).copied() else { return false };
        match record {
            Record::Site(site) => {
                let sites = &mut self.probes[place as usize].sites;
                // Most probes have one.
                if sites.is_empty() {
                    sites.reserve_exact(1);
                }
                sites.push(site);
            }
            // A result that a panic leaves out has no type.
            Record::Type(_, Some(Type::Absent)) => (),
            Record::Type(field, ty) => match self.types.entry((place, field)) {
                Entry::Vacant(entry) => _ = entry.insert(ty),
                Entry::Occupied(mut entry) if *entry.get() != ty => _ = entry.insert(None),
                Entry::Occupied(_) => (),
            },
        }
        true
    }

    /// Returns the probes, with their fields' types.
    pub(super) fn finish(mut self) -> Vec<Probe> {
        for ((place, field), ty) in self.types {
            let fields = &mut self.probes[place as usize].fields;
            if let Some(field) = fields.get_mut(usize::from(field)) {
                field.ty = field.ty.or(ty);
            }
        }
        self.probes
    }
}

fn identity(probe: &Probe) -> (&str, &str, u32, u32, u8) {
    (&probe.path, &probe.file, probe.line, probe.column, probe.kind as u8)
}
