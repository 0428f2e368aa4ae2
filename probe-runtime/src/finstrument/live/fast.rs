//! A way past the look-up, for real calls that a consumer listens to. These are mostly active
//! calls across two words.
//!
//! ```text
//! hook ▸ the entry of its return address: the same call, the same function? ▸ the call's stub, behind its own comparison
//! ```
//! From there on the call takes the same way as an active site's CALL: `definition.entry`, with the
//! same return address.
//!
//! Life: a wanted hit that was looked up fills the entry, if that is free. From then on the entry
//! is that call's for good. A thread that ceases to listen, or that finds the object gone, empties
//! the entry's target. It does so after it has changed `is_wanted`, and a thread that fills an
//! entry looks at `is_wanted` afterwards. If two calls share an entry, the later one is looked up
//! each time.
//! Cost: 32 bytes for each of 8,192 entries; only the touched pages take memory.

use std::sync::atomic::{AtomicUsize, Ordering};

/// The number of entries, as a power of two.
const BITS: u32 = 13;
/// The shift that turns a product into the number of an entry.
pub(super) const SHIFT: u32 = usize::BITS - BITS;
/// Fibonacci hashing, as in [`Table`](probe_patch::__runtime::table::Table).
pub(super) const FACTOR: usize = 0x9e37_79b9_7f4a_7c15;

/// A call. Hooks read this in assembly.
#[repr(C, align(32))]
pub(super) struct FastCall {
    /// The return address; 0 while the entry is free.
    returns: AtomicUsize,
    function: AtomicUsize,
    /// The address at which its hits continue; 0 while they have to be looked up.
    target: AtomicUsize,
}

const _: () = assert!(size_of::<FastCall>() == 32);

pub(super) static ENTRIES: [FastCall; 1 << BITS] = [const {
    FastCall { returns: AtomicUsize::new(0), function: AtomicUsize::new(0), target: AtomicUsize::new(0) }
}; 1 << BITS];

fn of(returns: usize) -> &'static FastCall {
    &ENTRIES[returns.wrapping_mul(FACTOR) >> SHIFT]
}

/// Lets the next hits of a call continue at `target`, as long as they are wanted.
pub(super) fn fill(returns: usize, function: usize, target: usize, is_wanted: impl FnOnce() -> bool) {
    let entry = of(returns);
    let is_free = entry.returns.load(Ordering::Acquire) == 0;
    let take = || entry.returns.compare_exchange(0, returns, Ordering::AcqRel, Ordering::Acquire);
    if (is_free && take().is_err()) || entry.returns.load(Ordering::Acquire) != returns {
        return;
    }
    entry.function.store(function, Ordering::Release);
    entry.target.store(target, Ordering::SeqCst);
    if !is_wanted() {
        entry.target.store(0, Ordering::SeqCst);
    }
}

/// Makes the hits of a call be looked up again, since no consumer wants them any more or the call
/// belongs to another object.
pub(super) fn empty(returns: usize) {
    let entry = of(returns);
    if entry.returns.load(Ordering::Acquire) == returns {
        entry.target.store(0, Ordering::SeqCst);
    }
}
