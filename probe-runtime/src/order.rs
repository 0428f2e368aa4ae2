//! Sorting of lists that are shown, compiled once for all types: the standard library's sorts take some 8 KB of text for each
//! type and order. Patching, where time counts, uses those.

use std::cmp::Ordering;

/// Sorts; what compares equal keeps its order. Costs a list of indices and a call through a pointer for each comparison.
pub(crate) fn sort_by<T>(list: &mut [T], mut compare: impl FnMut(&T, &T) -> Ordering) {
    let mut order = order(list.len(), &mut |a, b| compare(&list[a], &list[b]));
    // Place `at` gets what was at `order[at]`: along each cycle of the permutation, one swap brings one to its place.
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

#[inline(never)]
fn order(len: usize, compare: &mut dyn FnMut(usize, usize) -> Ordering) -> Vec<usize> {
    let mut order: Vec<usize> = (0..len).collect();
    order.sort_unstable_by(|a, b| in_order(compare, *a, *b));
    order
}

/// By the index, too: so the smaller one of the standard library's sorts keeps the order of what compares equal. It compares in
/// fifty places.
#[inline(never)]
fn in_order(compare: &mut dyn FnMut(usize, usize) -> Ordering, a: usize, b: usize) -> Ordering {
    compare(a, b).then(a.cmp(&b))
}

#[cfg(test)]
mod tests {
    use super::sort_by;

    proptest::proptest! {
        #[test]
        fn as_the_standard_library_does(mut list: Vec<(u8, String)>) {
            let mut expected = list.clone();
            expected.sort_by_key(|(key, _)| *key);
            sort_by(&mut list, |(a, _), (b, _)| a.cmp(b));
            proptest::prop_assert_eq!(list, expected);
        }
    }
}
