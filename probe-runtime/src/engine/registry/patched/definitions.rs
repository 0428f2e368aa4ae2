//! The definitions of all probes, by their numbers; the definitions of one object, with their
//! probes; and the numbers that definitions get.
//!
//! The executable is never unloaded. If its definitions are numbered first, its table serves as the
//! list, and most programs need no other. A definition gets the id that its identity had before, or
//! a new one.
//!
//! Cost: 8 bytes for each probe that is not in that table, and one hash of each definition's text,
//! unless all definitions are the executable's.

// Safety: relies on the registry, which forgets a definition together with its object, and on
// `KeptLoaded`: no object that the registry knows is unloaded meanwhile.
#![expect(unsafe_code, reason = "see above")]

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::ops::Range;
use std::ptr::{self, NonNull};

use super::provider::{self, CallSite};
use super::tables::Tables;
use super::{ProbeId, Registry};
use crate::engine::os::objects::{Frozen, KeptLoaded};
use probe_core::abi::Definition;

/// The place of a definition in an object that may be unloaded. The registry makes it of a
/// definition of an object that it knows, and forgets it with the object.
#[derive(Clone, Copy)]
pub(super) struct DefinitionPtr(NonNull<Definition>);

// SAFETY: definitions are `Sync`, and only `get` reads one.
unsafe impl Send for DefinitionPtr {}

impl DefinitionPtr {
    pub(super) fn of(definition: &Definition) -> Self {
        Self(NonNull::from(definition))
    }

    pub(super) fn get(self, _loaded: KeptLoaded<'_>) -> &Definition {
        // SAFETY: of an object that the registry knows, or of a discovery that it lists. `_loaded`
        // proves that such objects stay loaded. A discovery's place, and its text, are given back
        // only after a refresh has taken the discovery off the list.
        unsafe { self.0.as_ref() }
    }
}

/// The representative definition of each probe.
#[derive(Default)]
pub(super) struct Definitions {
    /// The executable's definitions, for the first probes.
    fixed: &'static [Definition],
    /// The definitions of the other probes; `None` once all of a probe's objects are unloaded.
    others: Vec<Option<DefinitionPtr>>,
}

impl Definitions {
    /// Returns the number of probes, unloaded ones included.
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.fixed.len() + self.others.len()
    }

    /// Numbers the executable's probes by their places in its table.
    ///
    /// # Panics
    /// If there are probes already.
    pub(super) fn fix(&mut self, table: &'static [Definition]) {
        assert_eq!(self.len(), 0, "numbers stay what they are");
        self.fixed = table;
    }

    /// Returns the number that a definition of that table has by its place.
    pub(super) fn place(&self, definition: &Definition) -> Option<ProbeId> {
        let offset = ptr::from_ref(definition).addr().checked_sub(self.fixed.as_ptr().addr())?;
        let at = offset / size_of::<Definition>();
        (at < self.fixed.len()).then(|| ProbeId::new(at))
    }

    /// Adds a probe; returns its number.
    pub(super) fn add(&mut self) -> ProbeId {
        self.others.push(None);
        ProbeId::new(self.len() - 1)
    }

    #[inline]
    pub(super) fn get<'a>(&self, id: ProbeId, loaded: KeptLoaded<'a>) -> Option<&'a Definition> {
        let at = id.index();
        self.fixed.get(at).or_else(|| self.others[at - self.fixed.len()].map(|it| it.get(loaded)))
    }

    /// Returns the address of a probe's definition.
    pub(super) fn address(&self, id: ProbeId) -> Option<usize> {
        let at = id.index();
        let fixed = self.fixed.get(at).map(|definition| ptr::from_ref(definition).addr());
        fixed.or_else(|| Some(self.others[at - self.fixed.len()]?.0.addr().get()))
    }

    /// Defines a probe that has no definition yet. Returns whether this definition represents it.
    pub(super) fn define(&mut self, id: ProbeId, definition: DefinitionPtr) -> bool {
        let first = match id.index().checked_sub(self.fixed.len()) {
            None => NonNull::from(&self.fixed[id.index()]),
            Some(at) => self.others[at].get_or_insert(definition).0,
        };
        first == definition.0
    }

    /// Forgets the definitions that may be unloaded by now.
    pub(super) fn forget(&mut self) {
        self.others.fill(None);
    }
}

/// The definitions of one object, and their probes.
pub(super) struct DefinitionRange {
    range: Range<usize>,
    ids: Ids,
}

enum Ids {
    /// This many definitions; each definition's place is its probe's number.
    Places(usize),
    /// One id for each definition, or [`ProbeId::UNKNOWN`].
    Each(Vec<ProbeId>),
}

impl DefinitionRange {
    /// Returns a range of definitions that have no probes yet.
    pub(super) fn unknown(range: Range<usize>) -> Self {
        let ids = vec![ProbeId::UNKNOWN; range.len() / size_of::<Definition>()];
        Self { range, ids: Ids::Each(ids) }
    }

    /// Returns a range of `count` definitions whose places are their probes' numbers.
    pub(super) fn places(range: Range<usize>, count: usize) -> Self {
        Self { range, ids: Ids::Places(count) }
    }

    pub(super) fn is(&self, range: &Range<usize>) -> bool {
        self.range == *range
    }

    #[inline]
    pub(super) fn id_of(&self, definition: usize) -> Option<ProbeId> {
        let offset = definition.checked_sub(self.range.start)?;
        let at = offset / size_of::<Definition>();
        if offset % size_of::<Definition>() != 0 {
            return None;
        }
        match &self.ids {
            Ids::Places(count) => (at < *count).then(|| ProbeId::new(at)),
            Ids::Each(ids) => ids.get(at).copied().filter(|id| *id != ProbeId::UNKNOWN),
        }
    }

    pub(super) fn ids(&self) -> impl Iterator<Item = ProbeId> + '_ {
        let (places, each) = match &self.ids {
            Ids::Places(count) => (*count, &[][..]),
            Ids::Each(ids) => (0, &ids[..]),
        };
        let each = each.iter().copied().filter(|id| *id != ProbeId::UNKNOWN);
        (0..places).map(ProbeId::new).chain(each)
    }

    pub(super) fn set(&mut self, definition: usize, id: ProbeId) {
        if !self.range.contains(&definition) {
            return;
        }
        if let Ids::Places(count) = self.ids {
            self.ids = Ids::Each((0..count).map(ProbeId::new).collect());
        }
        let place = (definition - self.range.start) / size_of::<Definition>();
        if let Ids::Each(ids) = &mut self.ids
            && let Some(known) = ids.get_mut(place)
        {
            *known = id;
        }
    }

    /// Forgets the probe of the definition at this address, so no site leads to it from now on.
    pub(super) fn forget(&mut self, definition: usize) {
        self.set(definition, ProbeId::UNKNOWN);
    }
}

pub(super) fn identity(definition: &Definition) -> u64 {
    let mut hasher = DefaultHasher::new();
    definition.identity().hash(&mut hasher);
    hasher.finish()
}

impl Registry {
    /// Gives each definition its id: the one that its identity had before, or a new one.
    pub(super) fn assign_ids(
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
            self.all_definitions.fix(definitions);
            self.ranges = vec![DefinitionRange::places(tables.definition_range(), definitions.len())];
            return;
        }
        let old = std::mem::take(&mut self.ranges);
        self.all_definitions.forget();
        self.copies.clear();
        for tables in tables {
            // The executable is never unloaded, so its addresses keep their meaning.
            let range = tables.definition_range();
            let same = old.iter().find(|old| tables.is_main() && old.is(&range));
            self.assign_ids_in(tables, same, compare);
        }
        self.assign_discovered_ids(frozen, living);
    }

    /// Names the definitions of one object. `same` is the range that already names these
    /// definitions.
    pub(super) fn assign_ids_in(
        &mut self,
        tables: &Tables<'_>,
        same: Option<&DefinitionRange>,
        compare: bool,
    ) {
        let mut range = DefinitionRange::unknown(tables.definition_range());
        for definition in tables.definitions() {
            let addr = ptr::from_ref(definition).addr();
            let is_readable = !compare || tables.is_readable(definition);
            let identity = (compare && is_readable).then(|| identity(definition));
            let known = (self.all_definitions.place(definition))
                .or_else(|| same?.id_of(addr))
                .or_else(|| identity.and_then(|identity| self.identities.get(&identity).copied()));
            if known.is_none() && !is_readable {
                // A definition without an id has no sites.
                continue;
            }
            let id = known.unwrap_or_else(|| self.all_definitions.add());
            self.define(id, definition);
            if let Some(identity) = identity {
                self.identities.insert(identity, id);
            }
            range.set(addr, id);
        }
        self.ranges.push(range);
    }

    /// Names discovered definitions, which no table lists.
    fn assign_discovered_ids(&mut self, frozen: &Frozen, living: &[&'static dyn CallSite]) {
        if !provider::IS_POSSIBLE {
            return;
        }
        self.discovered.clear();
        for discovery in living {
            let Some(definition) = discovery.definition(frozen) else { continue };
            let all = &mut self.all_definitions;
            let id = *self.identities.entry(identity(definition)).or_insert_with(|| all.add());
            self.define(id, definition);
            self.discovered.add(id, *discovery);
        }
    }

    /// Adds a probe with the next number.
    pub(super) fn add_probe(&mut self) {
        self.all_definitions.add();
        self.sites_by_probe.add_probe();
    }

    /// Adds a definition of an object that the registry knows from now on.
    pub(super) fn define(&mut self, id: ProbeId, definition: &Definition) {
        let definition = DefinitionPtr::of(definition);
        if !self.all_definitions.define(id, definition) {
            self.copies.entry(id).or_default().push(definition);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::os::objects::{Object, Segment, freeze};
    use probe_core::abi::{Kind, Note};

    #[test]
    fn what_is_fixed_stays_when_the_others_are_forgotten() {
        static FIXED: [Definition; 2] = Definition::entry_and_exit("", "", "", 1, 1);
        static OTHERS: [Definition; 2] = Definition::entry_and_exit("", "", "", 2, 1);
        let id = ProbeId::new;
        let mut all = Definitions::default();
        all.fix(&FIXED);
        assert_eq!((all.add(), all.add(), all.len()), (id(2), id(3), 4));
        let addr = |definition| Some(ptr::from_ref::<Definition>(definition).addr());
        assert_eq!((all.address(id(1)), all.address(id(2))), (addr(&FIXED[1]), None));
        let define = |all: &mut Definitions, at, it| all.define(id(at), DefinitionPtr::of(it));
        assert!(define(&mut all, 1, &FIXED[1]) && !define(&mut all, 1, &OTHERS[0]));
        assert!(define(&mut all, 3, &OTHERS[0]) && !define(&mut all, 3, &OTHERS[1]));
        assert_eq!((all.address(id(1)), all.address(id(3))), (addr(&FIXED[1]), addr(&OTHERS[0])));
        all.forget();
        assert_eq!((all.address(id(0)), all.address(id(3))), (addr(&FIXED[0]), None));
        assert!(define(&mut all, 3, &OTHERS[1]));
        assert_eq!(all.len(), 4);
        assert_eq!(FIXED.each_ref().map(|it| all.place(it)), [Some(id(0)), Some(id(1))]);
        assert_eq!(OTHERS.each_ref().map(|it| all.place(it)), [None, None]);
        assert_eq!(Definitions::default().place(&FIXED[0]), None);
    }

    const SIZE: usize = size_of::<Definition>();

    #[test]
    fn each_definition_has_its_probe_until_it_is_forgotten() {
        let range = 0x1000..0x1000 + 3 * SIZE;
        let id = ProbeId::new;
        let mut each = DefinitionRange::unknown(range.clone());
        assert_eq!(each.ids().count(), 0);
        (0..3).for_each(|at| each.set(0x1000 + at * SIZE, id(at)));
        for mut all in [each, DefinitionRange::places(range.clone(), 3)] {
            assert!(all.is(&range));
            assert_eq!(all.ids().collect::<Vec<_>>(), [id(0), id(1), id(2)]);
            let ids = |all: &DefinitionRange| {
                [0, SIZE - 1, SIZE, 2 * SIZE, 3 * SIZE].map(|offset| all.id_of(0x1000 + offset))
            };
            assert_eq!(ids(&all), [Some(id(0)), None, Some(id(1)), Some(id(2)), None]);
            assert_eq!(all.id_of(0x1000 - SIZE), None);
            all.forget(0x1000 + SIZE);
            all.forget(0x1000 + 3 * SIZE);
            assert_eq!(ids(&all), [Some(id(0)), None, None, Some(id(2)), None]);
            assert_eq!(all.ids().collect::<Vec<_>>(), [id(0), id(2)]);
        }
    }

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
            registry.assign_ids(frozen, &[tables], &[]);
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
