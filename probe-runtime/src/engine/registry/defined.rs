//! The definitions of all probes, by their numbers.
//!
//! The executable is never unloaded. If its definitions are numbered first, its table serves as the
//! list, and most programs need no other.
//!
//! Cost: 8 bytes for each probe that is not in that table.

// Safety: relies on the registry, which forgets a definition together with its object, and on
// `KeptLoaded`: no object that the registry knows is unloaded meanwhile.
#![expect(unsafe_code, reason = "see above")]

use std::ptr::{self, NonNull};

use super::ProbeId;
use crate::engine::os::objects::KeptLoaded;
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
pub(super) struct Defined {
    /// The executable's definitions, for the first probes.
    fixed: &'static [Definition],
    /// The definitions of the other probes; `None` once all of a probe's objects are unloaded.
    others: Vec<Option<DefinitionPtr>>,
}

impl Defined {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_fixed_stays_when_the_others_are_forgotten() {
        static FIXED: [Definition; 2] = Definition::entry_and_exit("", "", "", "", 1, 1);
        static OTHERS: [Definition; 2] = Definition::entry_and_exit("", "", "", "", 2, 1);
        let id = ProbeId::new;
        let mut all = Defined::default();
        all.fix(&FIXED);
        assert_eq!((all.add(), all.add(), all.len()), (id(2), id(3), 4));
        let addr = |definition| Some(ptr::from_ref::<Definition>(definition).addr());
        assert_eq!((all.address(id(1)), all.address(id(2))), (addr(&FIXED[1]), None));
        let define = |all: &mut Defined, at, it| all.define(id(at), DefinitionPtr::of(it));
        assert!(define(&mut all, 1, &FIXED[1]) && !define(&mut all, 1, &OTHERS[0]));
        assert!(define(&mut all, 3, &OTHERS[0]) && !define(&mut all, 3, &OTHERS[1]));
        assert_eq!((all.address(id(1)), all.address(id(3))), (addr(&FIXED[1]), addr(&OTHERS[0])));
        all.forget();
        assert_eq!((all.address(id(0)), all.address(id(3))), (addr(&FIXED[0]), None));
        assert!(define(&mut all, 3, &OTHERS[1]));
        assert_eq!(all.len(), 4);
        assert_eq!(FIXED.each_ref().map(|it| all.place(it)), [Some(id(0)), Some(id(1))]);
        assert_eq!(OTHERS.each_ref().map(|it| all.place(it)), [None, None]);
        assert_eq!(Defined::default().place(&FIXED[0]), None);
    }
}
