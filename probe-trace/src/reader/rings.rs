//! Items of a trace that is still being written, from the rings themselves.
//!
//! Life cycle: each pass takes a reading of the clocks first, and then reads all rings up to that
//! time. A hit that comes after another one of the same future is later on the clock, and was
//! written later. So a pass that has the later hit has the earlier one. A thread that stops between
//! its time stamp and its record delays that record to a later pass, and nothing depends on it yet.
//!
//! Between the readings of two passes time passes at one rate, so that no time waits for a later
//! reading. Each time is as exact as its two readings.
//!
//! Memory: one sub-buffer for each ring.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::io::Cursor;
use std::path::Path;
use std::sync::Arc;

use super::clock::{Clock, Reading};
use super::file::{TraceFile, reading_of};
use super::stream::{Part, Stream, time_of};
use crate::error::ReadError;
use crate::item::{Definition, Item};
use crate::layout::{reading, ring};

/// The rings of a trace that is being written. `export::Live` reads them (feature `perfetto`).
///
/// ```
/// use probe_trace::{Part, Rings, layout};
///
/// /// A trace without a thread.
/// struct None;
///
/// impl Rings for None {
///     fn numbers(&self) -> Vec<u64> {
///         Vec::new()
///     }
///     fn head(&self, _ring: u64) -> [u64; layout::ring::WORDS] {
///         [0; layout::ring::WORDS]
///     }
///     fn read(&mut self, _ring: u64, _words: &mut Vec<u64>) -> Part {
///         Part::None
///     }
/// }
/// ```
pub trait Rings {
    /// Returns the numbers of all rings that have begun.
    fn numbers(&self) -> Vec<u64>;

    /// Returns a ring's head, as [`layout::ring`](ring) has it.
    fn head(&self, ring: u64) -> [u64; ring::WORDS];

    /// Adds words to those of the ring's sub-buffer that were read before, or replaces them by the
    /// first ones of the next, where that is all of it. Words are whole records.
    fn read(&mut self, ring: u64, words: &mut Vec<u64>) -> Part;
}

/// Reads rings.
#[derive(Debug)]
pub(crate) struct RingReader {
    file: TraceFile,
    streams: Vec<Stream>,
    /// Places in `streams`, by ring.
    places: HashMap<u64, usize>,
    /// The reading of the pass before.
    last: Reading,
    /// Items of a stream up to one that has a time.
    items: Vec<Vec<Item>>,
    next: BinaryHeap<Reverse<(u64, usize)>>,
}

impl RingReader {
    /// Begins with the first part of a file: header, program, definitions.
    /// Errors name it by this path.
    pub(crate) fn new(path: &Path, head: Vec<u8>) -> Result<Self, ReadError> {
        let file = TraceFile::read(path, Box::new(Cursor::new(head)))?;
        let last = file.clock.first();
        let (streams, items) = (Vec::new(), Vec::new());
        Ok(Self { file, streams, places: HashMap::new(), last, items, next: BinaryHeap::new() })
    }

    /// Adds a block's definitions.
    pub(crate) fn define(&mut self, definitions: &[u8]) {
        self.file.define(definitions);
    }

    /// Hands out all items up to this reading, in the order of time but for late ones.
    pub(crate) fn advance(
        &mut self,
        now: &[u64; reading::WORDS],
        rings: &mut impl Rings,
        mut take: impl FnMut(Item),
    ) {
        let now = reading_of(now);
        self.file.clock = Clock::between(self.last, now);
        self.last = now;
        self.read(now.ticks, rings, &mut take);
    }

    /// Hands out all items that are left, and the losses after them. No thread may write any more.
    pub(crate) fn finish(&mut self, rings: &mut impl Rings, mut take: impl FnMut(Item)) {
        self.rest(rings, &mut take);
    }

    /// Hands out the same, with a last reading of the clocks.
    pub(crate) fn close(
        &mut self,
        now: &[u64; reading::WORDS],
        rings: &mut impl Rings,
        mut take: impl FnMut(Item),
    ) {
        self.file.clock = Clock::between(self.last, reading_of(now));
        self.rest(rings, &mut take);
    }

    /// Returns the definitions of probes, for further ones.
    pub(super) fn definitions(&mut self) -> &mut HashMap<u32, Arc<Definition>> {
        &mut self.file.definitions
    }

    /// Returns the number of events so far without a definition.
    pub(super) fn undefined(&self) -> u64 {
        self.streams.iter().map(|stream| stream.undefined).sum()
    }

    fn rest(&mut self, rings: &mut impl Rings, take: &mut impl FnMut(Item)) {
        self.read(u64::MAX, rings, take);
        for (ring, place) in &self.places {
            self.file.heads.insert(*ring, rings.head(*ring));
            self.streams[*place].end(&self.file);
        }
        self.read(u64::MAX, rings, take);
    }

    fn read(&mut self, latest: u64, rings: &mut impl Rings, take: &mut impl FnMut(Item)) {
        for ring in rings.numbers() {
            let place = *self.places.entry(ring).or_insert(self.streams.len());
            if place == self.streams.len() {
                self.streams.push(Stream::of(0, ring));
                self.items.push(Vec::new());
            }
        }
        for place in 0..self.streams.len() {
            if let Some(time) = self.fill(place, latest, rings) {
                self.next.push(Reverse((time, place)));
            }
        }
        while let Some(Reverse((_, place))) = self.next.pop() {
            loop {
                self.items[place].drain(..).for_each(&mut *take);
                let Some(time) = self.fill(place, latest, rings) else { break };
                if self.next.peek().is_some_and(|Reverse(next)| *next < (time, place)) {
                    self.next.push(Reverse((time, place)));
                    break;
                }
            }
        }
    }

    /// Reads a stream's items up to the next one that has a time. Returns that time.
    fn fill(&mut self, place: usize, latest: u64, rings: &mut impl Rings) -> Option<u64> {
        let (stream, items) = (&mut self.streams[place], &mut self.items[place]);
        let mut part = |ring, words: &mut Vec<u64>| rings.read(ring, words);
        while let Some(item) = stream.next_until(&self.file, latest, &mut part) {
            let time = time_of(&item);
            items.push(item);
            if time.is_some() {
                return time;
            }
        }
        None
    }
}
