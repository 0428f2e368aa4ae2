//! The instructions that are, or were, being replaced through a trap, by address.
//!
//! A hash table that only grows, so that a signal handler can look an address up at any time: no lock, no reclaiming.
//! Its memory comes from the kernel, segment by segment, each twice as large as the one before; 64 bytes an instruction.
//! An address whose object was unloaded keeps its entry, which serves whatever is patched there next.

// Safety: relies on segments that are never given back, of zeroed memory, which is free entries.
#![expect(unsafe_code, reason = "see above")]

use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use super::entry::Entry;
use crate::os;

/// Entries of the first segment.
const FIRST: usize = 1 << 10;
/// How many there can be: 2^32 entries in all.
const SEGMENTS: usize = 22;
/// How far from its place an entry may be.
const PROBES: usize = 16;

static SEGMENT: [AtomicPtr<Entry>; SEGMENTS] = [const { AtomicPtr::new(ptr::null_mut()) }; SEGMENTS];

/// Finds the entry of an address.
pub(super) fn find(addr: usize) -> Option<&'static Entry> {
    for number in 0..SEGMENTS {
        for entry in window(segment(number)?, addr) {
            match entry.addr.load(Ordering::Acquire) {
                // It would be here, had it ever been taken.
                0 => return None,
                found if found == addr => return Some(entry),
                _ => {}
            }
        }
    }
    None
}

/// Finds the entry of an address, or makes it; `None` when there is no memory.
pub(super) fn find_or_insert(addr: usize) -> Option<&'static Entry> {
    (0..SEGMENTS).find_map(|number| {
        let entries = segment(number).or_else(|| grow(number))?;
        window(entries, addr).find(|entry| {
            match entry.addr.compare_exchange(0, addr, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => true,
                Err(found) => found == addr,
            }
        })
    })
}

/// All entries in use.
pub(super) fn all() -> impl Iterator<Item = &'static Entry> {
    let segments = (0..SEGMENTS).map_while(segment);
    segments.flatten().filter(|entry| entry.addr.load(Ordering::Acquire) != 0)
}

/// The entries of a segment where an address may be.
fn window(entries: &'static [Entry], addr: usize) -> impl Iterator<Item = &'static Entry> {
    let home = hash(addr);
    (0..PROBES).map(move |step| &entries[home.wrapping_add(step) % entries.len()])
}

/// Fibonacci hashing: neighbouring instructions go to places far apart.
fn hash(addr: usize) -> usize {
    addr.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 24
}

fn segment(number: usize) -> Option<&'static [Entry]> {
    let start = SEGMENT[number].load(Ordering::Acquire);
    // SAFETY: a segment that was stored is `FIRST << number` entries, and stays.
    (!start.is_null()).then(|| unsafe { std::slice::from_raw_parts(start, FIRST << number) })
}

#[cold]
fn grow(number: usize) -> Option<&'static [Entry]> {
    let len = (FIRST << number) * size_of::<Entry>();
    #[expect(clippy::cast_ptr_alignment, reason = "it is aligned to a page")]
    let memory = os::memory::zeroed(len).cast::<Entry>();
    if memory.is_null() {
        return None;
    }
    let previous =
        SEGMENT[number].compare_exchange(ptr::null_mut(), memory, Ordering::AcqRel, Ordering::Acquire);
    if previous.is_err() {
        os::memory::give_back(memory.cast(), len);
    }
    segment(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_address_has_one_entry() {
        // Far from all text; the table is the process's own.
        let addrs: Vec<_> = (0..50_000).map(|at| 0x7fff_0000_0000_0000 + at * 5).collect();
        assert!(addrs.iter().all(|addr| find(*addr).is_none()));
        let made: Vec<_> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4)
                .map(|_| {
                    scope.spawn(|| {
                        addrs
                            .iter()
                            .map(|addr| ptr::from_ref(find_or_insert(*addr).unwrap()).addr())
                            .collect::<Vec<_>>()
                    })
                })
                .collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert!(made.windows(2).all(|two| two[0] == two[1]));
        for (addr, entry) in addrs.iter().zip(&made[0]) {
            assert_eq!(find(*addr).map(|entry| ptr::from_ref(entry).addr()), Some(*entry));
        }
        let mut distinct = made[0].clone();
        distinct.sort_unstable();
        distinct.dedup();
        assert_eq!(distinct.len(), addrs.len());
    }
}
