//! The attachment that every newly discovered probe is added to, as far as hooks see it.

// Safety: relies on `GROWING` being read only while the thread's slot is marked, and freed only
// when `limbo` gives it out.
#![expect(unsafe_code, reason = "see above")]

use std::ops::Range;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};

use crate::dispatch::{Inside, Subscription};

/// How many such counters are kept; what goes beyond is not used.
const SPARES: usize = 64;

static GROWING: AtomicPtr<Growing> = AtomicPtr::new(ptr::null_mut());

/// What a hook needs to let a probe count.
pub(crate) struct Growing {
    subscription: Arc<Subscription>,
    tallies: Range<usize>,
    next: AtomicUsize,
    /// Counters that were taken by threads that another one was faster than; 0 where there is none.
    spare: [AtomicUsize; SPARES],
    is_paused: AtomicBool,
}

/// What a newly discovered probe counts with.
pub(super) struct Member {
    /// The number of its counter.
    pub(super) tally: usize,
    pub(super) subscription: Arc<Subscription>,
    pub(super) is_paused: bool,
}

/// Lets discoveries count from now on, with these counters.
pub(crate) fn begin(subscription: Arc<Subscription>, tallies: Range<usize>) {
    let next = AtomicUsize::new(tallies.start);
    let spare = [const { AtomicUsize::new(0) }; SPARES];
    let growing = Growing { subscription, tallies, next, spare, is_paused: AtomicBool::new(false) };
    GROWING.store(Box::into_raw(Box::new(growing)), Ordering::SeqCst);
}

/// Whether discoveries count.
pub(crate) fn is_growing() -> bool {
    !GROWING.load(Ordering::SeqCst).is_null()
}

/// Has what is discovered from now on stay latent, or not. For the holder of the control lock.
pub(crate) fn pause(is_paused: bool) {
    // SAFETY: ended by the holder of the control lock only.
    if let Some(growing) = unsafe { GROWING.load(Ordering::Acquire).as_ref() } {
        growing.is_paused.store(is_paused, Ordering::Relaxed);
    }
}

/// Lets discoveries count no more. What is returned is for `limbo`.
pub(crate) fn end() -> Option<Box<Growing>> {
    let growing = GROWING.swap(ptr::null_mut(), Ordering::SeqCst);
    // SAFETY: from `begin`, and taken out once.
    (!growing.is_null()).then(|| unsafe { Box::from_raw(growing) })
}

/// A counter for a probe that was discovered before, if there is one left. For the holder of the
/// control lock.
pub(crate) fn take_tally() -> Option<usize> {
    // SAFETY: ended by the holder of the control lock only.
    let growing = unsafe { GROWING.load(Ordering::Acquire).as_ref() }?;
    growing.take()
}

impl Growing {
    fn take(&self) -> Option<usize> {
        let taken = self.spare.iter().filter(|spare| spare.load(Ordering::Relaxed) != 0);
        let spare = { taken }.find_map(|spare| spare.swap(0, Ordering::Relaxed).checked_sub(1));
        spare.or_else(|| self.take_new())
    }

    fn take_new(&self) -> Option<usize> {
        let next = |next: usize| self.tallies.contains(&next).then_some(next + 1);
        self.next.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next).ok()
    }
}

/// Gives a counter back that nobody has counted with.
pub(super) fn give_back(_inside: &Inside, tally: usize) {
    // SAFETY: freed only when `limbo` gives it out, which looks at this thread's mark.
    let Some(growing) = (unsafe { GROWING.load(Ordering::Acquire).as_ref() }) else { return };
    if growing.tallies.contains(&tally) {
        let put = |spare: &AtomicUsize| {
            spare.compare_exchange(0, tally + 1, Ordering::Relaxed, Ordering::Relaxed).is_ok()
        };
        growing.spare.iter().any(put);
    }
}

/// What the probe that is being discovered counts with, if somebody counts and has a counter left.
pub(super) fn member(_inside: &Inside) -> Option<Member> {
    // SAFETY: freed only when `limbo` gives it out, which looks at this thread's mark.
    let growing = unsafe { GROWING.load(Ordering::Acquire).as_ref() }?;
    let tally = growing.take()?;
    let is_paused = growing.is_paused.load(Ordering::Relaxed);
    Some(Member { tally, subscription: Arc::clone(&growing.subscription), is_paused })
}
