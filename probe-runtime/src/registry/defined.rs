//! The definitions of all probes, by their numbers.
//!
//! The executable is never unloaded. If its definitions are numbered first, its table serves as the
//! list, and most programs need no other.
//!
//! Cost: 8 bytes for each probe that is not in that table.

use std::ptr;

use super::ProbeId;
use crate::abi::Definition;

/// The representative definition of each probe.
#[derive(Default)]
pub(super) struct Defined {
    /// The executable's definitions, for the first probes.
    fixed: &'static [Definition],
    /// The definitions of the other probes; `None` once all of a probe's objects are unloaded.
    others: Vec<Option<&'static Definition>>,
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
    pub(super) fn get(&self, id: ProbeId) -> Option<&'static Definition> {
        let at = id.index();
        self.fixed.get(at).or_else(|| self.others[at - self.fixed.len()])
    }

    /// Defines a probe that has no definition yet. Returns whether this definition represents it.
    pub(super) fn define(&mut self, id: ProbeId, definition: &'static Definition) -> bool {
        let first = match id.index().checked_sub(self.fixed.len()) {
            None => &self.fixed[id.index()],
            Some(at) => *self.others[at].get_or_insert(definition),
        };
        ptr::eq(first, definition)
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
        let at = |all: &Defined, at| all.get(id(at)).map(ptr::from_ref);
        assert_eq!((at(&all, 1), at(&all, 2)), (Some(&raw const FIXED[1]), None));
        assert!(all.define(id(1), &FIXED[1]) && !all.define(id(1), &OTHERS[0]));
        assert!(all.define(id(3), &OTHERS[0]) && !all.define(id(3), &OTHERS[1]));
        assert_eq!((at(&all, 1), at(&all, 3)), (Some(&raw const FIXED[1]), Some(&raw const OTHERS[0])));
        all.forget();
        assert_eq!((at(&all, 0), at(&all, 3)), (Some(&raw const FIXED[0]), None));
        assert!(all.define(id(3), &OTHERS[1]));
        assert_eq!(all.len(), 4);
        assert_eq!(FIXED.each_ref().map(|it| all.place(it)), [Some(id(0)), Some(id(1))]);
        assert_eq!(OTHERS.each_ref().map(|it| all.place(it)), [None, None]);
        assert_eq!(Defined::default().place(&FIXED[0]), None);
    }
}
