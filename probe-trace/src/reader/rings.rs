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

use std::collections::HashMap;
use std::convert::Infallible;
use std::io::{Read, Seek};
use std::path::Path;

use super::clock::{Clock, Reading};
use super::file::{ReadError, TraceFile};
use super::stream::{Merge, Part, Stream};
use crate::item::Item;
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

    /// Adds the words that the ring's sub-buffer has beyond `words`, which were read before. If
    /// there are none, replaces `words` by the first ones of the next sub-buffer. Adds whole
    /// records only.
    fn read(&mut self, ring: u64, words: &mut Vec<u64>) -> Part;

    /// Returns the times in which the ring's thread was off the processor after its last hit, as a
    /// block [`OFF`](crate::layout::block::OFF) has them. Nothing if they are not known.
    fn off(&self, ring: u64) -> Vec<u64> {
        let _ = ring;
        Vec::new()
    }
}

/// Reads the items of rings, pass by pass.
#[derive(Debug)]
pub(crate) struct RingReader {
    pub(super) file: TraceFile,
    merge: Merge,
    /// Places of streams, by ring.
    places: HashMap<u64, usize>,
    /// The reading of the pass before.
    last: Reading,
}

impl RingReader {
    /// Begins with the first part of a file: header, program, definitions. Errors name it by this
    /// path. Also returns where that part ends.
    pub(crate) fn new(
        path: &Path,
        source: impl Read + Seek + Send + 'static,
    ) -> Result<(Self, u64), ReadError> {
        let (file, end) = TraceFile::begin(path, Box::new(source))?;
        let last = file.clock.first();
        Ok((Self { file, merge: Merge::default(), places: HashMap::new(), last }, end))
    }

    /// Adds a block's definitions.
    #[cfg(feature = "perfetto")]
    pub(crate) fn define(&mut self, definitions: &[u8]) {
        super::decode::define(definitions, &mut self.file.definitions);
    }

    /// Adds a block's stacks.
    #[cfg(feature = "perfetto")]
    pub(crate) fn add_stacks(&mut self, stacks: &[u8]) {
        super::decode::add_stacks(stacks, &mut self.file.stacks);
    }

    /// Hands out all items up to this reading, in the order of time except late ones.
    pub(crate) fn advance(
        &mut self,
        now: &[u64; reading::WORDS],
        rings: &mut impl Rings,
        mut take: impl FnMut(Item),
    ) {
        self.set_clock(now);
        self.read(self.last.ticks, rings, &mut take);
    }

    /// Hands out all items that are left, and the losses after them. No thread may write any more.
    pub(crate) fn finish(&mut self, rings: &mut impl Rings, mut take: impl FnMut(Item)) {
        self.read(u64::MAX, rings, &mut take);
        for (ring, place) in &self.places {
            self.file.losses.heads.insert(*ring, rings.head(*ring));
            self.file.losses.off.insert(*ring, rings.off(*ring));
            self.merge.streams[*place].end(&self.file);
        }
        self.read(u64::MAX, rings, &mut take);
    }

    /// Interpolates times between the reading of the pass before and this one.
    pub(super) fn set_clock(&mut self, now: &[u64; reading::WORDS]) {
        let now = Reading::of(now);
        self.file.clock = Clock::between(self.last, now);
        self.last = now;
    }

    /// Returns the number of events so far without a definition.
    pub(super) fn undefined(&self) -> u64 {
        self.merge.undefined()
    }

    fn read(&mut self, latest: u64, rings: &mut impl Rings, take: &mut impl FnMut(Item)) {
        let Self { file, merge, places, .. } = self;
        for ring in rings.numbers() {
            places.entry(ring).or_insert_with(|| {
                merge.streams.push(Stream::of(0, ring));
                merge.streams.len() - 1
            });
        }
        merge.restart();
        let mut read = |stream: &mut Stream| {
            Ok::<_, Infallible>(stream.read_until(file, latest, |ring, words| rings.read(ring, words)))
        };
        while let Ok(Some(item)) = merge.next(&mut read) {
            take(item);
        }
    }
}
