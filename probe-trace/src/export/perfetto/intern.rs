//! Interned names: each is written once, with an id that later packets use.

use std::{collections::HashMap, sync::Arc};

use rustc_hash::FxHashMap;

use super::message::{InternedData, InternedName, SourceLocation};
use crate::export::name;
use crate::item::Definition;

/// The names that the packets since the state was cleared have. Uses memory for each distinct one.
#[derive(Default)]
pub(super) struct Interner {
    categories: Names,
    names: Names,
    annotations: Names,
    /// Ids of source locations, by path, file and line.
    locations: HashMap<String, HashMap<String, HashMap<u32, u64>>>,
    location_count: u64,
    /// Ids of probes' names, by the addresses of their definitions, which stay meanwhile.
    probes: FxHashMap<usize, Arc<(Arc<Definition>, ProbeIds)>>,
    /// The names that the next packet has to introduce.
    new: InternedData,
    is_new: bool,
}

/// Ids of the names of one probe.
pub(super) struct ProbeIds {
    pub(super) name: u64,
    pub(super) category: u64,
    pub(super) location: u64,
    /// Of the fields, in their order.
    pub(super) fields: Vec<u64>,
}

#[derive(Default)]
struct Names(HashMap<String, u64>);

impl Names {
    fn id(&mut self, name: &str, new: &mut Vec<InternedName>, is_new: &mut bool) -> u64 {
        if let Some(id) = self.0.get(name) {
            return *id;
        }
        // Zero is no id.
        let id = self.0.len() as u64 + 1;
        self.0.insert(name.to_owned(), id);
        new.push(InternedName { iid: Some(id), name: Some(name.to_owned()) });
        *is_new = true;
        id
    }
}

impl Interner {
    pub(super) fn category(&mut self, name: &str) -> u64 {
        self.categories.id(name, &mut self.new.event_categories, &mut self.is_new)
    }

    pub(super) fn name(&mut self, name: &str) -> u64 {
        self.names.id(name, &mut self.new.event_names, &mut self.is_new)
    }

    pub(super) fn annotation(&mut self, name: &str) -> u64 {
        self.annotations.id(name, &mut self.new.debug_annotation_names, &mut self.is_new)
    }

    /// Returns the ids of a probe's names.
    pub(super) fn probe(&mut self, probe: &Arc<Definition>) -> Arc<(Arc<Definition>, ProbeIds)> {
        let address = Arc::as_ptr(probe).addr();
        if let Some(ids) = self.probes.get(&address) {
            return Arc::clone(ids);
        }
        let ids = ProbeIds {
            name: self.name(name::short_path(&probe.path)),
            category: self.category(name::crate_name(&probe.path)),
            location: self.location(probe),
            fields: probe.fields.iter().map(|field| self.annotation(field)).collect(),
        };
        let ids = Arc::new((Arc::clone(probe), ids));
        self.probes.insert(address, Arc::clone(&ids));
        ids
    }

    /// Returns the id of a probe's source location; the location's function is the probe's path.
    fn location(&mut self, probe: &Definition) -> u64 {
        let of_path = self.locations.get(&probe.path);
        let known = of_path.and_then(|files| files.get(&probe.file)?.get(&probe.line));
        if let Some(id) = known {
            return *id;
        }
        self.location_count += 1;
        let id = self.location_count;
        let files = self.locations.entry(probe.path.clone()).or_default();
        files.entry(probe.file.clone()).or_default().insert(probe.line, id);
        self.is_new = true;
        self.new.source_locations.push(SourceLocation {
            iid: Some(id),
            file_name: Some(probe.file.clone()),
            function_name: Some(probe.path.clone()),
            line_number: Some(probe.line),
        });
        id
    }

    /// Returns the names that were interned since the last call.
    pub(super) fn take(&mut self) -> Option<Box<InternedData>> {
        let is_new = std::mem::take(&mut self.is_new);
        is_new.then(|| Box::new(std::mem::take(&mut self.new)))
    }
}
