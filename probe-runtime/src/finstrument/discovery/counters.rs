//! The counters of hooks, and the counters of first hits, which hooks give to newly discovered
//! probes.

// Safety: relies on `FIRST_HIT_COUNTERS` being read only while the thread's slot is marked, and
// freed only when `reclaimer` gives it out.
#![expect(unsafe_code, reason = "see above")]

use std::ops::Range;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

use super::call_site::FirstHitCounter;
use super::provider::ControlLocked;
use super::table::published;
use crate::engine::dispatch::{ReadGuard, Subscription};

/// A number that only grows.
pub(super) struct Counter(AtomicUsize);

impl Counter {
    const fn new() -> Self {
        Self(AtomicUsize::new(0))
    }

    pub(super) fn add(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn get(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

pub(super) static DISCOVERED: Counter = Counter::new();
pub(super) static PATCHED: Counter = Counter::new();
pub(super) static SPLIT_CALLS: Counter = Counter::new();
pub(super) static TAIL_JUMPS: Counter = Counter::new();
pub(super) static POSTPONED: Counter = Counter::new();
pub(super) static LOST: Counter = Counter::new();
pub(super) static UNTOLD: Counter = Counter::new();
pub(super) static UNNAMED: Counter = Counter::new();
pub(super) static BEYOND_CAPACITY: Counter = Counter::new();

/// How many unused counters are kept. Further ones are not used again.
const MAX_SPARE_COUNTERS: usize = 64;

static FIRST_HIT_COUNTERS: AtomicPtr<FirstHitCounters> = AtomicPtr::new(ptr::null_mut());

/// The counters of first hits, as hooks read them.
pub(super) struct FirstHitCounters {
    subscription: Arc<Subscription>,
    counters: Range<usize>,
    next: AtomicUsize,
    /// Unused counters of threads that lost a race for a discovery; 0 in free places.
    spare: [AtomicUsize; MAX_SPARE_COUNTERS],
}

/// Gives each new discovery one of these counters from now on.
pub(super) fn begin_counting(
    _locked: &ControlLocked,
    subscription: Arc<Subscription>,
    counters: Range<usize>,
) {
    let next = AtomicUsize::new(counters.start);
    let spare = [const { AtomicUsize::new(0) }; MAX_SPARE_COUNTERS];
    let first_hits = FirstHitCounters { subscription, counters, next, spare };
    published().for_each(|place| place.discovery().clear_beyond_capacity());
    FIRST_HIT_COUNTERS.store(Box::into_raw(Box::new(first_hits)), Ordering::SeqCst);
}

/// Returns whether new discoveries get a counter.
pub(super) fn is_counting() -> bool {
    !FIRST_HIT_COUNTERS.load(Ordering::SeqCst).is_null()
}

/// Ends the counting of discoveries. `reclaimer` must drop the result: hooks may still read it.
pub(super) fn end_counting(_locked: &ControlLocked) -> Option<Box<FirstHitCounters>> {
    let first_hits = FIRST_HIT_COUNTERS.swap(ptr::null_mut(), Ordering::SeqCst);
    // SAFETY: from `begin_counting`, and taken out once.
    (!first_hits.is_null()).then(|| unsafe { Box::from_raw(first_hits) })
}

impl FirstHitCounters {
    fn allocate(&self) -> Option<usize> {
        let taken = self.spare.iter().filter(|spare| spare.load(Ordering::Relaxed) != 0);
        let spare = { taken }.find_map(|spare| spare.swap(0, Ordering::Relaxed).checked_sub(1));
        spare.or_else(|| self.allocate_new())
    }

    fn allocate_new(&self) -> Option<usize> {
        let next = |next: usize| self.counters.contains(&next).then_some(next + 1);
        self.next.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next).ok()
    }
}

/// Gives an unused counter back.
pub(super) fn return_counter(_inside: &ReadGuard, counter: usize) {
    // SAFETY: freed only when `reclaimer` gives it out, which looks at this thread's mark.
    let Some(first_hits) = (unsafe { FIRST_HIT_COUNTERS.load(Ordering::Acquire).as_ref() }) else { return };
    if first_hits.counters.contains(&counter) {
        let put = |spare: &AtomicUsize| {
            spare.compare_exchange(0, counter + 1, Ordering::Relaxed, Ordering::Relaxed).is_ok()
        };
        first_hits.spare.iter().any(put);
    }
}

/// Takes a counter for a new discovery, if first hits are counted and a counter is left.
pub(super) fn take_counter(_inside: &ReadGuard) -> Option<FirstHitCounter> {
    // SAFETY: freed only when `reclaimer` gives it out, which looks at this thread's mark.
    let first_hits = unsafe { FIRST_HIT_COUNTERS.load(Ordering::Acquire).as_ref() }?;
    let counter = first_hits.allocate()?;
    Some(FirstHitCounter { counter, subscription: Arc::clone(&first_hits.subscription) })
}
