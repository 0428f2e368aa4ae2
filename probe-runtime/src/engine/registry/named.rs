//! Assigns probes to definitions. A definition gets the id that its identity had before, or a new
//! one.
//!
//! Cost: one hash of each definition's text, unless all definitions are the executable's.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::ptr;

use super::ProbeId;
use super::defined::DefinitionPtr;
use super::loaded::Registry;
use super::provider::{self, CallSite};
use super::ranges::DefinitionRange;
use super::tables::Tables;
use crate::engine::os::objects::Frozen;
use probe_core::abi::Definition;

pub(super) fn identity(definition: &Definition) -> u64 {
    let mut hasher = DefaultHasher::new();
    definition.identity().hash(&mut hasher);
    hasher.finish()
}

impl Registry {
    /// Gives each definition its id: the one that its identity had before, or a new one.
    pub(super) fn name_probes(
        &mut self,
        frozen: &Frozen,
        tables: &[Tables<'_>],
        living: &[&'static dyn CallSite],
    ) {
        // If only the executable has probes, an address is identity enough and no text is read.
        let has_others = !tables.iter().all(Tables::is_main) || !living.is_empty();
        let compare = has_others || !self.identities.is_empty();
        if let ([tables], false, 0) = (tables, compare, self.len())
            && let Some(definitions) = tables.definitions_for_good()
        {
            self.defined.fix(definitions);
            self.ranges = vec![DefinitionRange::places(tables.definition_range(), definitions.len())];
            return;
        }
        let old = std::mem::take(&mut self.ranges);
        self.defined.forget();
        self.copies.clear();
        for tables in tables {
            // The executable is never unloaded, so its addresses keep their meaning.
            let range = tables.definition_range();
            let same = old.iter().find(|old| tables.is_main() && old.is(&range));
            self.name_table(tables, same, compare);
        }
        self.name_discovered(frozen, living);
    }

    /// Names the definitions of one object. `same` is the range that already names these
    /// definitions.
    pub(super) fn name_table(&mut self, tables: &Tables<'_>, same: Option<&DefinitionRange>, compare: bool) {
        let mut range = DefinitionRange::unknown(tables.definition_range());
        for definition in tables.definitions() {
            let addr = ptr::from_ref(definition).addr();
            let is_readable = !compare || tables.is_readable(definition);
            let identity = (compare && is_readable).then(|| identity(definition));
            let known = (self.defined.place(definition))
                .or_else(|| same?.id_of(addr))
                .or_else(|| identity.and_then(|identity| self.identities.get(&identity).copied()));
            if known.is_none() && !is_readable {
                // A definition without an id has no sites.
                continue;
            }
            let id = known.unwrap_or_else(|| self.defined.add());
            self.define(id, definition);
            if let Some(identity) = identity {
                self.identities.insert(identity, id);
            }
            range.set(addr, id);
        }
        self.ranges.push(range);
    }

    /// Names discovered definitions, which no table lists.
    fn name_discovered(&mut self, frozen: &Frozen, living: &[&'static dyn CallSite]) {
        if !provider::IS_POSSIBLE {
            return;
        }
        self.discovered.clear();
        for discovery in living {
            let Some(definition) = discovery.definition(frozen) else { continue };
            let defined = &mut self.defined;
            let id = *self.identities.entry(identity(definition)).or_insert_with(|| defined.add());
            self.define(id, definition);
            self.discovered.add(id, *discovery);
        }
    }

    /// Adds a probe with the next number.
    pub(super) fn add_probe(&mut self) {
        self.defined.add();
        self.grouped.add_probe();
    }

    /// Adds a definition of an object that the registry knows from now on.
    pub(super) fn define(&mut self, id: ProbeId, definition: &Definition) {
        let definition = DefinitionPtr::of(definition);
        if !self.defined.define(id, definition) {
            self.copies.entry(id).or_default().push(definition);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::os::objects::{Object, Segment, freeze};
    use probe_core::abi::{Kind, Note};

    /// Text that is too long for a definition to hold.
    const LONG: &str = match str::from_utf8(&[b'a'; 200]) {
        Ok(text) => text,
        Err(_) => "",
    };
    static ALL: [Definition; 2] = [
        Definition::new(Kind::Point, "a::b", "a::b", "", "", 1, 1),
        Definition::new(Kind::Point, LONG, LONG, "", "", 2, 1),
    ];

    /// Returns the probes of an object that holds `ALL`, but not its long text.
    fn named(is_main: bool) -> [Option<ProbeId>; 2] {
        let range = |start: usize, len: usize| start..start + len;
        let definitions = range(ALL.as_ptr().addr(), size_of_val(&ALL));
        let mut note = Box::new([0_i64; 4]);
        let note_at = note.as_ptr().addr();
        let nowhere = definitions.start;
        for (field, to) in [nowhere, nowhere, definitions.start, definitions.end].into_iter().enumerate() {
            note[field] = to.wrapping_sub(note_at + field * size_of::<i64>()).cast_signed() as i64;
        }
        let notes = range(note_at, size_of::<Note>());
        let segments = [definitions, notes.clone()].map(|range| Segment::of(range, false)).to_vec();
        let object = Object { name: String::new(), base: 0, segments, notes: vec![notes], is_main };
        let objects = [object];
        let mut registry = Registry::default();
        freeze(|frozen| {
            let tables = Tables::of(frozen, &objects[0], &objects).unwrap();
            registry.name_probes(frozen, &[tables], &[]);
        });
        ALL.each_ref().map(|definition| registry.id_of(definition))
    }

    #[test]
    #[cfg_attr(miri, ignore = "reads through addresses, as of loaded objects")]
    fn text_that_lies_in_no_object_is_waited_for_unless_it_is_the_executables() {
        let id = ProbeId::new;
        assert_eq!(named(true), [Some(id(0)), Some(id(1))]);
        assert_eq!(named(false), [Some(id(0)), None]);
    }
}
