//! Dividing a probe's counter among the attachments that count.
//!
//! A probe has one counter for as long as the process lives. A hit that is only counted increments
//! it once, however many attachments count. Each of them has a part in the probe, which knows how
//! many of these hits are its own:
//!
//! | part | its hits | changes to the other state |
//! |---|---|---|
//! | thawed | the counter's present value, less the hits that are not its own | when hooks without it are published |
//! | frozen | the number when it was frozen | when it listens, and hooks with it are published |
//!
//! A sole part stays thawed while it is paused or off: no other part counts there, and its hook
//! stays. So switching a sole attachment reads no counter and publishes nothing. A frozen part
//! stays frozen until it listens again, so late hits of other attachments are not added to it.
//!
//! If some attachment of a probe counts and another is called, each attachment's own counters
//! count: one attachment may switch between counting and delivery meanwhile, and each hit is either
//! counted or delivered. A part notes this (`is_mixed`), so that the own counters of other parts
//! need not be read.
//!
//! A hit that is under way when hooks are published may increment the counter after a part has been
//! frozen or thawed. It then belongs to the parts that count at that moment. So an attachment that
//! is made or resumed may count one hit of each thread that began before. It misses no hit that
//! begins afterwards.
//!
//! Cost: one load per thread for each part that is frozen, thawed or read.
//!
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
//!
//! Words in every thread's slot for a consumer's own use, from the same stock as counters.
//!
//! The starting point of readings: the values at the last reset.
//!
//! A reset writes to no counter. It keeps a reading, which is subtracted from later ones. So no hit
//! waits for a reset, and each hit is counted on exactly one side of it.
//!
//! Life: none until the first reset ▸ each reset replaces it ▸ dropped with its owner. A forked
//! child finds it whole: see [`Held`].

#[cfg(all(test, loom))]
mod interleavings;

use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use super::DeliveryMode;
use super::attachments::{Attachments, is_paused};
use super::lock::{Held, lock};
use super::probe_attachments::{Part, Turning};
use crate::engine::dispatch::{COUNTERS, CounterAt, slots};
use crate::engine::error::Error;
use crate::engine::registry::ProbeId;

/// The number of probes whose counters are read together, slot by slot. Their list fits in a page,
/// so it needs no memory from the kernel.
const AT_ONCE: usize = 512;

impl Attachments {
    /// Freezes and thaws parts before new hooks of these probes' members are made.
    pub(super) fn turn(&mut self, ids: &[ProbeId]) {
        ids.chunks(AT_ONCE).for_each(|ids| self.turn_some(ids));
    }

    fn turn_some(&mut self, ids: &[ProbeId]) {
        let is_paused = is_paused(&self.all);
        let mut turning = Vec::new();
        for &id in ids {
            let (members, counter) = (&self.members[id.index()], self.counters.of(id));
            let Turning { turns, mixes } = members.turning(&self.parts, counter, &is_paused);
            if turns {
                turning.push((id, counter));
            }
            if mixes {
                members.mix(&mut self.parts);
            }
        }
        if turning.is_empty() {
            return;
        }
        // Read before the hooks are published, so that all hits of the new hooks are included.
        let sums = counts(&turning.iter().map(|(_, counter)| *counter));
        for ((id, _), sum) in turning.into_iter().zip(sums) {
            self.members[id.index()].turn(&mut self.parts, sum, &is_paused, |part| {
                if let Some(attached) = &self.all[part.attachment()] {
                    let frozen = attached.frozen.get();
                    attached.frozen.set(if part.is_frozen { frozen + 1 } else { frozen - 1 });
                }
            });
        }
    }

    /// Returns the count of each of an attachment's probes.
    pub(super) fn counted(&self, attachment: usize) -> Vec<(ProbeId, u64)> {
        let Some(attached) =
            self.attached(attachment).filter(|attached| attached.delivery != DeliveryMode::Delivered)
        else {
            return Vec::new();
        };
        attached.ids.iter().copied().zip(self.counted_of(attachment, &attached.ids)).collect()
    }

    /// Returns the count of each of these probes for an attachment; 0 for probes that are not its
    /// own.
    pub(super) fn counted_of(&self, attachment: usize, ids: &[ProbeId]) -> Vec<u64> {
        let part = |id: &ProbeId| self.members(*id)?.part(&self.parts, attachment);
        let parts: Vec<Option<&Part>> = ids.iter().map(part).collect();
        let counters = ids.iter().zip(&parts).map(|(id, part)| {
            part.filter(|part| part.action.counts() && !part.is_frozen).and_then(|_| self.counters.of(*id))
        });
        let sums = counts(&counters);
        let told = |(part, sum): (&Option<_>, _)| part.map_or(0, |part: &Part| part.counted(sum));
        let mut counted: Vec<u64> = parts.iter().zip(sums).map(told).collect();
        if let Some(state) = self.attached(attachment).and_then(|attached| attached.join_state.as_ref()) {
            state.add_first_hits(ids, &mut counted);
        }
        if parts.iter().flatten().any(|part| part.is_mixed) {
            let counters = parts.iter().map(|part| part.filter(|part| part.is_mixed)?.action.counter());
            counted.iter_mut().zip(counts(&counters)).for_each(|(counted, own)| *counted += own);
        }
        counted
    }

    /// Returns the number of an attachment's suppressed hits.
    pub(super) fn suppressed(&self, attachment: usize) -> u64 {
        let attached =
            self.attached(attachment).filter(|attached| attached.delivery != DeliveryMode::Counted);
        attached.map_or(0, |attached| count(CounterAt::new(attached.counters.start)))
    }
}

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

/// A few words of each slot, zero at first. Dropping it gives them back; no thread may use them any
/// more then.
#[derive(Debug)]
pub(crate) struct Cells<const N: usize> {
    range: Range<usize>,
    at: [CounterAt; N],
}

impl<const N: usize> Cells<N> {
    /// Takes `N` words of each slot.
    ///
    /// # Errors
    /// [`Error::OutOfCounters`] if fewer than `N` are left.
    pub(crate) fn take() -> Result<Self, Error> {
        let range = lock().attachments.counters.take(N).ok_or(Error::OutOfCounters { wanted: N })?;
        let at = std::array::from_fn(|number| CounterAt::new(range.start + number));
        Ok(Self { range, at })
    }

    /// Returns their places in each slot.
    #[inline(always)]
    pub(crate) fn at(&self) -> [CounterAt; N] {
        self.at
    }
}

impl<const N: usize> Drop for Cells<N> {
    fn drop(&mut self) {
        lock().attachments.counters.give_back(self.range.clone(), N);
    }
}

/// The reading that is subtracted from later ones, if there is one.
pub(crate) struct Baseline<T> {
    /// Whether a reset has begun. Readings take no lock before.
    is_reset: AtomicBool,
    began: Held<Option<Arc<T>>>,
}

impl<T: Clone> Baseline<T> {
    /// Returns the reading of `read`, less the baseline.
    pub(crate) fn now(&self, read: impl FnOnce() -> T, since: fn(&T, &T) -> T) -> T {
        // Taken before the reading, so that the reading is no less.
        let began = self.is_reset.load(Relaxed).then(|| self.began.get());
        match began.as_deref() {
            Some(Some(began)) => since(&read(), began),
            _ => read(),
        }
    }

    /// Returns the reading less the baseline, and makes the reading the new baseline. Of several
    /// concurrent resets, each begins where another one ends.
    pub(crate) fn reset(&self, read: impl Fn() -> T, since: fn(&T, &T) -> T) -> T {
        self.is_reset.store(true, Relaxed);
        loop {
            let began = self.began.get();
            let now = Arc::new(read());
            if self.began.replace(&began, &Arc::new(Some(Arc::clone(&now)))) {
                return match &*began {
                    Some(began) => since(&now, began),
                    None => T::clone(&now),
                };
            }
        }
    }
}

impl<T> Default for Baseline<T> {
    fn default() -> Self {
        Self { is_reset: AtomicBool::new(false), began: Held::new(None) }
    }
}

impl<T> fmt::Debug for Baseline<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Baseline").field("is_reset", &self.is_reset).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;
    use std::{cell, thread};

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

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "as of any reading")]
    fn since(now: &u64, earlier: &u64) -> u64 {
        now - earlier
    }

    #[test]
    fn readings_begin_at_the_last_reset() {
        let baseline = Baseline::default();
        assert_eq!(baseline.now(|| 3, since), 3);
        assert_eq!(baseline.reset(|| 5, since), 5);
        assert_eq!(baseline.now(|| 5, since), 0);
        assert_eq!(baseline.reset(|| 12, since), 7);
        assert_eq!(baseline.now(|| 13, since), 1);
        let kept = Arc::downgrade(&baseline.began.get());
        let is_kept = || kept.upgrade().is_some();
        assert!(is_kept());
        drop(baseline);
        assert!(!is_kept());
    }

    /// A reset that is overtaken between its reading and its end reads anew.
    #[test]
    fn a_reset_that_is_overtaken_reads_again() {
        let baseline = Baseline::default();
        let (reads, overtaker) = (cell::Cell::new(10), cell::Cell::new(0));
        let read = || {
            reads.set(reads.get() + 1);
            let read = reads.get();
            if read == 11 {
                overtaker.set(baseline.reset(|| 40, since));
                reads.set(40);
            }
            read
        };
        assert_eq!((baseline.reset(read, since), overtaker.get()), (1, 40));
    }

    #[test]
    fn resets_of_several_threads_share_all_between_them() {
        let (baseline, count) = (Baseline::default(), AtomicU64::new(0));
        let told: u64 = thread::scope(|scope| {
            let resets =
                || (0..200).map(|_| baseline.reset(|| count.fetch_add(1, Relaxed) + 1, since)).sum::<u64>();
            let threads = [(); 3].map(|()| scope.spawn(resets));
            threads.into_iter().map(|thread| thread.join().unwrap()).sum()
        });
        let rest = baseline.now(|| count.load(Relaxed), since);
        assert_eq!(told + rest, count.into_inner());
    }
}
