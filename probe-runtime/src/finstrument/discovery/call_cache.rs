//! A cache of real calls, which saves hooks the look-up. Most of these calls are active ones across
//! two words, and calls that several functions share.
//!
//! ```text
//! hook ▸ the entry of its return address: the same call, the same function?
//!      ▸ enabled: the call's stub, behind its own comparison; else: a `ret`
//! ```
//! From the stub on the call takes the same way as an active site's CALL: `definition.entry`, with
//! the same return address. A jump to the hook returns to its function's caller; an entry for it is
//! one of that return address, and leads to the stub by a call.
//!
//! Life: a hit that was looked up fills the entry, if that is free. From then on the entry belongs
//! to that call and that function until the process ends. The discovery keeps its number. A thread
//! that attaches or detaches a consumer, or that finds the object gone, clears the target. It does
//! so after it has changed `is_enabled`, and a thread that fills an entry looks at `is_enabled`
//! afterwards. If two calls share an entry, the later one is looked up each time.
//! Cost: 32 bytes for each of 8,192 entries; only the touched pages take memory.

use std::sync::atomic::{AtomicU16, AtomicUsize, Ordering};

/// The number of entries, as a power of two.
const ENTRIES_LOG2: u32 = 13;
/// The shift that turns a product into the number of an entry.
pub(super) const SHIFT: u32 = usize::BITS - ENTRIES_LOG2;
/// Fibonacci hashing, as in [`Table`](probe_patch::__runtime::table::Table).
pub(super) const FACTOR: usize = 0x9e37_79b9_7f4a_7c15;

/// A call. Hooks read this in assembly.
#[repr(C, align(32))]
pub(super) struct CachedCall {
    /// The return address; 0 while the entry is free.
    returns: AtomicUsize,
    function: AtomicUsize,
    /// The address at which its hits continue; 0 while they have to be looked up.
    target: AtomicUsize,
    /// The stub of a jump, for the code at that address.
    stub: AtomicUsize,
}

/// The offset of the stub.
pub(super) const STUB: usize = std::mem::offset_of!(CachedCall, stub);

const _: () = assert!(size_of::<CachedCall>() == 32);

pub(super) static ENTRIES: [CachedCall; 1 << ENTRIES_LOG2] = [const {
    CachedCall {
        returns: AtomicUsize::new(0),
        function: AtomicUsize::new(0),
        target: AtomicUsize::new(0),
        stub: AtomicUsize::new(0),
    }
}; 1 << ENTRIES_LOG2];

/// The entries of a discovery, from 1; 0 in free places. A call that is known has one. A function
/// whose calls are not known may have been reached by many.
#[derive(Default)]
pub(super) struct CachedEntries([AtomicU16; 4]);

impl CachedEntries {
    /// Forgets all entries, for another discovery. No thread fills one at the same time.
    pub(super) fn reset(&self) {
        self.0.iter().for_each(|it| it.store(0, Ordering::Relaxed));
    }

    /// Lets the next hits by a return address continue at `target`, as long as `is_valid`.
    pub(super) fn fill(
        &self,
        returns: usize,
        function: usize,
        [target, stub]: [usize; 2],
        is_valid: impl FnOnce() -> bool,
    ) {
        let number = returns.wrapping_mul(FACTOR) >> SHIFT;
        let entry = &ENTRIES[number];
        let is_taken = |place: &AtomicUsize, value| {
            let taken = place.compare_exchange(0, value, Ordering::AcqRel, Ordering::Acquire);
            taken.is_ok() || taken == Err(value)
        };
        if is_taken(&entry.returns, returns) && is_taken(&entry.function, function) && self.remember(number) {
            entry.stub.store(stub, Ordering::SeqCst);
            entry.target.store(target, Ordering::SeqCst);
            if !is_valid() {
                entry.target.store(0, Ordering::SeqCst);
            }
        }
    }

    /// Makes all hits be looked up again.
    pub(super) fn invalidate(&self) {
        for kept in &self.0 {
            if let Some(number) = usize::from(kept.load(Ordering::SeqCst)).checked_sub(1) {
                ENTRIES[number].target.store(0, Ordering::SeqCst);
            }
        }
    }

    /// Keeps the number of an entry, if there is room.
    fn remember(&self, number: usize) -> bool {
        let Ok(kept) = u16::try_from(number + 1) else { return false };
        self.0.iter().any(|place| {
            let taken = place.compare_exchange(0, kept, Ordering::SeqCst, Ordering::SeqCst);
            taken.is_ok() || taken == Err(kept)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(returns: usize) -> usize {
        ENTRIES[returns.wrapping_mul(FACTOR) >> SHIFT].target.load(Ordering::Relaxed)
    }

    #[test]
    fn an_entry_is_one_calls_until_all_is_looked_up_again() {
        let (own, other) = (CachedEntries::default(), CachedEntries::default());
        own.fill(0x1234, 7, [70, 0], || true);
        assert_eq!(target(0x1234), 70);
        other.fill(0x1234, 8, [80, 0], || true);
        assert_eq!(target(0x1234), 70, "it is another function's");
        own.fill(0x1234, 7, [71, 0], || false);
        assert_eq!(target(0x1234), 0, "it is not so any more");
        // More return addresses than there is room for.
        let returns = |number: usize| 0x10_0000 + 16 * number;
        (0..9).for_each(|number| own.fill(returns(number), 7, [70, 0], || true));
        assert_eq!((0..9).filter(|number| target(returns(*number)) == 70).count(), 3);
        own.fill(0x1234, 7, [72, 0], || true);
        own.invalidate();
        assert!((0..9).all(|number| target(returns(number)) == 0) && target(0x1234) == 0);
        own.reset();
        own.fill(returns(8), 7, [70, 0], || true);
        assert_eq!(target(returns(8)), 70);
    }
}
