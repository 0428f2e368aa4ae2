//! The intervals under way of one thread: a table of fixed size, which only its thread writes.
//!
//! ```text
//! head      whose intervals these are, and counts
//! tags      0 while a place is free, or bits of its key's hash     in buckets of eight, a cache line
//! interval  version: odd while it is written │ shape of its key │ begun │ group │ nested │ key: 16 words
//! ```
//! A key has its place in the bucket that its hash names. Where eight others are open, it has none.
//! So a thread has room for some 400 intervals, or up to 1,024, by the places of their keys.
//!
//! Another thread reads an interval between two looks at its version.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::fence;

use super::key::{Key, WORDS};
use crate::engine::calls::add_single_writer;

/// Intervals of one thread, and of one bucket.
const PLACES: usize = 1024;
const BUCKET: usize = 8;
/// Words before the key, and all words of an interval.
const BEFORE_KEY: usize = 5;
const LEN: usize = BEFORE_KEY + WORDS;

/// Words of all intervals of a thread.
pub(super) const OPEN_WORDS: usize = PLACES * LEN;

/// The words of the head, and the tags.
pub(super) type OpenHead = ([AtomicU64; 9 + 2 * LAST_ENDS], [AtomicU64; PLACES]);

/// Places in the head.
const THREAD: usize = 0;
const GENERATION: usize = 1;
const OPEN: usize = 2;
/// Counts, see [`OpenCounts`].
const NESTED: usize = 3;
const NO_ROOM: usize = 4;
const SWITCHED: usize = 5;
const THREAD_ENDED: usize = 6;
const UNKNOWN_ENDS: usize = 7;
const NO_KEY: usize = 8;
/// The last ends without a beginning: each one's tag, and its time.
const LAST: usize = 9;
const LAST_ENDS: usize = 8;

/// The intervals of one thread.
#[derive(Clone, Copy)]
pub(super) struct OpenTable<'a> {
    pub(super) head: &'a OpenHead,
    pub(super) words: &'a [AtomicU64],
}

/// The thread of a hit, and its generation.
#[derive(Clone, Copy)]
pub(super) struct Owner {
    pub(super) thread: u64,
    pub(super) generation: u32,
}

/// An interval that has ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Ended {
    /// The handle of its group.
    pub(super) group: u64,
    pub(super) ticks: u64,
}

/// An interval that is open, as it was read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct OpenRead {
    pub(super) group: u64,
    pub(super) begun: u64,
    pub(super) tag: u64,
}

/// The last ends without a beginning, of one thread.
pub(super) struct UnknownEnds(Vec<(u64, u64)>);

impl UnknownEnds {
    /// Returns whether one may be of this interval, which another thread has begun.
    pub(super) fn may_have(&self, open: &OpenRead) -> bool {
        let is_later = |time: u64| time > open.begun;
        let is_known = |(tag, time): &(u64, u64)| *tag == open.tag && is_later(*time);
        // Its own may be forgotten, if all that are known are later.
        let may_lack = self.0.len() == LAST_ENDS && self.0.iter().all(|it| is_later(it.1));
        may_lack || self.0.iter().any(is_known)
    }
}

/// Hits and intervals without a time.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct OpenCounts {
    /// Beginnings inside of an interval of the same key.
    pub(super) nested: u64,
    /// Beginnings without room.
    pub(super) no_room: u64,
    /// Beginnings whose key is not known.
    pub(super) no_key: u64,
    /// Intervals that were open while sites were switched.
    pub(super) switched: u64,
    /// Intervals that were open when their thread ended, of threads whose memory another one has.
    pub(super) thread_ended: u64,
    /// Ends without a beginning.
    pub(super) unknown_ends: u64,
}

impl<'a> OpenTable<'a> {
    /// Begins an interval, unless one of this key is open.
    #[inline(always)]
    pub(super) fn begin(&self, owner: Owner, key: &Key, group: u64, now: impl FnOnce() -> u64) {
        if !self.is_of(owner) {
            self.restart(owner);
        }
        if owner.generation.is_multiple_of(2) {
            // Its end may be missed.
            return self.count(SWITCHED, 1);
        }
        let (mut free, tag) = (None, tag(key));
        for at in bucket(tag) {
            match self.tag(at).load(Relaxed) {
                0 => _ = free.get_or_insert(at),
                known if known == tag && self.has(at, key) => {
                    let [_, _, _, _, nested, ..] = self.interval(at) else { return };
                    add_single_writer(nested, 1);
                    return self.count(NESTED, 1);
                }
                _ => (),
            }
        }
        let Some(at) = free else { return self.count(NO_ROOM, 1) };
        let [version, shape, begun, group_at, nested, words @ ..] = self.interval(at) else { return };
        let before = version.load(Relaxed);
        version.store(before.wrapping_add(1), Relaxed);
        // Readers that see any of these see the version before it.
        fence(Release);
        shape.store(shape_of(key), Relaxed);
        group_at.store(group, Relaxed);
        nested.store(0, Relaxed);
        words.iter().zip(key.words()).for_each(|(place, word)| place.store(*word, Relaxed));
        add_single_writer(&self.head.0[OPEN], 1);
        begun.store(now(), Relaxed);
        version.store(before.wrapping_add(2), Release);
        self.tag(at).store(tag, Release);
    }

    /// Counts a beginning whose key is not known.
    pub(super) fn without_key(&self) {
        self.count(NO_KEY, 1);
    }

    /// Ends the interval of this key, if that was the outermost one.
    #[inline(always)]
    pub(super) fn end(&self, owner: Owner, key: &Key, now: u64) -> Option<Ended> {
        let tag = tag(key);
        let mut places = bucket(tag);
        let found = places.find(|at| self.tag(*at).load(Relaxed) == tag && self.has(*at, key));
        let Some(at) = found.filter(|_| self.is_of(owner)) else {
            if self.head.0[THREAD].load(Relaxed) != owner.thread {
                self.restart(owner);
            }
            #[expect(clippy::cast_possible_truncation, reason = "its low bits count")]
            let last = LAST + self.head.0[UNKNOWN_ENDS].load(Relaxed) as usize % LAST_ENDS * 2;
            self.head.0[last].store(tag, Relaxed);
            self.head.0[last + 1].store(now, Relaxed);
            self.count(UNKNOWN_ENDS, 1);
            return None;
        };
        let [version, _, begun, group, nested, ..] = self.interval(at) else { return None };
        if let Some(outer) = nested.load(Relaxed).checked_sub(1) {
            nested.store(outer, Relaxed);
            return None;
        }
        let ended = Ended { group: group.load(Relaxed), ticks: now.saturating_sub(begun.load(Relaxed)) };
        version.store(version.load(Relaxed).wrapping_add(2), Release);
        self.tag(at).store(0, Release);
        let open = &self.head.0[OPEN];
        open.store(open.load(Relaxed).saturating_sub(1), Relaxed);
        Some(ended)
    }

    /// Returns the open intervals of a thread, if it has missed no hit up to this generation.
    pub(super) fn read(self, owner: Owner) -> Vec<OpenRead> {
        if !self.is_of(owner) {
            return Vec::new();
        }
        fence(Acquire);
        let open: Vec<_> = (0..PLACES).filter_map(|at| self.read_one(at)).collect();
        fence(Acquire);
        if self.is_of(owner) { open } else { Vec::new() }
    }

    /// Returns an interval if it was open at one moment of the call.
    fn read_one(self, at: usize) -> Option<OpenRead> {
        let tag = self.tag(at).load(Acquire);
        if tag == 0 {
            return None;
        }
        let [version, _, begun, group, ..] = self.interval(at) else { return None };
        let before = version.load(Acquire);
        let read = OpenRead { group: group.load(Relaxed), begun: begun.load(Relaxed), tag };
        fence(Acquire);
        // One that ends meanwhile is not open, and a new one has just begun.
        (before.is_multiple_of(2) && version.load(Relaxed) == before).then_some(read)
    }

    /// Returns the last ends without a beginning, the tag and the time of each. There may have been
    /// others before the earliest of [`LAST_ENDS`].
    pub(super) fn last_unknown_ends(self) -> UnknownEnds {
        let load = |word: &AtomicU64| word.load(Relaxed);
        let last = self.head.0[LAST..].as_chunks::<2>().0.iter();
        UnknownEnds(last.map(|[tag, time]| (load(tag), load(time))).filter(|it| it.1 != 0).collect())
    }

    /// Returns the counts so far. Open intervals of another owner are left for good.
    pub(super) fn counts(self, owner: Owner) -> OpenCounts {
        let count = |at: usize| self.head.0[at].load(Relaxed);
        let mut counts = OpenCounts {
            nested: count(NESTED),
            no_room: count(NO_ROOM),
            no_key: count(NO_KEY),
            switched: count(SWITCHED),
            thread_ended: count(THREAD_ENDED),
            unknown_ends: count(UNKNOWN_ENDS),
        };
        if !self.is_of(owner) {
            let is_other = count(THREAD) != owner.thread;
            let left = if is_other { &mut counts.thread_ended } else { &mut counts.switched };
            *left += count(OPEN);
        }
        counts
    }

    /// Forgets the intervals of an earlier generation, or of a thread that has ended.
    #[cold]
    fn restart(&self, owner: Owner) {
        let head = &self.head.0;
        let is_other = head[THREAD].load(Relaxed) != owner.thread;
        match head[OPEN].load(Relaxed) {
            0 => (),
            open => {
                self.count(if is_other { THREAD_ENDED } else { SWITCHED }, open);
                self.head.1.iter().for_each(|tag| tag.store(0, Relaxed));
            }
        }
        head[OPEN].store(0, Relaxed);
        head[THREAD].store(owner.thread, Release);
        head[GENERATION].store(owner.generation.into(), Release);
    }

    #[inline(always)]
    fn is_of(&self, owner: Owner) -> bool {
        let word = |at: usize| self.head.0[at].load(Relaxed);
        word(THREAD) == owner.thread && word(GENERATION) == u64::from(owner.generation)
    }

    #[inline(always)]
    fn count(&self, at: usize, more: u64) {
        add_single_writer(&self.head.0[at], more);
    }

    #[inline(always)]
    fn tag(&self, at: usize) -> &'a AtomicU64 {
        &self.head.1[at % PLACES]
    }

    #[inline(always)]
    fn interval(&self, at: usize) -> &'a [AtomicU64] {
        self.words.get(at * LEN..(at + 1) * LEN).unwrap_or_default()
    }

    #[inline(always)]
    fn has(&self, at: usize, key: &Key) -> bool {
        let [_, shape, _, _, _, words @ ..] = self.interval(at) else { return false };
        shape.load(Relaxed) == shape_of(key)
            && words.iter().zip(key.words()).all(|(place, word)| place.load(Relaxed) == *word)
    }
}

#[inline(always)]
fn tag(key: &Key) -> u64 {
    // Its high bits depend on the whole key.
    key.hash() | 1
}

#[inline(always)]
fn bucket(tag: u64) -> std::ops::Range<usize> {
    #[expect(clippy::cast_possible_truncation, reason = "less than the number of places")]
    let start = (tag >> (u64::BITS - (PLACES / BUCKET).ilog2())) as usize * BUCKET;
    start..start + BUCKET
}

/// Returns the shape of one key, and in its other half what the key is about.
#[inline(always)]
fn shape_of(key: &Key) -> u64 {
    key.shape() | u64::from(key.subject()) << u32::BITS
}

#[cfg(test)]
mod tests {
    use super::*;
    use probe_lang::expression::Datum;

    const OWNER: Owner = Owner { thread: 1, generation: 3 };

    struct Memory(Box<OpenHead>, Vec<AtomicU64>);

    impl Memory {
        fn new() -> Self {
            let tags: Box<[AtomicU64; PLACES]> = Box::new([const { AtomicU64::new(0) }; PLACES]);
            let words = (0..OPEN_WORDS).map(|_| AtomicU64::new(0)).collect();
            Self(Box::new((Default::default(), *tags)), words)
        }

        fn table(&self) -> OpenTable<'_> {
            OpenTable { head: &self.0, words: &self.1 }
        }
    }

    fn key(subject: u32, number: i128) -> Key {
        let mut key = Key::new(subject, Key::room(1));
        key.add(Ok(Datum::Int(number))).unwrap();
        key
    }

    #[test]
    fn an_interval_ends_by_its_key() {
        let memory = Memory::new();
        let table = memory.table();
        table.begin(OWNER, &key(0, 7), 70, || 100);
        table.begin(OWNER, &key(0, 8), 80, || 110);
        table.begin(OWNER, &key(1, 7), 71, || 120);
        assert_eq!(table.read(OWNER).len(), 3);
        assert_eq!(table.end(OWNER, &key(0, 7), 150), Some(Ended { group: 70, ticks: 50 }));
        assert_eq!(table.end(OWNER, &key(0, 7), 160), None);
        assert_eq!(table.end(OWNER, &key(1, 7), 170), Some(Ended { group: 71, ticks: 50 }));
        let tag = tag(&key(0, 8));
        assert_eq!(table.read(OWNER), [OpenRead { group: 80, begun: 110, tag }]);
        assert_eq!(table.counts(OWNER), OpenCounts { unknown_ends: 1, ..OpenCounts::default() });
        assert_eq!(table.last_unknown_ends().0, [(super::tag(&key(0, 7)), 160)]);
    }

    #[test]
    fn the_outermost_of_one_key_counts() {
        let memory = Memory::new();
        let table = memory.table();
        (0..3).for_each(|n| table.begin(OWNER, &key(0, 7), 70 + n, || 100 + n));
        assert_eq!([110, 120].map(|now| table.end(OWNER, &key(0, 7), now)), [None, None]);
        assert_eq!(table.end(OWNER, &key(0, 7), 130), Some(Ended { group: 70, ticks: 30 }));
        assert_eq!(table.counts(OWNER), OpenCounts { nested: 2, ..OpenCounts::default() });
    }

    #[test]
    fn nothing_is_paired_across_switches_and_threads() {
        let memory = Memory::new();
        let table = memory.table();
        table.begin(OWNER, &key(0, 7), 70, || 100);
        let resumed = Owner { generation: 5, ..OWNER };
        let (none, switched) = (OpenCounts::default(), OpenCounts { switched: 1, ..OpenCounts::default() });
        assert_eq!((table.counts(OWNER), table.counts(resumed)), (none, switched));
        assert_eq!((table.read(OWNER).len(), table.read(resumed).len()), (1, 0));
        assert_eq!(table.end(resumed, &key(0, 7), 120), None);
        table.begin(resumed, &key(0, 7), 70, || 130);
        let counts = OpenCounts { unknown_ends: 1, ..switched };
        assert_eq!(table.counts(resumed), counts);
        // Another thread has got the memory. It has begun none of these intervals.
        let other = Owner { thread: 2, ..resumed };
        let counts = OpenCounts { thread_ended: 1, ..counts };
        assert_eq!((table.read(resumed).len(), table.read(other).len()), (1, 0));
        assert_eq!(table.counts(other), counts);
        assert_eq!(table.end(other, &key(0, 7), 135), None);
        let counts = OpenCounts { unknown_ends: 2, ..counts };
        assert_eq!((table.read(resumed).len(), table.read(other).len()), (0, 0));
        assert_eq!(table.counts(other), counts);
        table.begin(other, &key(0, 9), 90, || 140);
        assert_eq!(table.read(other), [OpenRead { group: 90, begun: 140, tag: tag(&key(0, 9)) }]);
        // Sites are being switched.
        let switching = Owner { generation: 6, ..other };
        table.begin(switching, &key(0, 9), 90, || 150);
        assert_eq!(table.read(switching), []);
        assert_eq!(table.counts(switching), OpenCounts { switched: 3, ..counts });
    }

    #[test]
    fn intervals_beyond_the_room_are_counted() {
        let memory = Memory::new();
        let table = memory.table();
        (0..5000).for_each(|n| table.begin(OWNER, &key(0, n), 0, || 1));
        let open = table.read(OWNER).len();
        assert!((PLACES * 9 / 10..=PLACES).contains(&open), "{open}");
        assert_eq!(table.counts(OWNER).no_room, 5000 - open as u64);
        let ended = (0..5000).filter(|n| table.end(OWNER, &key(0, *n), 2).is_some()).count();
        assert_eq!((ended, table.read(OWNER).len()), (open, 0));
        assert_eq!(table.counts(OWNER).unknown_ends, 5000 - open as u64);
    }

    /// Another thread's end is of the same key, and later.
    #[test]
    fn an_end_elsewhere_may_be_of_an_interval_of_its_key() {
        let memory = Memory::new();
        let table = memory.table();
        let open = |number| OpenRead { group: 1, begun: 100, tag: tag(&key(0, number)) };
        let may_have = |number| table.last_unknown_ends().may_have(&open(number));
        assert!(!may_have(0));
        for (number, now) in [(7, 90), (8, 110)] {
            assert_eq!(table.end(OWNER, &key(0, number), now), None);
        }
        assert_eq!([7, 8, 9].map(may_have), [false, true, false]);
        (0..7).for_each(|n| _ = table.end(OWNER, &key(0, 10 + n), 120));
        // Earlier ones are not known any more.
        assert_eq!([7, 8, 9, 10].map(may_have), [true; 4]);
    }

    /// An interval that is read is one that was begun: its time and its group belong together.
    #[test]
    fn another_thread_reads_whole_intervals() {
        let memory = Memory::new();
        let rounds = if cfg!(miri) { 200 } else { 200_000 };
        std::thread::scope(|scope| {
            let writer = scope.spawn(|| {
                for n in 1..=rounds {
                    memory.table().begin(OWNER, &key(0, 7), n, || 2 * n);
                    memory.table().end(OWNER, &key(0, 7), 2 * n);
                }
            });
            while !writer.is_finished() {
                for read in memory.table().read(OWNER) {
                    assert_eq!(read.begun, 2 * read.group);
                }
            }
        });
        assert_eq!(memory.table().counts(OWNER), OpenCounts::default());
    }
}
