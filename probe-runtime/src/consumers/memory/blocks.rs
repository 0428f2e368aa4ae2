//! Blocks of C's allocators, by the hits of the module `memory`.
//!
//! The allocator itself tells a block's bytes (`malloc_usable_size`), after it has returned the
//! block and before it frees it. So a block counts for the same bytes both times. glibc's and
//! jemalloc's take no lock for that.

// Safety: relies on the arguments and results of the allocator's functions: blocks that are not
// freed before the hit has ended.
#![expect(unsafe_code, reason = "see above")]

use std::ptr;

use super::{BLOCK_FREED, BLOCK_LEFT, BLOCK_RESIZED, Sums, bytes_of};
use crate::engine::calls::add_single_writer;
use crate::engine::dispatch::Event;

/// Counts the block of a hit. Its values are, as far as the function has them, `ret`, `block` and
/// `size`, in this order.
#[inline(always)]
pub(super) fn count(sums: &Sums, event: &Event<'_>, request: u32) {
    let [blocks, bytes, freed, freed_bytes] = sums;
    let value = |at: usize| event.values().get(at).map_or(0, bytes_of);
    if request == BLOCK_FREED {
        let block = value(0);
        // `free(NULL)` frees nothing.
        if block != 0 {
            add_single_writer(freed, 1);
            add_single_writer(freed_bytes, size(block));
        }
        return;
    }
    let block = match request {
        BLOCK_LEFT if value(0) == 0 => at(value(1)),
        BLOCK_LEFT => 0,
        // The block stays if there is no other one.
        BLOCK_RESIZED if value(0) == 0 && value(2) != 0 => value(1),
        _ => value(0),
    };
    if block != 0 {
        add_single_writer(blocks, 1);
        add_single_writer(bytes, size(block));
    }
}

/// Returns the bytes of a block.
fn size(block: u64) -> u64 {
    let block = ptr::with_exposed_provenance_mut(usize::try_from(block).unwrap_or_default());
    // SAFETY: the allocator has just returned it, or is about to free it.
    (unsafe { libc::malloc_usable_size(block) }) as u64
}

/// Returns the block whose address is at this place.
fn at(place: u64) -> u64 {
    let place = ptr::with_exposed_provenance::<u64>(usize::try_from(place).unwrap_or_default());
    // SAFETY: `posix_memalign` has just written there.
    unsafe { place.read_unaligned() }
}
