//! One thread's groups: a table of fixed size with open addressing, which only its thread writes.
//!
//! ```text
//! group     tag: hash, subject (0 while free) │ shape of keys │ keys: 16 words │ count, sum, min, max │ buckets
//! ```
//! A group is never removed, so a reader that finds a tag finds its keys. Hits that find no free
//! group within [`TRIES`] share the last one, which has no keys.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use super::key::{Key, StoredKeys, WORDS, WrittenKeys};
use crate::engine::calls::add_single_writer;

/// Groups of one thread; a power of two.
pub(super) const GROUPS: usize = 1024;
/// Bits of a group's number in a handle.
const GROUP_BITS: u32 = 11;
const GROUP_MASK: u64 = (1 << GROUP_BITS) - 1;
/// The handle of no group.
pub(super) const NO_GROUP: u64 = 0;
/// Groups that are looked at for one hit.
const TRIES: usize = 32;
/// Words before the cells.
const HEAD: usize = 2 + WORDS;
/// Cells before the buckets.
pub(super) const PLAIN: usize = 4;
/// The tag of the last group.
const OTHERS: u64 = 1;

/// Buckets of powers of two: negative ones, zero, positive ones.
pub(super) const POWERS: usize = 64 + 1 + 64;

/// The groups of one thread.
#[derive(Clone, Copy)]
pub(super) struct Table<'a> {
    pub(super) words: &'a [AtomicU64],
    /// Cells of each group.
    pub(super) cells: usize,
}

/// A group as it was read.
pub(super) struct Read<'a> {
    /// The number of its subject; none of the hits that found no group.
    pub(super) subject: Option<usize>,
    pub(super) keys: WrittenKeys,
    /// See [`Table::handle`].
    pub(super) handle: u64,
    pub(super) cells: &'a [AtomicU64],
}

pub(super) fn words(cells: usize) -> usize {
    (GROUPS + 1) * (HEAD + cells)
}

impl<'a> Table<'a> {
    #[inline(always)]
    fn group(&self, at: usize) -> &'a [AtomicU64] {
        let len = HEAD + self.cells;
        self.words.get(at * len..(at + 1) * len).unwrap_or_default()
    }

    /// Returns the number of the group with these keys, which may be a new one.
    #[inline(always)]
    pub(super) fn find(&self, key: &Key) -> usize {
        // High bits of the hash depend on all of the keys.
        #[expect(clippy::cast_possible_truncation, reason = "less than the number of groups")]
        let start = (key.hash() >> (u64::BITS - GROUPS.ilog2())) as usize;
        if is_of(self.group(start), key) { start } else { self.search(start, key) }
    }

    #[inline(never)]
    fn search(&self, start: usize, key: &Key) -> usize {
        for at in (start..start + TRIES).map(|at| at % GROUPS) {
            let group = self.group(at);
            if is_of(group, key) {
                return at;
            }
            let [known, shape, words @ ..] = group else { break };
            if known.load(Relaxed) == 0 {
                shape.store(key.shape(), Relaxed);
                words.iter().zip(key.words()).for_each(|(place, word)| place.store(*word, Relaxed));
                // Readers that see the tag see the keys.
                known.store(tag(key), Release);
                return at;
            }
        }
        self.others()
    }

    /// Returns a number for a group that is no other thread's group's.
    #[inline]
    pub(super) fn handle(&self, group: usize) -> u64 {
        // Addresses have 47 bits or so, and words are aligned.
        (self.words.as_ptr().addr() as u64 >> 3) << GROUP_BITS | group as u64
    }

    /// Returns the group that a handle is of, if it is of this table.
    #[inline]
    pub(super) fn of_handle(&self, handle: u64) -> Option<usize> {
        let group = usize::try_from(handle & GROUP_MASK).ok()?;
        (self.handle(group) == handle).then_some(group)
    }

    /// Returns the group with the keys of another table's group: a future ends on another thread.
    #[cold]
    pub(super) fn adopt(&self, other: &Self, group: usize) -> usize {
        let [tag, shape, rest @ ..] = other.group(group) else { return GROUPS };
        let tag = tag.load(Acquire);
        let Some(subject) = subject(tag).filter(|_| group != GROUPS) else { return self.others() };
        let words = rest.iter().take(WORDS).map(|word| word.load(Relaxed));
        self.find(&Key::of(subject, shape.load(Relaxed), words))
    }

    /// Returns the keys of a group of this thread; `None` of the group of hits that find no room.
    pub(super) fn stored_keys(&self, group: usize) -> Option<StoredKeys> {
        let [_, shape, words @ ..] = self.group(group) else { return None };
        (group != GROUPS).then(|| StoredKeys::new(written(shape, words)))
    }

    /// Returns the group of hits that find no room.
    fn others(&self) -> usize {
        if let Some(tag) = self.group(GROUPS).first() {
            tag.store(OTHERS, Release);
        }
        GROUPS
    }

    #[inline(always)]
    pub(super) fn cells(&self, group: usize) -> &'a [AtomicU64] {
        self.group(group).get(HEAD..).unwrap_or_default()
    }

    pub(super) fn read(self) -> impl Iterator<Item = Read<'a>> {
        (0..=GROUPS).filter_map(move |at| {
            let [tag, shape, rest @ ..] = self.group(at) else { return None };
            let tag = tag.load(Acquire);
            if tag == 0 {
                return None;
            }
            let (words, cells) = rest.split_at_checked(WORDS)?;
            let keys = written(shape, words);
            let subject = subject(tag).filter(|_| at != GROUPS).map(|subject| subject as usize);
            Some(Read { subject, keys, handle: self.handle(at), cells })
        })
    }
}

/// Reads a group's keys.
fn written(shape: &AtomicU64, words: &[AtomicU64]) -> WrittenKeys {
    let mut keys = WrittenKeys { shape: shape.load(Relaxed), ..WrittenKeys::default() };
    keys.words.iter_mut().zip(words).for_each(|(key, word)| *key = word.load(Relaxed));
    keys
}

/// Returns the tag of a group with these keys: the subject from 1, and bits of the hash.
#[inline(always)]
fn tag(key: &Key) -> u64 {
    key.hash() >> u32::BITS << u32::BITS | u64::from(key.subject().wrapping_add(1))
}

/// Returns the subject of the group with a tag.
fn subject(tag: u64) -> Option<u32> {
    #[expect(clippy::cast_possible_truncation, reason = "the other half is of the hash")]
    (tag as u32).checked_sub(1)
}

#[inline(always)]
fn is_of(group: &[AtomicU64], key: &Key) -> bool {
    let [known, shape, words @ ..] = group else { return false };
    known.load(Relaxed) == tag(key)
        && shape.load(Relaxed) == key.shape()
        && words.iter().zip(key.words()).all(|(place, word)| place.load(Relaxed) == *word)
}

/// Adds an integer to a group. Returns whether the sum has room for it. A sum that nobody needs
/// stays at the nearest number it can be.
#[inline]
pub(super) fn add_int(cells: &[AtomicU64], value: i64, needs_sum: bool) -> bool {
    let [count, sum, min, max, ..] = cells else { return false };
    let before = sum.load(Relaxed).cast_signed();
    let more = match before.checked_add(value) {
        Some(more) => more,
        None if needs_sum => return false,
        None => before.saturating_add(value),
    };
    sum.store(more.cast_unsigned(), Relaxed);
    let is_first = count.load(Relaxed) == 0;
    if is_first || value < min.load(Relaxed).cast_signed() {
        min.store(value.cast_unsigned(), Relaxed);
    }
    if is_first || value > max.load(Relaxed).cast_signed() {
        max.store(value.cast_unsigned(), Relaxed);
    }
    add_single_writer(count, 1);
    true
}

/// Adds a floating-point number to a group.
#[inline]
pub(super) fn add_float(cells: &[AtomicU64], value: f64) {
    let [count, sum, min, max, ..] = cells else { return };
    let read = |cell: &AtomicU64| f64::from_bits(cell.load(Relaxed));
    sum.store((read(sum) + value).to_bits(), Relaxed);
    let is_first = count.load(Relaxed) == 0;
    if is_first || value < read(min) {
        min.store(value.to_bits(), Relaxed);
    }
    if is_first || value > read(max) {
        max.store(value.to_bits(), Relaxed);
    }
    add_single_writer(count, 1);
}

/// Returns the bucket of a number: by its sign, and the power of two at or below its size.
#[inline]
pub(super) fn power(value: i64) -> usize {
    let size = value.unsigned_abs();
    match (size.checked_ilog2(), value < 0) {
        (None, _) => 64,
        (Some(power), false) => 65 + power as usize,
        (Some(power), true) => 63 - power as usize,
    }
}

/// Returns the numbers of a bucket, from the one nearest to zero to the farthest.
pub(super) fn range(bucket: usize) -> (i128, i128) {
    let of = |power: usize| (1_i128 << power, (1_i128 << (power + 1)) - 1);
    match bucket {
        64 => (0, 0),
        65.. => of(bucket - 65),
        _ => {
            let (near, far) = of(63 - bucket);
            (-far, -near)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use probe_lang::expression::Datum;

    #[test]
    fn powers_hold_their_numbers() {
        for value in [0, 1, 2, 3, 4, 1023, 1024, i64::MAX, -1, -2, -3, -1024, i64::MIN] {
            let (low, high) = range(power(value));
            assert!((low..=high).contains(&value.into()), "{value}: {low}..={high}");
        }
        assert_eq!((power(i64::MIN), power(-1), power(0), power(1)), (0, 63, 64, 65));
        assert_eq!((range(65), range(66), range(63)), ((1, 1), (2, 3), (-1, -1)));
    }

    #[test]
    fn keys_that_find_no_group_share_one() {
        let words: Vec<_> = (0..words(PLAIN)).map(|_| AtomicU64::new(0)).collect();
        let table = Table { words: &words, cells: PLAIN };
        let find = |number: i128| {
            let mut key = Key::new(0, WORDS);
            key.add(Ok(Datum::Int(number))).unwrap();
            table.find(&key)
        };
        let first: Vec<_> = (0..5000).map(find).collect();
        first.iter().for_each(|at| assert!(add_int(table.cells(*at), 1, true)));
        assert_eq!((0..5000).map(find).collect::<Vec<_>>(), first, "the same keys are in the same group");
        let own = first.iter().filter(|at| **at != GROUPS).count();
        assert!((GROUPS * 9 / 10..=GROUPS).contains(&own), "{own}");
        let read: Vec<_> = table.read().collect();
        let count = |it: &Read<'_>| it.cells[0].load(Relaxed);
        assert_eq!(read.iter().map(count).sum::<u64>(), 5000);
        let others: Vec<_> = read.iter().filter(|it| it.subject.is_none()).map(count).collect();
        assert_eq!(others, [5000 - own as u64]);
    }

    #[test]
    fn a_group_of_another_thread_has_its_keys_here() {
        let words = || (0..words(PLAIN)).map(|_| AtomicU64::new(0)).collect::<Vec<_>>();
        let (one, other) = (words(), words());
        let [one, other] = [&one, &other].map(|words| Table { words, cells: PLAIN });
        let mut key = Key::new(3, Key::room(2));
        key.add(Ok(Datum::Int(7))).unwrap();
        key.add(Ok(Datum::Bool(true))).unwrap();
        let group = one.find(&key);
        let handle = one.handle(group);
        assert_eq!(
            (one.of_handle(handle), other.of_handle(handle), one.of_handle(0)),
            (Some(group), None, None)
        );
        let adopted = other.adopt(&one, group);
        assert_eq!((adopted, other.find(&key)), (other.find(&key), adopted));
        let read = |table: Table<'_>| table.read().map(|it| (it.subject, it.keys)).collect::<Vec<_>>();
        assert_eq!(read(one), read(other));
        assert_eq!(other.adopt(&one, GROUPS), GROUPS);
    }

    #[test]
    fn a_sum_without_room_stays_as_it_is() {
        let cells: [AtomicU64; PLAIN] = Default::default();
        assert!(add_int(&cells, i64::MAX, true) && !add_int(&cells, 1, true) && add_int(&cells, -5, true));
        assert_eq!(cells.map(|it| it.into_inner().cast_signed()), [2, i64::MAX - 5, -5, i64::MAX]);
    }

    #[test]
    fn a_sum_that_nobody_needs_refuses_no_number() {
        let cells: [AtomicU64; PLAIN] = Default::default();
        assert!([i64::MAX, 1, -5].iter().all(|value| add_int(&cells, *value, false)));
        assert_eq!(cells.map(|it| it.into_inner().cast_signed()), [3, i64::MAX - 5, -5, i64::MAX]);
    }
}
