//! The allocator of counters: one for each probe, and ranges of them for attachments.
//!
//! | counters | owner | count |
//! |---|---|---|
//! | from 0 on, by [`ProbeId`] | a probe, as long as the process lives | hits that are only counted, once for all attachments that count them |
//! | from the other end | an attachment | its discovered calls; suppressed hits; hits for which another attachment is called |
//! | | a consumer ([`Cells`](super::Cells)) | whatever it likes |
//!
//! A probe's counter is never reset, as another attachment may be counting there: each attachment
//! keeps the value at which it began (`counting`). An attachment's own counters are zero when it
//! gets them.

use std::ops::Range;

use crate::engine::dispatch::{COUNTERS, CounterAt, slots};
use crate::engine::registry::ProbeId;

/// A last-fit allocator of the counters' numbers. Pure except for the reset.
#[derive(Debug)]
pub(super) struct Counters {
    /// The number of counters that belong to probes, from 0 on.
    probes: usize,
    /// Free ranges, ascending, never touching each other.
    free: Vec<Range<usize>>,
}

impl Default for Counters {
    fn default() -> Self {
        Self { probes: 0, free: vec![0..COUNTERS] }
    }
}

impl Counters {
    /// Reserves a counter for this probe and for each probe with a smaller number. Returns whether
    /// there was room.
    pub(super) fn reserve(&mut self, id: ProbeId) -> bool {
        let wanted = id.index() + 1;
        if wanted > self.probes {
            match self.free.first_mut().filter(|first| first.start == self.probes && first.end >= wanted) {
                Some(first) => first.start = wanted,
                None => return false,
            }
            self.free.retain(|range| !range.is_empty());
            self.probes = wanted;
        }
        true
    }

    /// Returns a probe's own counter, if it has one.
    #[inline]
    pub(super) fn of(&self, id: ProbeId) -> Option<CounterAt> {
        (id.index() < self.probes).then(|| CounterAt::new(id.index()))
    }

    /// Takes a range of counters, all zero. `None` if there is no room.
    pub(super) fn take(&mut self, len: usize) -> Option<Range<usize>> {
        let at = self.free.iter().rposition(|range| range.len() >= len)?;
        let end = self.free[at].end;
        self.free[at].end -= len;
        if self.free[at].is_empty() {
            self.free.remove(at);
        }
        Some(end - len..end)
    }

    /// Gives a range back, whose first `used` counters may have counted hits. No thread may be
    /// counting there any more.
    pub(super) fn give_back(&mut self, range: Range<usize>, used: usize) {
        for slot in slots() {
            range.clone().take(used).for_each(|number| slot.reset(CounterAt::new(number)));
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

    /// Joins the free range at index `at` with the next one, if they touch.
    fn join(&mut self, at: usize) {
        if at + 1 < self.free.len() && self.free[at].end == self.free[at + 1].start {
            self.free[at].end = self.free[at + 1].end;
            self.free.remove(at + 1);
        }
    }
}

/// Returns the sum of all threads' counters at each of these places, including threads that have
/// ended; 0 for `None`. Reads slot by slot: a slot's counters are adjacent, while the slots are so
/// far apart that the same counter in all of them would share a line of the caches.
pub(super) fn counts(places: &(impl ExactSizeIterator<Item = Option<CounterAt>> + Clone)) -> Vec<u64> {
    let mut counts = vec![0_u64; places.len()];
    for slot in slots() {
        for (count, place) in counts.iter_mut().zip(places.clone()) {
            *count += place.map_or(0, |place| slot.count(place));
        }
    }
    counts
}

/// Returns the sum of all threads' counters at one place. Uses no heap.
pub(super) fn count(place: CounterAt) -> u64 {
    slots().map(|slot| slot.count(place)).sum()
}

/// Returns the sums of a range of counters, as [`counts`] does.
pub(super) fn sums(range: Range<usize>) -> Vec<u64> {
    counts(&range.map(CounterAt::new).map(Some))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_is_given_back_is_joined() {
        let mut counters = Counters::default();
        let ranges: Vec<_> = (1..=4).map(|len| counters.take(len).unwrap()).collect();
        let from_end = |range: &Range<usize>| COUNTERS - range.end..COUNTERS - range.start;
        assert_eq!(ranges.iter().map(from_end).collect::<Vec<_>>(), [0..1, 1..3, 3..6, 6..10]);
        for at in [1, 3, 0, 2] {
            counters.insert(ranges[at].clone());
        }
        assert_eq!(counters.free, [0..COUNTERS]);
        assert_eq!(counters.take(COUNTERS + 1), None);
    }

    #[test]
    fn probes_have_the_first_ones_until_they_meet_others() {
        let mut counters = Counters::default();
        let id = ProbeId::new;
        assert_eq!(counters.of(id(0)), None);
        assert!(counters.reserve(id(4)));
        assert_eq!((counters.of(id(4)), counters.of(id(5))), (Some(CounterAt::new(4)), None));
        let rest = counters.take(COUNTERS - 8).unwrap();
        assert_eq!((rest.clone(), counters.take(4)), (8..COUNTERS, None));
        assert!(!counters.reserve(id(8)), "it is an attachment's");
        assert_eq!(counters.free, [5..8], "nothing has changed");
        assert!(counters.reserve(id(7)) && counters.reserve(id(2)));
        assert_eq!((counters.take(1), counters.reserve(id(8))), (None, false));
        counters.insert(rest);
        assert!(counters.reserve(id(8)));
        assert_eq!(counters.free, [9..COUNTERS]);
    }

    proptest! {
        #[test]
        fn ranges_never_overlap(
            steps in prop::collection::vec((any::<bool>(), 1_usize..50), 1..60),
            probes in prop::collection::vec(0_usize..400, 0..60),
        ) {
            let mut counters = Counters::default();
            let mut taken: Vec<Range<usize>> = Vec::new();
            let mut probes = probes.into_iter();
            for (take, len) in steps {
                if let Some(probe) = probes.next() {
                    prop_assert!(counters.reserve(ProbeId::new(probe)));
                }
                if take || taken.is_empty() {
                    let range = counters.take(len).unwrap();
                    prop_assert!(range.start >= counters.probes);
                    prop_assert!(taken.iter().all(|other| range.end <= other.start || other.end <= range.start));
                    taken.push(range);
                } else {
                    counters.insert(taken.swap_remove(len % taken.len()));
                }
            }
            taken.into_iter().for_each(|range| counters.insert(range));
            prop_assert_eq!(counters.free, vec![counters.probes..COUNTERS]);
        }
    }
}
