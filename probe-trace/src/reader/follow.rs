//! A file that its process still writes, read as it grows.
//!
//! Life cycle: opening reads the file's beginning ▸ each pass reads the blocks that are new, and
//! hands out the items up to a reading of the clocks after which all rings were copied ▸ the last
//! pass hands out the rest. So items come in the order of time, and one flush late. A process that
//! had to end its file early says how many events are missing in room that it took before: each
//! later pass reads that.
//!
//! Memory: the definitions, and for each ring the sub-buffers that are not handed out yet. All
//! other blocks are read once, so what lies before [`position`](Followed::position) may be cut out
//! of the file after a pass, but for its header.

use std::collections::{HashMap, VecDeque};
use std::io::{self, Read, Seek, SeekFrom};
use std::ops::Range;
use std::path::{Path, PathBuf};

use super::block::{BLOCK_HEADER_BYTES, BlockHeader, block_at, bytes_at};
use super::definitions;
use super::file::{Source, later_unseen, note_head, realtime_offset, words_of};
use super::rings::{RingReader, Rings};
use super::stream::Part;
use crate::error::{Problem, ReadError};
use crate::item::Item;
use crate::layout::{HEADER_BYTES, block, header, reading, ring, state, sub_buffer};

/// Follows a trace that is being written to a file, by a process that flushes it now and then.
///
/// ```no_run
/// use std::fs::File;
///
/// use probe_trace::{Followed, Item};
///
/// let file = File::open("run.probetrace").unwrap();
/// let mut followed = Followed::begin("run.probetrace", file)?;
/// loop {
///     followed.advance(|item| {
///         if let Item::Event(event) = item {
///             println!("{} {}", event.time, event.definition.path);
///         }
///     })?;
/// #   break;
/// }
/// # Ok::<(), probe_trace::ReadError>(())
/// ```
pub struct Followed {
    path: PathBuf,
    source: Box<dyn Source>,
    items: RingReader,
    rings: CopiedRings,
    /// The first byte that was not read yet.
    at: u64,
    /// Words of a sub-buffer, at most.
    sub_buffer_words: u64,
    /// The places of blocks that a file replaces which had to end early.
    unused_blocks: Vec<Range<u64>>,
    /// The last reading of all clocks, and the one before the last flush.
    last_clocks: Words,
    flushed_until: Option<Words>,
    unseen: [u64; 2],
}

type Words = [u64; reading::WORDS];

impl Followed {
    /// Begins with a file whose process has written its beginning: header, name and definitions.
    /// Errors name the file by this path.
    ///
    /// The source must have a position of its own, which the process does not share.
    ///
    /// # Errors
    /// If it can't be read, is no trace, or has another version.
    pub fn begin<S: Read + Seek + Send + 'static>(
        path: impl AsRef<Path>,
        source: S,
    ) -> Result<Self, ReadError> {
        let path = path.as_ref().to_owned();
        let mut source: Box<dyn Source> = Box::new(source);
        let head = head(&mut *source).map_err(|it| ReadError::new(&path, Problem::System(it)))?;
        let words = words_of(head.get(..HEADER_BYTES).unwrap_or_default());
        let at = head.len() as u64;
        let items = RingReader::new(&path, head)?;
        // The header was checked.
        let word = |at: usize| words.get(at).copied().unwrap_or_default();
        let last_clocks = std::array::from_fn(|at| word(header::READING + at));
        let (sub_buffer_words, rings, unused_blocks) =
            (word(header::SUB_BUFFER_WORDS), CopiedRings::default(), Vec::new());
        Ok(Self {
            path,
            source,
            items,
            rings,
            at,
            sub_buffer_words,
            unused_blocks,
            last_clocks,
            flushed_until: None,
            unseen: [0; 2],
        })
    }

    /// Hands out the items that the file has since the last time. They reach to the flush before
    /// the last one.
    ///
    /// # Errors
    /// If the file can't be read, or is damaged. The items before are lost.
    pub fn advance(&mut self, take: impl FnMut(Item)) -> Result<(), ReadError> {
        self.read_all()?;
        if let Some(flushed_until) = self.flushed_until.take() {
            self.items.advance(&flushed_until, &mut self.rings, take);
        }
        Ok(())
    }

    /// Hands out all other items of the file, and the losses at its end. The process must have
    /// finished the file, or be gone.
    ///
    /// # Errors
    /// If the file can't be read, or is damaged. The items before come first.
    pub fn finish(&mut self, take: impl FnMut(Item)) -> Result<(), ReadError> {
        let result = self.read_all();
        self.items.close(&self.last_clocks, &mut self.rings, take);
        result
    }

    /// Returns the number of bytes that were read. They are needed no more, but for the header. The
    /// next pass reads what the process writes there later, of missing events.
    pub fn position(&self) -> u64 {
        self.at
    }

    /// Returns the number of lost hits that no [gap](Item::Gap) tells, as of the last flush, or of
    /// the file's end: those of threads without a ring, and hits inside of other hits.
    pub fn unseen(&self) -> u64 {
        self.unseen[0].saturating_add(self.unseen[1])
    }

    /// Returns the number of events without a definition, which were left out.
    pub fn undefined(&self) -> u64 {
        self.items.undefined()
    }

    /// Returns the calendar time of an item's time, in nanoseconds since 1970, by the last reading
    /// of both clocks.
    pub fn wall_time(&self, time: u64) -> u64 {
        u64::try_from((i128::from(time) + realtime_offset(&self.last_clocks)).max(0)).unwrap_or(u64::MAX)
    }

    fn read_all(&mut self) -> Result<(), ReadError> {
        let read = self.read().and_then(|()| self.read_missing().map_err(Problem::System));
        read.map_err(|problem| ReadError::new(&self.path, problem))
    }

    /// Reads the blocks that are new and whole.
    fn read(&mut self) -> Result<(), Problem> {
        let length = self.source.seek(SeekFrom::End(0)).map_err(Problem::System)?;
        while let Some(head) = block_at(&mut *self.source, self.at, length).map_err(Problem::System)? {
            if head.magic != block::MAGIC || !head.is_possible(self.sub_buffer_words) {
                return Err(Problem::Block(self.at));
            }
            let Some(end) = head.end(self.at).filter(|end| *end <= length) else { break };
            self.take(head, self.at).map_err(Problem::System)?;
            self.at = end;
        }
        Ok(())
    }

    /// Reads what a file says of the events that it lacks, if it had to end before the trace did.
    fn read_missing(&mut self) -> io::Result<()> {
        let state = words_of(&bytes_at(&mut *self.source, header::STATE as u64 * 8, 8)?);
        if state != [state::CUT] {
            return Ok(());
        }
        for unused_block in self.unused_blocks.clone() {
            let mut at = unused_block.start;
            while let Some(head) = block_at(&mut *self.source, at, unused_block.end)?
                && head.magic == block::MAGIC
                && matches!(head.kind, block::UNSEEN | block::RING)
                && head.is_possible(self.sub_buffer_words)
                && let Some(end) = head.end(at).filter(|end| *end <= unused_block.end)
            {
                self.take(head, at)?;
                at = end;
            }
        }
        Ok(())
    }

    /// Takes the content of the block at this place.
    fn take(&mut self, head: BlockHeader, at: u64) -> io::Result<()> {
        let content = at + BLOCK_HEADER_BYTES;
        let mut words =
            |count: usize| bytes_at(&mut *self.source, content, count * 8).map(|it| words_of(&it));
        match head.kind {
            block::SUB_BUFFER => {
                let words = words(usize::try_from(head.bytes / 8).unwrap_or_default())?;
                self.rings.add(head.ring, words);
            }
            block::READING => {
                self.last_clocks = words(reading::WORDS)?.try_into().unwrap_or(self.last_clocks)
            }
            block::RING => {
                note_head(&mut self.rings.heads, head.ring, &words(ring::WORDS)?);
            }
            // Each flush ends with this block and a reading. The process has copied its rings after
            // all readings before.
            block::UNSEEN => {
                self.unseen = later_unseen(self.unseen, &words(2)?);
                self.flushed_until = Some(self.last_clocks);
            }
            block::UNUSED => self.unused_blocks.extend(head.end(at).map(|end| at..end)),
            block::DEFINITIONS => {
                definitions::read_at(&mut *self.source, content, head.bytes, self.items.definitions())?;
            }
            // A later writer's.
            _ => (),
        }
        Ok(())
    }
}

/// Returns the file's beginning: its header, and the program's name and definitions.
fn head(source: &mut dyn Source) -> io::Result<Vec<u8>> {
    let length = source.seek(SeekFrom::End(0))?;
    let mut end = (HEADER_BYTES as u64).min(length);
    while let Some(head) = block_at(source, end, length)? {
        let is_of_head = matches!(head.kind, block::PROGRAM | block::DEFINITIONS);
        match head.end(end) {
            Some(next)
                if is_of_head
                    && head.magic == block::MAGIC
                    && next <= length.min(block::MOST_DEFINITIONS) =>
            {
                end = next;
            }
            _ => break,
        }
    }
    bytes_at(source, 0, usize::try_from(end).unwrap_or_default())
}

/// The sub-buffers that the file has, by ring. The last copy of a sub-buffer is the longest.
#[derive(Default)]
struct CopiedRings {
    rings: HashMap<u64, VecDeque<Vec<u64>>>,
    heads: HashMap<u64, [u64; ring::WORDS]>,
}

impl CopiedRings {
    fn add(&mut self, ring: u64, words: Vec<u64>) {
        let copies = self.rings.entry(ring).or_default();
        match copies.back_mut() {
            Some(last) if last[sub_buffer::SEQUENCE] == words[sub_buffer::SEQUENCE] => {
                if words.len() >= last.len() {
                    *last = words;
                }
            }
            _ => copies.push_back(words),
        }
    }
}

impl Rings for CopiedRings {
    fn numbers(&self) -> Vec<u64> {
        // A ring all of whose hits were lost has a head alone.
        let mut numbers: Vec<_> = self.rings.keys().chain(self.heads.keys()).copied().collect();
        numbers.sort_unstable();
        numbers.dedup();
        numbers
    }

    fn head(&self, ring: u64) -> [u64; ring::WORDS] {
        self.heads.get(&ring).copied().unwrap_or([0; ring::WORDS])
    }

    fn read(&mut self, ring: u64, words: &mut Vec<u64>) -> Part {
        let Some(copies) = self.rings.get_mut(&ring) else { return Part::None };
        let Some(sequence) = words.first().copied() else {
            words.extend(copies.front().into_iter().flatten());
            return if words.is_empty() { Part::None } else { Part::Next };
        };
        if let Some(same) = copies.front().filter(|it| it[sub_buffer::SEQUENCE] == sequence)
            && same.len() > words.len()
        {
            words.extend_from_slice(&same[words.len()..]);
            return Part::Further;
        }
        // The current one stays until the next has come: a longer copy may follow.
        if copies.len() < 2 {
            return Part::None;
        }
        copies.pop_front();
        words.clear();
        words.extend(copies.front().into_iter().flatten());
        Part::Next
    }
}

impl std::fmt::Debug for Followed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Followed")
            .field("path", &self.path)
            .field("position", &self.at)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
