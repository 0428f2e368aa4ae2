//! The address range of one object's definitions, and the probe of each.

use std::ops::Range;

use super::ProbeId;
use probe_core::abi::Definition;

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

#[cfg(test)]
mod tests {
    use super::*;

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
}
