//! Counters, and how a probe's counter is divided among the attachments that count.
//!
//! # Owners
//! | counters | owner | count |
//! |---|---|---|
//! | from 0 on, by [`ProbeId`] | a probe, as long as the process lives | hits that are only counted, once for all attachments that count them |
//! | from the other end | an attachment | its discovered calls; suppressed hits; hits for which another attachment is called |
//! | | a consumer ([`SlotWords`]) | whatever it likes |
//!
//! An attachment's own counters are zero when it gets them. A probe's counter is never reset, as
//! another attachment may be counting there: each attachment keeps the value at which it began.
//!
//! # Division
//! A hit that is only counted increments the probe's counter once, however many attachments count.
//! Each of them has a slot in the probe, which knows how many of these hits are its own:
//!
//! | slot | its hits | changes to the other state |
//! |---|---|---|
//! | thawed | the counter's present value, less the hits that are not its own | when hooks without it are published |
//! | frozen | the number when it was frozen | when it listens, and hooks with it are published |
//!
//! A sole slot stays thawed while it is paused or off: no other slot counts there, and its hook
//! stays. So switching a sole attachment reads no counter and publishes nothing. A frozen slot
//! stays frozen until it listens again, so late hits of other attachments are not added to it.
//!
//! If some attachment of a probe counts and another is called, each attachment's own counters
//! count: one attachment may switch between counting and delivery meanwhile, and each hit is either
//! counted or delivered. A slot notes this (`uses_own`), so that the own counters of other slots
//! need not be read.
//!
//! A hit that is under way when hooks are published may increment the counter after a slot has been
//! frozen or thawed. It then belongs to the slots that count at that moment. So an attachment that
//! is made or resumed may count one hit of each thread that began before. It misses no hit that
//! begins afterwards.
//!
//! Cost: one load per thread for each slot that is frozen, thawed or read.
//!
//! # Resets
//! A reset writes to no counter. It keeps a reading, the [`Baseline`], which is subtracted from
//! later ones. So no hit waits for a reset, and each hit is counted on exactly one side of it.

#[cfg(all(test, loom))]
mod interleavings;

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::{fmt, iter};

use super::DeliveryMode;
use super::attachments::{AttachmentTable, is_paused};
use super::lock::{ForkSafe, lock};
use super::probe_attachments::AttachmentSlot;
use crate::engine::dispatch::{COUNTERS, CounterAt, slots};
use crate::engine::error::Error;
use crate::engine::registry::ProbeId;

/// The number of probes whose counters are read together. Their list fits in a page, so it needs no
/// memory from the kernel.
const PROBES_AT_ONCE: usize = 512;

impl AttachmentTable {
    /// Freezes and thaws slots before new hooks of these probes are made.
    pub(super) fn freeze_or_thaw(&mut self, ids: &[ProbeId]) {
        ids.chunks(PROBES_AT_ONCE).for_each(|ids| self.freeze_or_thaw_some(ids));
    }

    fn freeze_or_thaw_some(&mut self, ids: &[ProbeId]) {
        let is_paused = is_paused(&self.records);
        let mut changing = Vec::new();
        for &id in ids {
            let counter = self.counters.of_probe(id);
            let transition = self.probes.counter_transition(id, counter, &is_paused);
            if transition.freezes {
                changing.push((id, counter));
            }
            if transition.uses_own {
                self.probes.use_own_counters(id);
            }
        }
        if changing.is_empty() {
            return;
        }
        // Read before the hooks are published, so that all hits of the new hooks are included.
        let sums = sum_each(&changing.iter().map(|(_, counter)| *counter));
        for ((id, _), sum) in changing.into_iter().zip(sums) {
            self.probes.freeze_or_thaw(id, sum, &is_paused, |slot| {
                if let Some(record) = &self.records[slot.attachment()] {
                    let frozen = record.frozen_slots.get();
                    record.frozen_slots.set(if slot.is_frozen { frozen + 1 } else { frozen - 1 });
                }
            });
        }
    }

    /// Returns the count of each of an attachment's probes, unless hits are only delivered.
    pub(super) fn counted(&self, attachment: usize) -> impl Iterator<Item = (ProbeId, u64)> {
        let record = self.record(attachment).filter(|record| record.delivery != DeliveryMode::Delivered);
        let ids = record.map_or(&[][..], |record| &record.ids);
        iter::zip(ids.iter().copied(), self.counted_of(attachment, ids))
    }

    /// Returns the count of each of these probes for an attachment; 0 for probes that are not its
    /// own.
    pub(super) fn counted_of(&self, attachment: usize, ids: &[ProbeId]) -> Vec<u64> {
        let slots: Vec<_> = ids.iter().map(|id| self.probes.slot(*id, attachment)).collect();
        let counters = ids.iter().zip(&slots).map(|(id, slot)| {
            slot.filter(|slot| slot.action.counts() && !slot.is_frozen)
                .and_then(|_| self.counters.of_probe(*id))
        });
        let sums = sum_each(&counters);
        let own = |(slot, sum): (&Option<_>, _)| slot.map_or(0, |slot: &AttachmentSlot| slot.counted(sum));
        let mut counted: Vec<u64> = slots.iter().zip(sums).map(own).collect();
        if let Some(state) = self.record(attachment).and_then(|record| record.join_state.as_ref()) {
            state.add_first_hits(ids, &mut counted);
        }
        if slots.iter().flatten().any(|slot| slot.uses_own) {
            let counters = slots.iter().map(|slot| slot.filter(|slot| slot.uses_own)?.action.counter());
            counted.iter_mut().zip(sum_each(&counters)).for_each(|(counted, own)| *counted += own);
        }
        counted
    }

    /// Returns the number of an attachment's suppressed hits.
    pub(super) fn suppressed(&self, attachment: usize) -> u64 {
        let record = self.record(attachment).filter(|record| record.delivery != DeliveryMode::Counted);
        record.map_or(0, |record| sum(CounterAt::new(record.counters.start)))
    }
}

/// A last-fit allocator of the counters' numbers. Pure except for the reset.
#[derive(Debug)]
pub(super) struct CounterAllocator {
    /// The number of counters that belong to probes, from 0 on.
    probes: usize,
    /// Free ranges, ascending, never touching each other.
    free: Vec<Range<usize>>,
}

impl Default for CounterAllocator {
    fn default() -> Self {
        Self { probes: 0, free: vec![0..COUNTERS] }
    }
}

impl CounterAllocator {
    /// Reserves a counter for this probe and for each probe with a smaller number. Returns whether
    /// there was room.
    pub(super) fn reserve_probe(&mut self, id: ProbeId) -> bool {
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
    pub(super) fn of_probe(&self, id: ProbeId) -> Option<CounterAt> {
        (id.index() < self.probes).then(|| CounterAt::new(id.index()))
    }

    /// Takes a range of counters, all zero.
    ///
    /// # Errors
    /// [`Error::OutOfCounters`] if there is no room.
    pub(super) fn allocate(&mut self, len: usize) -> Result<Range<usize>, Error> {
        let at = self.free.iter().rposition(|range| range.len() >= len);
        let at = at.ok_or(Error::OutOfCounters { wanted: len })?;
        let end = self.free[at].end;
        self.free[at].end -= len;
        if self.free[at].is_empty() {
            self.free.remove(at);
        }
        Ok(end - len..end)
    }

    /// The same for an attachment. Unless hits are only delivered, each of these probes gets its
    /// own counter, too.
    pub(super) fn allocate_for(
        &mut self,
        ids: &[ProbeId],
        delivery: DeliveryMode,
        wanted: usize,
    ) -> Result<Range<usize>, Error> {
        match ids.last().filter(|_| delivery != DeliveryMode::Delivered) {
            Some(last) if !self.reserve_probe(*last) => Err(Error::OutOfCounters { wanted }),
            _ => self.allocate(wanted),
        }
    }

    /// Takes a range back, whose first `used` counters may have counted hits. No thread may be
    /// counting there any more.
    pub(super) fn release(&mut self, range: Range<usize>, used: usize) {
        for thread in slots() {
            range.clone().take(used).for_each(|number| thread.reset(CounterAt::new(number)));
        }
        self.insert(range);
    }

    fn insert(&mut self, range: Range<usize>) {
        if range.is_empty() {
            return;
        }
        let at = self.free.partition_point(|free| free.start < range.start);
        self.free.insert(at, range);
        self.free.dedup_by(|range, before| {
            let touches = before.end == range.start;
            before.end = if touches { range.end } else { before.end };
            touches
        });
    }
}

/// Returns the sum of all threads' counters at each of these places, including threads that have
/// ended; 0 for `None`. Reads thread by thread: a thread's counters are adjacent, while threads'
/// slots are so far apart that the same counter in all of them would share a line of the caches.
pub(super) fn sum_each(places: &(impl ExactSizeIterator<Item = Option<CounterAt>> + Clone)) -> Vec<u64> {
    let mut counts = vec![0_u64; places.len()];
    for thread in slots() {
        for (count, place) in counts.iter_mut().zip(places.clone()) {
            *count += place.map_or(0, |place| thread.count(place));
        }
    }
    counts
}

/// Returns the sum of all threads' counters at one place. Uses no heap.
pub(super) fn sum(place: CounterAt) -> u64 {
    slots().map(|thread| thread.count(place)).sum()
}

/// A few words of each thread's slot for a consumer's own use, zero at first, from the same stock
/// as counters. Dropping it releases them; no thread may use them any more then.
#[derive(Debug)]
pub(crate) struct SlotWords<const N: usize> {
    range: Range<usize>,
    at: [CounterAt; N],
}

impl<const N: usize> SlotWords<N> {
    /// Allocates `N` words of each thread's slot.
    ///
    /// # Errors
    /// [`Error::OutOfCounters`] if fewer than `N` are left.
    pub(crate) fn allocate() -> Result<Self, Error> {
        let range = lock().attachments.counters.allocate(N)?;
        let at = std::array::from_fn(|number| CounterAt::new(range.start + number));
        Ok(Self { range, at })
    }

    /// Returns their places in each thread's slot.
    #[inline(always)]
    pub(crate) fn at(&self) -> [CounterAt; N] {
        self.at
    }
}

impl<const N: usize> Drop for SlotWords<N> {
    fn drop(&mut self) {
        lock().attachments.counters.release(self.range.clone(), N);
    }
}

/// The reading at the last reset, which is subtracted from later ones. A forked child finds it
/// whole: see [`ForkSafe`].
pub(crate) struct Baseline<T> {
    /// Whether there was a reset. Until then, readings take no lock.
    is_reset: AtomicBool,
    reading: ForkSafe<Option<Arc<T>>>,
}

impl<T: Clone> Baseline<T> {
    /// Returns the reading of `read`, less the baseline.
    pub(crate) fn now(&self, read: impl FnOnce() -> T, since: fn(&T, &T) -> T) -> T {
        // Taken before the reading, so that the reading is no less.
        let former = self.is_reset.load(Relaxed).then(|| self.reading.get());
        match former.as_deref() {
            Some(Some(former)) => since(&read(), former),
            _ => read(),
        }
    }

    /// Returns the reading less the baseline, and makes the reading the new baseline. Of several
    /// concurrent resets, each begins where another one ends.
    pub(crate) fn reset(&self, read: impl Fn() -> T, since: fn(&T, &T) -> T) -> T {
        self.is_reset.store(true, Relaxed);
        loop {
            let former = self.reading.get();
            let now = Arc::new(read());
            if self.reading.replace(&former, &Arc::new(Some(Arc::clone(&now)))) {
                return match &*former {
                    Some(former) => since(&now, former),
                    None => T::clone(&now),
                };
            }
        }
    }
}

impl<T> Default for Baseline<T> {
    fn default() -> Self {
        Self { is_reset: AtomicBool::new(false), reading: ForkSafe::new(None) }
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
        let mut counters = CounterAllocator::default();
        let ranges: Vec<_> = (1..=4).map(|len| counters.allocate(len).unwrap()).collect();
        let from_end = |range: &Range<usize>| COUNTERS - range.end..COUNTERS - range.start;
        assert_eq!(ranges.iter().map(from_end).collect::<Vec<_>>(), [0..1, 1..3, 3..6, 6..10]);
        for at in [1, 3, 0, 2] {
            counters.insert(ranges[at].clone());
        }
        assert_eq!(counters.free, [0..COUNTERS]);
        assert_eq!(counters.allocate(COUNTERS + 1).ok(), None);
    }

    #[test]
    fn probes_have_the_first_ones_until_they_meet_others() {
        let mut counters = CounterAllocator::default();
        let id = ProbeId::new;
        assert_eq!(counters.of_probe(id(0)), None);
        assert!(counters.reserve_probe(id(4)));
        assert_eq!((counters.of_probe(id(4)), counters.of_probe(id(5))), (Some(CounterAt::new(4)), None));
        let rest = counters.allocate(COUNTERS - 8).unwrap();
        assert_eq!((rest.clone(), counters.allocate(4).ok()), (8..COUNTERS, None));
        assert!(!counters.reserve_probe(id(8)), "it is an attachment's");
        assert_eq!(counters.free, [5..8], "nothing has changed");
        assert!(counters.reserve_probe(id(7)) && counters.reserve_probe(id(2)));
        assert_eq!((counters.allocate(1).ok(), counters.reserve_probe(id(8))), (None, false));
        counters.insert(rest);
        assert!(counters.reserve_probe(id(8)));
        assert_eq!(counters.free, [9..COUNTERS]);
    }

    proptest! {
        #[test]
        fn ranges_never_overlap(
            steps in prop::collection::vec((any::<bool>(), 1_usize..50), 1..60),
            probes in prop::collection::vec(0_usize..400, 0..60),
        ) {
            let mut counters = CounterAllocator::default();
            let mut taken: Vec<Range<usize>> = Vec::new();
            let mut probes = probes.into_iter();
            for (take, len) in steps {
                if let Some(probe) = probes.next() {
                    prop_assert!(counters.reserve_probe(ProbeId::new(probe)));
                }
                if take || taken.is_empty() {
                    let range = counters.allocate(len).unwrap();
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
        let kept = Arc::downgrade(&baseline.reading.get());
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
