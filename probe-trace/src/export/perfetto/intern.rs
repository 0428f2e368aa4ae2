//! Interned names: each is written once, with an id that later packets use.

use std::collections::HashMap;

use super::message::{InternedData, InternedName, SourceLocation};
use crate::definition::Definition;

/// The names that the packets since the state was cleared have. Uses memory for each distinct one.
#[derive(Default)]
pub(super) struct Interner {
    categories: Names,
    names: Names,
    annotations: Names,
    /// Ids of source locations, by path; for each path by file and line.
    locations: HashMap<String, HashMap<(String, u32), u64>>,
    location_count: u64,
    /// The names that the next packet has to introduce.
    new: InternedData,
}

#[derive(Default)]
struct Names(HashMap<String, u64>);

impl Names {
    fn id(&mut self, name: &str, new: &mut Vec<InternedName>) -> u64 {
        if let Some(id) = self.0.get(name) {
            return *id;
        }
        // Zero is no id.
        let id = self.0.len() as u64 + 1;
        self.0.insert(name.to_owned(), id);
        new.push(InternedName { iid: Some(id), name: Some(name.to_owned()) });
        id
    }
}

impl Interner {
    pub(super) fn category(&mut self, name: &str) -> u64 {
        self.categories.id(name, &mut self.new.event_categories)
    }

    pub(super) fn name(&mut self, name: &str) -> u64 {
        self.names.id(name, &mut self.new.event_names)
    }

    pub(super) fn annotation(&mut self, name: &str) -> u64 {
        self.annotations.id(name, &mut self.new.debug_annotation_names)
    }

    /// Returns the id of a probe's source location; the location's function is the probe's path.
    pub(super) fn location(&mut self, probe: &Definition) -> u64 {
        let known = self.locations.get(&probe.path).and_then(|lines| {
            lines.iter().find(|((file, line), _)| *file == probe.file && *line == probe.line)
        });
        if let Some((_, id)) = known {
            return *id;
        }
        self.location_count += 1;
        let id = self.location_count;
        let lines = self.locations.entry(probe.path.clone()).or_default();
        lines.insert((probe.file.clone(), probe.line), id);
        self.new.source_locations.push(SourceLocation {
            iid: Some(id),
            file_name: Some(probe.file.clone()),
            function_name: Some(probe.path.clone()),
            line_number: Some(probe.line),
        });
        id
    }

    /// Returns the names that were interned since the last call.
    pub(super) fn take(&mut self) -> Option<InternedData> {
        let new = std::mem::take(&mut self.new);
        (new != InternedData::default()).then_some(new)
    }
}
