//! One file: its process, its probes, and the places of its sub-buffers.
//!
//! Life cycle: opening reads the headers of all blocks once, and keeps the places of sub-buffers,
//! not their content. Memory: 64 bytes a sub-buffer, and the definitions. The file is read at
//! positions, never mapped: one that somebody cuts off meanwhile is an error, and no signal.

use std::collections::HashMap;
use std::fmt;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::block::{BLOCK_HEADER_BYTES, BlockHeader, block_at, bytes_at};
use super::clock::{Clock, Reading};
use super::definitions;
use crate::error::{Problem, ReadError};
use crate::item::{Definition, ThreadId};
use crate::layout::{self, HEADER_BYTES, block, header, reading, ring, state, sub_buffer};

/// The most words of a sub-buffer that are believed, 1 GiB.
const MAX_SUB_BUFFER_WORDS: u64 = 1 << 27;
/// A machine that sleeps does so for longer, in nanoseconds; readings of two clocks that were
/// interrupted differ by less.
const MIN_SLEEP_NS: u64 = 1_000_000_000;
/// The calendar's clock was set by more than this, in nanoseconds, or the machine slept; readings
/// of both clocks differ by less.
const MIN_OFFSET_CHANGE_NS: u128 = 1_000_000;
/// Bytes of a program's name that are kept.
const MAX_PROGRAM_NAME_BYTES: usize = 1024;
/// The most words of a sub-buffer that are read at once.
pub(super) const CHUNK_WORDS: usize = 1 << 13;
/// Damaged blocks that have a line each. The others are counted.
const MAX_LISTED_DAMAGES: u64 = 8;

/// A file that was opened.
pub(super) struct TraceFile {
    pub(super) path: PathBuf,
    source: Box<dyn Source>,
    pub(super) process: u64,
    pub(super) program: Arc<str>,
    pub(super) definitions: HashMap<u32, Arc<Definition>>,
    pub(super) clock: Clock,
    pub(super) boot: [u64; 2],
    /// `CLOCK_REALTIME` less `CLOCK_MONOTONIC`, at the beginning.
    pub(super) realtime_offset: i128,
    /// The same at later times of `CLOCK_MONOTONIC`, where it has changed.
    offset_changes: Vec<(u64, i128)>,
    /// All clocks at the beginning.
    pub(super) first_clocks: [u64; reading::WORDS],
    /// By ring, and in the order in which they were written.
    pub(super) sub_buffers: Vec<SubBuffer>,
    pub(super) heads: HashMap<u64, [u64; ring::WORDS]>,
    /// Hits of threads without a ring, and hits inside of hits; `None` if the file was not closed.
    pub(super) unseen: Option<[u64; 2]>,
    pub(super) is_closed: bool,
    /// Whether it had to end before the trace.
    pub(super) is_cut: bool,
    /// Whether the process has written its rings' memory right into the file.
    is_mapped: bool,
    /// The unused block in front of the rings, where the process may add definitions.
    later_definitions: Option<u64>,
    /// Nanoseconds that the machine slept before the last reading, since it was started, and how
    /// many of them were after the first reading.
    slept: (u64, u64),
    /// `CLOCK_MONOTONIC` at the last reading, and at those before and after each sleep.
    last_reading: u64,
    sleeps: Vec<[u64; 2]>,
    pub(super) problems: Vec<String>,
}

/// A file, or its content in memory.
pub(super) trait Source: Read + Seek + Send {}

impl<S: Read + Seek + Send> Source for S {}

/// A sub-buffer in the file, or the rest of one.
#[derive(Clone, Copy, Debug)]
pub(super) struct SubBuffer {
    pub(super) ring: u64,
    /// The sub-buffer's number in its ring, from 0.
    pub(super) number: u64,
    pub(super) at: u64,
    /// The words to read, of which a live one may use fewer.
    pub(super) words: usize,
    /// Whether its thread may still write it.
    pub(super) is_live: bool,
}

impl TraceFile {
    pub(super) fn open(path: &Path) -> Result<Self, ReadError> {
        let file = File::open(path).map_err(|it| ReadError::new(path, Problem::System(it)))?;
        Self::read(path, Box::new(file))
    }

    /// Reads the source; errors name it by this path.
    pub(super) fn read(path: &Path, mut source: Box<dyn Source>) -> Result<Self, ReadError> {
        let error = |problem| ReadError::new(path, problem);
        let system = |it| error(Problem::System(it));
        let length = source.seek(SeekFrom::End(0)).map_err(system)?;
        source.seek(SeekFrom::Start(0)).map_err(system)?;
        let mut bytes = [0; HEADER_BYTES];
        source.read_exact(&mut bytes).map_err(|it| match it.kind() {
            io::ErrorKind::UnexpectedEof => error(Problem::Foreign),
            _ => system(it),
        })?;
        let words = words_of(&bytes);
        if words[header::MAGIC] == layout::MAGIC.swap_bytes() {
            return Err(error(Problem::ByteOrder));
        }
        if words[header::MAGIC] != layout::MAGIC {
            return Err(error(Problem::Foreign));
        }
        if words[header::VERSION] != layout::VERSION {
            return Err(error(Problem::Version(words[header::VERSION])));
        }
        let sub_buffer_words = words[header::SUB_BUFFER_WORDS];
        if !(sub_buffer::WORDS as u64..=MAX_SUB_BUFFER_WORDS).contains(&sub_buffer_words) {
            return Err(error(Problem::Header("an impossible size of sub-buffers")));
        }
        let first = &words[header::READING..][..reading::WORDS];
        let mut file = Self {
            path: path.to_owned(),
            source,
            process: words[header::PROCESS],
            program: Arc::from(""),
            definitions: HashMap::new(),
            clock: Clock::new(Vec::new()),
            boot: [words[header::BOOT], words[header::BOOT + 1]],
            realtime_offset: realtime_offset(first),
            offset_changes: Vec::new(),
            first_clocks: first.try_into().unwrap_or_default(),
            sub_buffers: Vec::new(),
            heads: HashMap::new(),
            unseen: None,
            is_closed: [state::CLOSED, state::CUT].contains(&words[header::STATE]),
            is_cut: words[header::STATE] == state::CUT,
            is_mapped: false,
            later_definitions: None,
            slept: (time_asleep(first), 0),
            last_reading: first[reading::MONOTONIC],
            sleeps: Vec::new(),
            problems: Vec::new(),
        };
        let mut readings = vec![reading_of(first)];
        let shape = [words[header::SUB_BUFFERS], sub_buffer_words];
        file.scan(length, shape, &mut readings).map_err(system)?;
        file.clock = Clock::new(readings);
        file.sleeps.iter().for_each(|around| file.clock.note_sleep(*around));
        file.sub_buffers.sort_by_key(|it| (it.ring, it.number));
        // A part of a sub-buffer may come before the whole one.
        file.sub_buffers.dedup_by(|later, earlier| {
            let is_same = (later.ring, later.number) == (earlier.ring, earlier.number);
            if is_same {
                *earlier = *later;
            }
            is_same
        });
        file.note_problems();
        Ok(file)
    }

    /// Reads the blocks' headers, and the content of those that are no sub-buffers.
    fn scan(
        &mut self,
        length: u64,
        [sub_buffers, sub_buffer_words]: [u64; 2],
        readings: &mut Vec<Reading>,
    ) -> io::Result<()> {
        let (mut at, mut damaged) = (HEADER_BYTES as u64, 0);
        while let Some(head) = block_at(&mut *self.source, at, length)? {
            let BlockHeader { magic, kind, bytes, ring: of } = head;
            let (content, end) = (at + BLOCK_HEADER_BYTES, head.end(at));
            if (magic, kind) == (block::MAGIC, block::RINGS) {
                self.is_mapped = true;
                let content = content..end.unwrap_or(length).min(length);
                self.scan_rings(content, of, [sub_buffers, sub_buffer_words], readings)?;
            }
            let is_whole = magic == block::MAGIC && end.is_some_and(|end| end <= length);
            let Some(end) = end.filter(|_| is_whole) else { break };
            let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
            match kind {
                _ if !head.is_possible(sub_buffer_words) => {
                    damaged += 1;
                    self.note_damage(damaged, || format!("the block at byte {at} has an impossible length"));
                }
                block::SUB_BUFFER => {
                    let Some(head) = self.words_at(content, sub_buffer::WORDS, length)? else { break };
                    readings.extend(reading_in(&head));
                    let number = head[sub_buffer::SEQUENCE].wrapping_sub(1);
                    let words = bytes / 8;
                    self.sub_buffers.push(SubBuffer { ring: of, number, at: content, words, is_live: false });
                }
                block::READING => {
                    let Some(words) = self.words_at(content, reading::WORDS, length)? else { break };
                    readings.push(reading_of(&words));
                    self.note_reading(&words);
                }
                block::RING => {
                    let Some(words) = self.words_at(content, ring::WORDS, length)? else { break };
                    note_head(&mut self.heads, of, &words);
                }
                block::UNSEEN => {
                    let Some(words) = self.words_at(content, 2, length)? else { break };
                    let before = self.unseen.unwrap_or_default();
                    self.unseen = Some(later_unseen(before, &words));
                }
                block::PROGRAM => {
                    let name = bytes_at(&mut *self.source, content, bytes.min(MAX_PROGRAM_NAME_BYTES))?;
                    self.program = String::from_utf8_lossy(&name).into();
                }
                block::DEFINITIONS => {
                    let into = &mut self.definitions;
                    let is_read = definitions::read_at(&mut *self.source, content, head.bytes, into)?;
                    if !is_read {
                        damaged += 1;
                        self.note_damage(damaged, || {
                            format!("the definitions at byte {content} are damaged")
                        });
                    }
                }
                block::UNUSED if !self.is_mapped && !self.is_closed => self.later_definitions = Some(at),
                // A later writer's.
                _ => (),
            }
            at = end;
        }
        if damaged > MAX_LISTED_DAMAGES {
            self.problems.push(format!("{} more blocks are damaged", damaged - MAX_LISTED_DAMAGES));
        }
        if at < length {
            let rest = length - at;
            self.problems.push(format!("the last {rest} bytes are no whole block, and are left out"));
        }
        Ok(())
    }

    /// Reads the definitions that the process has added in front of its rings since the last time.
    pub(super) fn define_later(&mut self) -> io::Result<()> {
        let Some(mut at) = self.later_definitions else { return Ok(()) };
        let length = self.source.seek(SeekFrom::End(0))?;
        while let Some(head) = block_at(&mut *self.source, at, length)?
            && (head.magic, head.kind) == (block::MAGIC, block::DEFINITIONS)
            && head.is_possible(0)
            && let Some(end) = head.end(at).filter(|end| *end <= length)
        {
            definitions::read_at(
                &mut *self.source,
                at + BLOCK_HEADER_BYTES,
                head.bytes,
                &mut self.definitions,
            )?;
            at = end;
            self.later_definitions = Some(at);
        }
        Ok(())
    }

    /// Adds a block's definitions.
    pub(super) fn define(&mut self, block: &[u8]) {
        definitions::read(block, &mut self.definitions);
    }

    /// Notes whether the machine slept between the last reading and this one, and whether the
    /// calendar has changed.
    fn note_reading(&mut self, words: &[u64]) {
        let before = time_asleep(words);
        let slept = before.saturating_sub(self.slept.0);
        let now = words[reading::MONOTONIC];
        if slept >= MIN_SLEEP_NS {
            self.slept = (before, self.slept.1.saturating_add(slept));
            self.sleeps.push([self.last_reading, now]);
        }
        let last = self.offset_changes.last().map_or(self.realtime_offset, |(_, offset)| *offset);
        if (realtime_offset(words) - last).unsigned_abs() >= MIN_OFFSET_CHANGE_NS {
            self.offset_changes.push((now, realtime_offset(words)));
        }
        self.last_reading = now;
    }

    /// Returns what `CLOCK_REALTIME` is ahead of `CLOCK_MONOTONIC` at this time of the latter.
    pub(super) fn realtime_offset_at(&self, time: i128) -> i128 {
        let before = self.offset_changes.partition_point(|(at, _)| i128::from(*at) <= time).checked_sub(1);
        before.map_or(self.realtime_offset, |last| self.offset_changes[last].1)
    }

    /// Notes the problem of the damaged block with this number, if it is one of the first.
    fn note_damage(&mut self, number: u64, problem: impl FnOnce() -> String) {
        if number <= MAX_LISTED_DAMAGES {
            self.problems.push(problem());
        }
    }

    fn note_problems(&mut self) {
        if !self.is_closed {
            let missing = if self.is_mapped {
                "hits of threads without a ring, and hits inside of hits, were not counted"
            } else {
                "its last events are missing"
            };
            self.problems.push(format!(
                "the process did not finish the trace: it still runs, or was killed; {missing}"
            ));
        }
        if self.is_cut {
            let problem = "the file had to end before the trace, as on a full disk; later events are lost";
            self.problems.push(problem.to_owned());
        }
        if self.clock.error().is_none() {
            self.problems
                .push("one reading of the clocks is too few; a tick counts as a nanosecond".to_owned());
        }
        if self.slept.1 != 0 {
            let seconds = self.slept.1.saturating_add(500_000_000) / 1_000_000_000;
            self.problems.push(format!(
                "the machine slept for {seconds} s, which times leave out; times between the two readings around that are less exact"
            ));
        }
        if self.clock.contradicting != 0 {
            let many = self.clock.contradicting;
            self.problems.push(format!(
                "the time stamp counter was set back or the clock was changed: {many} readings contradict others"
            ));
        }
    }

    /// Reads at most so many words of a sub-buffer, and leaves the rest.
    pub(super) fn take(&mut self, of: &mut SubBuffer, most: usize) -> io::Result<Vec<u64>> {
        let words = of.words.min(most);
        let taken = words_of(&bytes_at(&mut *self.source, of.at, words * 8)?);
        of.at += words as u64 * 8;
        of.words -= words;
        Ok(taken)
    }

    /// Returns a thread of the sub-buffer or ring head with these two words.
    pub(super) fn thread(&self, file: usize, thread: u64, tid: u64) -> ThreadId {
        ThreadId { file, process: self.process, thread, tid }
    }

    /// Returns some words; `None` if the file ends before.
    pub(super) fn words_at(&mut self, at: u64, words: usize, length: u64) -> io::Result<Option<Vec<u64>>> {
        if at + words as u64 * 8 > length {
            return Ok(None);
        }
        Ok(Some(words_of(&bytes_at(&mut *self.source, at, words * 8)?)))
    }
}

impl fmt::Debug for TraceFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TraceFile").field("path", &self.path).finish_non_exhaustive()
    }
}

pub(super) fn words_of(bytes: &[u8]) -> Vec<u64> {
    bytes.as_chunks().0.iter().map(|word| u64::from_le_bytes(*word)).collect()
}

/// Notes a ring's head, unless a later one is known. Events, written or lost, only grow in number;
/// a file that had to end has its last heads in front of the earlier ones.
pub(super) fn note_head(heads: &mut HashMap<u64, [u64; ring::WORDS]>, ring: u64, words: &[u64]) {
    let events = |of: &[u64; ring::WORDS]| of[ring::WRITTEN].saturating_add(of[ring::LOST]);
    let Some(words) = words.first_chunk() else { return };
    if heads.get(&ring).is_none_or(|before| events(before) <= events(words)) {
        heads.insert(ring, *words);
    }
}

/// Returns the later of two notes of unseen events, likewise.
pub(super) fn later_unseen(before: [u64; 2], words: &[u64]) -> [u64; 2] {
    let sum = |of: &[u64; 2]| of[0].saturating_add(of[1]);
    words.first_chunk().filter(|words| sum(&before) <= sum(words)).copied().unwrap_or(before)
}

pub(super) fn reading_of(words: &[u64]) -> Reading {
    Reading {
        ticks: words[reading::TICKS],
        width: words[reading::WIDTH],
        nanoseconds: words[reading::MONOTONIC],
    }
}

/// Returns what `CLOCK_REALTIME` is ahead of `CLOCK_MONOTONIC` at a reading.
pub(super) fn realtime_offset(words: &[u64]) -> i128 {
    i128::from(words[reading::REAL]) - i128::from(words[reading::MONOTONIC])
}

/// Returns the time that the machine slept until a reading: only one of the clocks goes on then.
fn time_asleep(words: &[u64]) -> u64 {
    words[reading::BOOT].saturating_sub(words[reading::MONOTONIC])
}

/// Returns the reading in a sub-buffer's header, if it has one.
pub(super) fn reading_in(head: &[u64]) -> Option<Reading> {
    let [ticks, width, nanoseconds] =
        [sub_buffer::READ_AT, sub_buffer::WIDTH, sub_buffer::MONOTONIC].map(|at| head[at]);
    (nanoseconds != 0).then_some(Reading { ticks, width, nanoseconds })
}
