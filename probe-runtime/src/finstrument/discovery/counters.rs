//! The counters of hooks, and the counters of first hits, which hooks give to newly discovered probes.

// Safety: relies on `COUNTED` being read only while the thread's slot is marked, and freed only
// when `reclaimer` gives it out.
#![expect(unsafe_code, reason = "see above")]

use std::ops::Range;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

use super::call_site::NewMember;
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
pub(super) static BEYOND: Counter = Counter::new();

/// The number of unused counters that are kept. Further ones are not used again.
const SPARES: usize = 64;

static COUNTED: AtomicPtr<Counted> = AtomicPtr::new(ptr::null_mut());

/// The counters as hooks read them.
pub(super) struct Counted {
    subscription: Arc<Subscription>,
    counters: Range<usize>,
    next: AtomicUsize,
    /// Unused counters of threads that lost a race for a discovery; 0 in free places.
    spare: [AtomicUsize; SPARES],
}

/// Makes discoveries count from now on, with these counters.
pub(super) fn begin(_locked: &ControlLocked, subscription: Arc<Subscription>, counters: Range<usize>) {
    let next = AtomicUsize::new(counters.start);
    let spare = [const { AtomicUsize::new(0) }; SPARES];
    let shared = Counted { subscription, counters, next, spare };
    published().for_each(|place| place.discovery().come_back());
    COUNTED.store(Box::into_raw(Box::new(shared)), Ordering::SeqCst);
}

/// Returns whether discoveries count.
pub(super) fn is_on() -> bool {
    !COUNTED.load(Ordering::SeqCst).is_null()
}

/// Ends the counting of discoveries. `reclaimer` must drop the result: hooks may still read it.
pub(super) fn end(_locked: &ControlLocked) -> Option<Box<Counted>> {
    let shared = COUNTED.swap(ptr::null_mut(), Ordering::SeqCst);
    // SAFETY: from `begin`, and taken out once.
    (!shared.is_null()).then(|| unsafe { Box::from_raw(shared) })
}

impl Counted {
    fn take(&self) -> Option<usize> {
        let taken = self.spare.iter().filter(|spare| spare.load(Ordering::Relaxed) != 0);
        let spare = { taken }.find_map(|spare| spare.swap(0, Ordering::Relaxed).checked_sub(1));
        spare.or_else(|| self.take_new())
    }

    fn take_new(&self) -> Option<usize> {
        let next = |next: usize| self.counters.contains(&next).then_some(next + 1);
        self.next.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next).ok()
    }
}

/// Gives an unused counter back.
pub(super) fn give_back(_inside: &ReadGuard, counter: usize) {
    // SAFETY: freed only when `reclaimer` gives it out, which looks at this thread's mark.
    let Some(shared) = (unsafe { COUNTED.load(Ordering::Acquire).as_ref() }) else { return };
    if shared.counters.contains(&counter) {
        let put = |spare: &AtomicUsize| {
            spare.compare_exchange(0, counter + 1, Ordering::Relaxed, Ordering::Relaxed).is_ok()
        };
        shared.spare.iter().any(put);
    }
}

/// Takes a counter for the probe that is being discovered, if discoveries count and one is left.
pub(super) fn member(_inside: &ReadGuard) -> Option<NewMember> {
    // SAFETY: freed only when `reclaimer` gives it out, which looks at this thread's mark.
    let shared = unsafe { COUNTED.load(Ordering::Acquire).as_ref() }?;
    let counter = shared.take()?;
    Some(NewMember { counter, subscription: Arc::clone(&shared.subscription) })
}
