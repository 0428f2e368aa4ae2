//! Which discovery a return address belongs to: a hash table that only grows, so that a hook may look into it anywhere, without a
//! lock. As `patch::word::table`: memory straight from the kernel, segment by segment, each twice as large as the one before.
//!
//! Cost: 16 bytes a call site; a look-up reads one or two cache lines.

// Safety: relies on segments that are never given back, of zeroed memory, which is free entries; and on discoveries, whose memory
// is never given back either.
#![expect(unsafe_code, reason = "see above")]

use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

use super::discovery::Discovery;
use crate::os;

/// Entries of the first segment.
const FIRST: usize = 1 << 12;
/// How many segments there can be.
const SEGMENTS: usize = 18;
/// How far from its place an entry may be.
const PROBES: usize = 16;

static SEGMENT: [AtomicPtr<Entry>; SEGMENTS] = [const { AtomicPtr::new(ptr::null_mut()) }; SEGMENTS];

/// One call site. Zeroes are a free one.
#[repr(C)]
pub(super) struct Entry {
    key: AtomicUsize,
    discovery: AtomicPtr<Discovery>,
}

impl Entry {
    /// What was discovered there.
    pub(super) fn discovery(&self) -> Option<&'static Discovery> {
        // SAFETY: null, or a discovery, whose memory is never given back.
        unsafe { self.discovery.load(Ordering::Acquire).as_ref() }
    }

    /// Replaces what was discovered there, if it still is `old`; else returns what is.
    pub(super) fn replace(
        &self,
        old: Option<&'static Discovery>,
        new: Option<&'static Discovery>,
    ) -> Result<(), Option<&'static Discovery>> {
        let pointer =
            |it: Option<&'static Discovery>| it.map_or(ptr::null_mut(), |it| ptr::from_ref(it).cast_mut());
        (self.discovery)
            .compare_exchange(pointer(old), pointer(new), Ordering::AcqRel, Ordering::Acquire)
            .map(drop)
            // SAFETY: as above.
            .map_err(|found| unsafe { found.as_ref() })
    }
}

/// Finds the entry of a key, which is not 0.
pub(super) fn find(key: usize) -> Option<&'static Entry> {
    for number in 0..SEGMENTS {
        for entry in window(segment(number)?, key) {
            match entry.key.load(Ordering::Acquire) {
                // It would be here, had it ever been taken.
                0 => return None,
                found if found == key => return Some(entry),
                _ => {}
            }
        }
    }
    None
}

/// Finds the entry of a key, or makes it; `None` when there is no memory.
pub(super) fn find_or_insert(key: usize) -> Option<&'static Entry> {
    (0..SEGMENTS).find_map(|number| {
        let entries = segment(number).or_else(|| grow(number))?;
        window(entries, key).find(|entry| {
            match entry.key.compare_exchange(0, key, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => true,
                Err(found) => found == key,
            }
        })
    })
}

/// The entries of a segment where a key may be.
fn window(entries: &'static [Entry], key: usize) -> impl Iterator<Item = &'static Entry> {
    // Fibonacci hashing: neighbouring calls go to places far apart.
    let home = key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 24;
    (0..PROBES).map(move |step| &entries[home.wrapping_add(step) % entries.len()])
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
    fn each_key_has_one_entry() {
        // No return addresses; the table is the process's own.
        let keys: Vec<_> = (0..20_000).map(|at| 0x7fff_0000_0000_0000 + at * 7).collect();
        assert!(keys.iter().all(|key| find(*key).is_none()));
        let made: Vec<Vec<usize>> = std::thread::scope(|scope| {
            let fill =
                || keys.iter().map(|key| ptr::from_ref(find_or_insert(*key).unwrap()).addr()).collect();
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(fill)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert!(made.windows(2).all(|two| two[0] == two[1]));
        for (key, entry) in keys.iter().zip(&made[0]) {
            assert_eq!(find(*key).map(|entry| ptr::from_ref(entry).addr()), Some(*entry));
        }
        let mut distinct = made[0].clone();
        distinct.sort_unstable();
        distinct.dedup();
        assert_eq!(distinct.len(), keys.len());
    }
}
