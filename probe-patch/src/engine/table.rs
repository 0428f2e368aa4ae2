//! A hash table that only grows. A signal handler, or a hook that may run anywhere, can look into
//! it at any time: a look-up takes no lock and no heap, and no memory is reclaimed. Keys are
//! addresses.
//!
//! The table's memory comes from the kernel, in segments, each twice as large as the one before. A
//! key has a bucket of four places in each segment. It lies in the first segment whose bucket had a
//! free place when the key was added. A place that is taken stays taken, so a free place ends a
//! search.
//!
//! Cost: the memory of the segments, which are mostly full except for the last. With entries of 16
//! bytes, a look-up reads one cache line for each segment. A segment is added for each doubling:
//! among 30,000 keys, one is found in the third segment on average.

// Safety: relies on segments that are never unmapped, and on zeroed memory being free entries.
#![expect(unsafe_code, reason = "see above")]

use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use crate::os;

/// Number of places in a segment where a key may lie.
const BUCKET_LEN: usize = 4;

/// An entry.
///
/// # Safety
/// Zeroed memory is a free entry, at any offset in a page that is a multiple of the entry's size.
pub unsafe trait Entry: Sync + 'static {
    /// Returns the entry's key; 0 while it is free.
    fn key(&self) -> usize;

    /// Takes the entry for a key, if it is free.
    ///
    /// # Errors
    /// Returns the key that the entry belongs to, if it is not free.
    fn take(&self, key: usize) -> Result<(), usize>;
}

/// A table of entries: `FIRST` in the first of its segments.
#[derive(Debug)]
pub struct Table<E, const FIRST: usize, const SEGMENTS: usize>([AtomicPtr<E>; SEGMENTS]);

#[expect(clippy::new_without_default, reason = "a table is a static")]
impl<E: Entry, const FIRST: usize, const SEGMENTS: usize> Table<E, FIRST, SEGMENTS> {
    /// Returns a table without segments.
    pub const fn new() -> Self {
        const { assert!(align_of::<E>() <= 4096 && FIRST.is_power_of_two() && FIRST >= BUCKET_LEN) };
        Self([const { AtomicPtr::new(ptr::null_mut()) }; SEGMENTS])
    }

    /// Finds the entry of a key. The key is not 0.
    pub fn find(&'static self, key: usize) -> Option<&'static E> {
        for number in 0..SEGMENTS {
            for entry in bucket(self.segment(number)?, key) {
                match entry.key() {
                    // The key would be here if it had ever been added.
                    0 => return None,
                    found if found == key => return Some(entry),
                    _ => {}
                }
            }
        }
        None
    }

    /// Finds the entry of a key, or adds it; `None` when there is no memory.
    pub fn find_or_insert(&'static self, key: usize) -> Option<&'static E> {
        (0..SEGMENTS).find_map(|number| place(self.segment(number).or_else(|| self.grow(number))?, key))
    }

    /// As [`find_or_insert`](Self::find_or_insert), without a system call: `None` when there is no
    /// memory that was mapped before.
    pub fn find_or_place(&'static self, key: usize) -> Option<&'static E> {
        (0..SEGMENTS).map_while(|number| self.segment(number)).find_map(|entries| place(entries, key))
    }

    /// Maps memory for twice this number of keys, or for fewer if memory is short.
    pub fn keep_room(&'static self, keys: usize) {
        let mut room = 0;
        for number in 0..SEGMENTS {
            room += self.segment(number).or_else(|| self.grow(number)).map_or(0, <[E]>::len);
            if room / 2 > keys {
                return;
            }
        }
    }

    /// Returns all entries in use.
    pub fn all(&'static self) -> impl Iterator<Item = &'static E> {
        let segments = (0..SEGMENTS).map_while(|number| self.segment(number));
        segments.flatten().filter(|entry| entry.key() != 0)
    }

    fn segment(&'static self, number: usize) -> Option<&'static [E]> {
        let start = self.0[number].load(Ordering::Acquire);
        // SAFETY: a segment that was stored is `FIRST << number` entries, and stays.
        (!start.is_null()).then(|| unsafe { std::slice::from_raw_parts(start, FIRST << number) })
    }

    #[cold]
    fn grow(&'static self, number: usize) -> Option<&'static [E]> {
        let len = (FIRST << number) * size_of::<E>();
        let memory = os::memory::zeroed(len).cast::<E>();
        if memory.is_null() {
            return None;
        }
        let at = &self.0[number];
        let previous = at.compare_exchange(ptr::null_mut(), memory, Ordering::AcqRel, Ordering::Acquire);
        if previous.is_err() {
            // SAFETY: just mapped; another thread was faster, and no code knows this segment.
            unsafe { os::memory::give_back(memory.cast(), len) };
        }
        self.segment(number)
    }
}

/// Finds the entry of a key in a segment, or takes a free one.
fn place<E: Entry>(entries: &'static [E], key: usize) -> Option<&'static E> {
    bucket(entries, key).iter().find(|entry| entry.take(key).err().is_none_or(|found| found == key))
}

/// Returns the entries of a segment where a key may lie.
#[inline]
fn bucket<E>(entries: &'static [E], key: usize) -> &'static [E] {
    // Fibonacci hashing: neighbouring addresses go to places far apart. A division would take
    // longer than all the rest.
    let home = key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 24;
    let start = home & (entries.len() - 1) & !(BUCKET_LEN - 1);
    &entries[start..start + BUCKET_LEN]
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;

    #[repr(align(16))]
    struct Number(AtomicUsize);

    // SAFETY: zeroes are a number.
    unsafe impl Entry for Number {
        fn key(&self) -> usize {
            self.0.load(Ordering::Acquire)
        }

        fn take(&self, key: usize) -> Result<(), usize> {
            self.0.compare_exchange(0, key, Ordering::AcqRel, Ordering::Acquire).map(drop)
        }
    }

    // Under Miri the table grows, too, with fewer keys.
    static TABLE: Table<Number, { if cfg!(miri) { 4 } else { 64 } }, 20> = Table::new();

    #[test]
    fn each_key_has_one_entry() {
        let count = if cfg!(miri) { 20 } else { 50_000 };
        let keys: Vec<usize> = (0..count).map(|at| 0x7fff_0000_0000_0000 + at * 5).collect();
        assert!(keys.iter().all(|key| TABLE.find(*key).is_none()));
        let addr = |number: &Number| ptr::from_ref(number).addr();
        let made: Vec<Vec<usize>> = std::thread::scope(|scope| {
            let fill = || keys.iter().map(|key| addr(TABLE.find_or_insert(*key).unwrap())).collect();
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(fill)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert!(made.windows(2).all(|two| two[0] == two[1]));
        for (key, entry) in keys.iter().zip(&made[0]) {
            assert_eq!(TABLE.find(*key).map(addr), Some(*entry));
        }
        let mut distinct = made[0].clone();
        distinct.sort_unstable();
        distinct.dedup();
        assert_eq!(distinct.len(), keys.len());
        let mut found: Vec<usize> = TABLE.all().map(Entry::key).collect();
        found.sort_unstable();
        assert_eq!(found, keys);
    }

    #[test]
    fn without_room_there_is_none() {
        static FULL: Table<Number, 4, 1> = Table::new();
        assert!((1..=4).all(|key| FULL.find_or_insert(key).is_some()));
        assert!(FULL.find_or_insert(5).is_none() && FULL.find(5).is_none());
        assert_eq!(FULL.all().count(), 4);
    }
}
