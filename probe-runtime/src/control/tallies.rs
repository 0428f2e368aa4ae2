//! Which counters are in use: ranges of them, one for each attachment.

use std::ops::Range;

use crate::dispatch::{TALLIES, TallyAt, slots};

/// A first-fit allocator over the counters' numbers. Pure but for the reset.
#[derive(Debug)]
pub(super) struct Tallies {
    /// Ascending, never touching each other.
    free: Vec<Range<usize>>,
}

impl Default for Tallies {
    fn default() -> Self {
        Self { free: vec![0..TALLIES] }
    }
}

impl Tallies {
    /// A range of counters, all zero; `None` if there is no room.
    pub(super) fn take(&mut self, len: usize) -> Option<Range<usize>> {
        let at = self.free.iter().position(|range| range.len() >= len)?;
        let start = self.free[at].start;
        self.free[at].start += len;
        if self.free[at].is_empty() {
            self.free.remove(at);
        }
        Some(start..start + len)
    }

    /// Gives a range back. Nobody may be counting there any more.
    pub(super) fn give_back(&mut self, range: Range<usize>) {
        for slot in slots() {
            range.clone().for_each(|number| slot.reset(TallyAt::new(number)));
        }
        self.insert(range);
    }

    fn insert(&mut self, range: Range<usize>) {
        if range.is_empty() {
            return;
        }
        let at = self.free.partition_point(|free| free.start < range.start);
        self.free.insert(at, range);
        self.join(at);
        if at > 0 {
            self.join(at - 1);
        }
    }

    /// Joins the range at this place with the next, if they touch.
    fn join(&mut self, at: usize) {
        if at + 1 < self.free.len() && self.free[at].end == self.free[at + 1].start {
            self.free[at].end = self.free[at + 1].end;
            self.free.remove(at + 1);
        }
    }
}

/// What all threads, also those that have ended, have counted at each of these places, if it is
/// one. Slot by slot: a slot's counters lie together, and slots lie so far apart that one counter's
/// in all of them would share a line of the caches.
pub(super) fn counts(numbers: &(impl ExactSizeIterator<Item = Option<usize>> + Clone)) -> Vec<u64> {
    let mut counts = vec![0_u64; numbers.len()];
    for slot in slots() {
        for (count, number) in counts.iter_mut().zip(numbers.clone()) {
            *count += number.map_or(0, |number| slot.count(TallyAt::new(number)));
        }
    }
    counts
}

/// The same at all of these.
pub(super) fn sums(range: Range<usize>) -> Vec<u64> {
    counts(&range.map(Some))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_is_given_back_is_joined() {
        let mut tallies = Tallies::default();
        let ranges: Vec<_> = (1..=4).map(|len| tallies.take(len).unwrap()).collect();
        assert_eq!(ranges, [0..1, 1..3, 3..6, 6..10]);
        for at in [1, 3, 0, 2] {
            tallies.insert(ranges[at].clone());
        }
        assert_eq!(tallies.free, [0..TALLIES]);
        assert_eq!(tallies.take(TALLIES + 1), None);
    }

    proptest! {
        #[test]
        fn ranges_never_overlap(steps in prop::collection::vec((any::<bool>(), 1_usize..50), 1..60)) {
            let mut tallies = Tallies::default();
            let mut taken: Vec<Range<usize>> = Vec::new();
            for (take, len) in steps {
                if take || taken.is_empty() {
                    let range = tallies.take(len).unwrap();
                    prop_assert!(taken.iter().all(|other| range.end <= other.start || other.end <= range.start));
                    taken.push(range);
                } else {
                    tallies.insert(taken.swap_remove(len % taken.len()));
                }
            }
            taken.into_iter().for_each(|range| tallies.insert(range));
            prop_assert_eq!(tallies.free, vec![0..TALLIES]);
        }
    }
}
