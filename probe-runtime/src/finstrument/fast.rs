//! The way past the look-up, for real calls that somebody listens to: active ones across two words,
//! mostly.
//!
//! ```text
//! hook ▸ the entry of its return address: the same call, the same function? ▸ the call's stub, behind its own comparison
//! ```
//! From there on it is what an active site's CALL is: `definition.entry`, with the same return
//! address.
//!
//! Life: a hit that was looked up, and is wanted, fills the entry if it is free; from then on that
//! is its call's for good. Who ceases to listen, or finds the object gone, empties its target:
//! after it has said so (`is_wanted`), where whoever fills one looks afterwards. Of two calls with
//! one entry, the later is looked up each time. Cost: 32 bytes for each of 8,192 entries, of which
//! the touched pages are real.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::chunk::{self, Place};
use super::discovery::Discovery;

/// As a power of two, how many entries there are.
const BITS: u32 = 13;
/// How far a product is shifted to be the number of an entry.
pub(super) const SHIFT: u32 = usize::BITS - BITS;
/// Fibonacci hashing, as in [`Table`](crate::table::Table).
pub(super) const FACTOR: usize = 0x9e37_79b9_7f4a_7c15;

/// A call: hooks read it in assembly.
#[repr(C, align(32))]
pub(super) struct Entry {
    /// Where it returns to; 0 while the entry is free.
    returns: AtomicUsize,
    function: AtomicUsize,
    /// Where its hits go on; 0 while they have to be looked up.
    target: AtomicUsize,
}

const _: () = assert!(size_of::<Entry>() == 32);

pub(super) static ENTRIES: [Entry; 1 << BITS] = [const {
    Entry { returns: AtomicUsize::new(0), function: AtomicUsize::new(0), target: AtomicUsize::new(0) }
}; 1 << BITS];

fn of(returns: usize) -> &'static Entry {
    &ENTRIES[returns.wrapping_mul(FACTOR) >> SHIFT]
}

/// Lets the next hits of a call find their way by themselves, as long as they are wanted. It is no
/// site, and waits for nothing.
pub(super) fn fill(discovery: &'static Discovery) {
    let Some(returns) = discovery.returns() else { return };
    let Some(place) = Place::of(discovery).filter(|place| place.refusal().is_none()) else { return };
    let entry = of(returns);
    let is_free = entry.returns.load(Ordering::Acquire) == 0;
    let take = || entry.returns.compare_exchange(0, returns, Ordering::AcqRel, Ordering::Acquire);
    if (is_free && take().is_err()) || entry.returns.load(Ordering::Acquire) != returns {
        return;
    }
    entry.function.store(discovery.hit().function, Ordering::Release);
    entry.target.store(place.stub() + chunk::COMPARISON, Ordering::SeqCst);
    if !discovery.is_wanted() {
        entry.target.store(0, Ordering::SeqCst);
    }
}

/// Has the hits of a call looked up again: nobody wants them any more, or it is another object's.
pub(super) fn empty(discovery: &Discovery) {
    let Some(returns) = discovery.returns() else { return };
    let entry = of(returns);
    if entry.returns.load(Ordering::Acquire) == returns {
        entry.target.store(0, Ordering::SeqCst);
    }
}
