//! The growing attachment, to which every newly discovered probe is added, as hooks see it.

// Safety: relies on `GROWING` being read only while the thread's slot is marked, and freed only
// when `limbo` gives it out.
#![expect(unsafe_code, reason = "see above")]

use std::ops::Range;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};

use super::discovery::{Discovery, NewMember};
use super::table::published;
use super::tokens::ControlLocked;
use crate::dispatch::{Inside, Subscription};

/// The number of unused counters that are kept. Further ones are not used again.
const SPARES: usize = 64;

static GROWING: AtomicPtr<Growing> = AtomicPtr::new(ptr::null_mut());

/// The growing attachment as hooks read it.
pub(super) struct Growing {
    subscription: Arc<Subscription>,
    counters: Range<usize>,
    next: AtomicUsize,
    /// Unused counters of threads that lost a race for a discovery; 0 in free places.
    spare: [AtomicUsize; SPARES],
    is_paused: AtomicBool,
}

/// Makes discoveries count from now on, with these counters.
pub(super) fn begin(_locked: &ControlLocked, subscription: Arc<Subscription>, counters: Range<usize>) {
    let next = AtomicUsize::new(counters.start);
    let spare = [const { AtomicUsize::new(0) }; SPARES];
    let growing = Growing { subscription, counters, next, spare, is_paused: AtomicBool::new(false) };
    published().for_each(|place| place.discovery().come_back());
    GROWING.store(Box::into_raw(Box::new(growing)), Ordering::SeqCst);
}

/// Returns whether discoveries count.
pub(super) fn is_growing() -> bool {
    !GROWING.load(Ordering::SeqCst).is_null()
}

/// Pauses or resumes the counting of later discoveries.
pub(super) fn pause(_locked: &ControlLocked, is_paused: bool) {
    // SAFETY: `end` takes the same proof, so no thread is in `end` meanwhile.
    if let Some(growing) = unsafe { GROWING.load(Ordering::Acquire).as_ref() } {
        growing.is_paused.store(is_paused, Ordering::Relaxed);
    }
}

/// Ends the counting of discoveries. `limbo` must drop the result: hooks may still read it.
pub(super) fn end(_locked: &ControlLocked) -> Option<Box<Growing>> {
    let growing = GROWING.swap(ptr::null_mut(), Ordering::SeqCst);
    // SAFETY: from `begin`, and taken out once.
    (!growing.is_null()).then(|| unsafe { Box::from_raw(growing) })
}

/// Takes a counter for a probe that was discovered before, if there is one left.
pub(super) fn take_counter(_locked: &ControlLocked, discovery: &Discovery) -> Option<usize> {
    // SAFETY: `end` takes the same proof, so no thread is in `end` meanwhile.
    let growing = unsafe { GROWING.load(Ordering::Acquire).as_ref() }?;
    growing.take().or_else(|| {
        discovery.go_beyond();
        None
    })
}

impl Growing {
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
pub(super) fn give_back(_inside: &Inside, counter: usize) {
    // SAFETY: freed only when `limbo` gives it out, which looks at this thread's mark.
    let Some(growing) = (unsafe { GROWING.load(Ordering::Acquire).as_ref() }) else { return };
    if growing.counters.contains(&counter) {
        let put = |spare: &AtomicUsize| {
            spare.compare_exchange(0, counter + 1, Ordering::Relaxed, Ordering::Relaxed).is_ok()
        };
        growing.spare.iter().any(put);
    }
}

/// Takes a counter for the probe that is being discovered, if discoveries count and one is left.
pub(super) fn member(_inside: &Inside) -> Option<NewMember> {
    // SAFETY: freed only when `limbo` gives it out, which looks at this thread's mark.
    let growing = unsafe { GROWING.load(Ordering::Acquire).as_ref() }?;
    let counter = growing.take()?;
    let is_paused = growing.is_paused.load(Ordering::Relaxed);
    Some(NewMember { counter, subscription: Arc::clone(&growing.subscription), is_paused })
}
