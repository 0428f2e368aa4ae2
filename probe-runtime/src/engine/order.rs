//! Sorting for reports and look-ups, compiled once for all types: the standard library's sorts take
//! about 8 KB of text for each type and order. With those and `BTreeMap` in place of this module,
//! the text of the release build of `examples/quickstart`, which has `Count` alone, grows from
//! 1,520 to 1,592 KB. Patching uses the standard sorts, since it must be fast.

use std::cmp::Ordering;

/// Sorts the list; equal elements keep their order. Costs a list of indices, and a call through a
/// pointer for each comparison.
pub(crate) fn sort_by<T>(list: &mut [T], mut compare: impl FnMut(&T, &T) -> Ordering) {
    let mut order = order(list.len(), &mut |a, b| compare(&list[a], &list[b]));
    // Place `at` gets the element of place `order[at]`. Along each cycle of the permutation, each
    // swap brings one element to its place.
    for start in 0..list.len() {
        let mut at = start;
        loop {
            let from = std::mem::replace(&mut order[at], at);
            if from == start {
                break;
            }
            list.swap(at, from);
            at = from;
        }
    }
}

/// A list of pairs sorted by key, in place of a map that is built once and then only read. The
/// standard library's maps take about 5 KB of text for each key type.
pub(crate) struct Sorted<Key, Value>(Vec<(Key, Value)>);

impl<Key: Ord, Value> Sorted<Key, Value> {
    pub(crate) fn get(&self, key: &Key) -> Option<&Value> {
        let at = self.0.binary_search_by(|(own, _)| own.cmp(key)).ok()?;
        Some(&self.0[at].1)
    }
}

impl<Key: Ord, Value> FromIterator<(Key, Value)> for Sorted<Key, Value> {
    /// Collects pairs whose keys are all different.
    fn from_iter<Pairs: IntoIterator<Item = (Key, Value)>>(pairs: Pairs) -> Self {
        let mut pairs: Vec<_> = pairs.into_iter().collect();
        sort_by(&mut pairs, |(a, _), (b, _)| a.cmp(b));
        Self(pairs)
    }
}

#[inline(never)]
fn order(len: usize, compare: &mut dyn FnMut(usize, usize) -> Ordering) -> Vec<usize> {
    let mut order: Vec<usize> = (0..len).collect();
    order.sort_by(|a, b| compare(*a, *b));
    order
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::{Sorted, sort_by};

    proptest::proptest! {
        #[test]
        fn sorts_as_the_standard_library_does(mut list: Vec<(u8, String)>) {
            let mut expected = list.clone();
            expected.sort_by_key(|(key, _)| *key);
            sort_by(&mut list, |(a, _), (b, _)| a.cmp(b));
            proptest::prop_assert_eq!(list, expected);
        }

        #[test]
        fn finds_all_that_a_map_finds(map: BTreeMap<u8, String>) {
            let sorted: Sorted<_, _> = map.iter().rev().map(|(key, value)| (*key, value)).collect();
            for key in 0..=u8::MAX {
                proptest::prop_assert_eq!(sorted.get(&key).copied(), map.get(&key));
            }
        }
    }
}
