//! One file: its process, its probes, the places of its sub-buffers, and the reasons why it can't
//! be read.
//!
//! Life cycle: opening reads the headers of all blocks once, and keeps the places of sub-buffers,
//! not their content. Memory: 64 bytes a sub-buffer, and the definitions. The file is read at
//! positions, never mapped: if somebody truncates it meanwhile, the reader gets an error and no
//! signal.
//!
//! Rings may lie in the file itself. Their threads may write them while they are read, or may have
//! been killed in the middle of a store. A thread stores an event's payload first and its word
//! last, and the word after its last event is zero. So the events before the first word that is
//! zero are whole, at any moment.

use std::collections::HashMap;
use std::fmt;
use std::fs::File;
use std::io::{self, SeekFrom};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::clock::{Clock, Reading, realtime_offset, time_asleep};
use super::decode::{
    Block, Definitions, Source, Stacks, add_stacks_from, bytes_at, define_from, words_at, words_of,
};
use crate::item::ThreadId;
use crate::layout::{self, HEADER_BYTES, block, event, header, reading, ring, state, sub_buffer};

/// The most words of a sub-buffer, 1 GiB. A header that claims more is refused.
const MAX_SUB_BUFFER_WORDS: u64 = 1 << 27;
/// The most bytes of a ring, so that no sum overflows. A larger ring is not read.
const MAX_RING_BYTES: u64 = 1 << 62;
/// The least nanoseconds that count as a sleep of the machine. Readings of two clocks that were
/// interrupted differ by less.
const MIN_SLEEP_NS: u64 = 1_000_000_000;
/// The least nanoseconds that count as a change of the calendar's clock, which was set, or went on
/// while the machine slept. Readings of both clocks differ by less.
const MIN_OFFSET_CHANGE_NS: u128 = 1_000_000;
/// The most bytes that are kept of a program's name.
const MAX_PROGRAM_NAME_BYTES: usize = 1024;
/// The most words of a sub-buffer that are read at once.
pub(super) const CHUNK_WORDS: usize = 1 << 13;
/// The most damaged blocks that have a line each. The others are counted.
const MAX_LISTED_DAMAGES: u64 = 8;

/// A file that was opened.
pub(super) struct TraceFile {
    pub(super) path: PathBuf,
    pub(super) source: Box<dyn Source>,
    pub(super) process: u64,
    pub(super) program: Arc<str>,
    pub(super) definitions: Definitions,
    pub(super) stacks: Stacks,
    pub(super) clock: Clock,
    pub(super) boot: [u64; 2],
    /// The number of sub-buffers of each ring, and the most words of a sub-buffer.
    pub(super) shape: [u64; 2],
    /// All clocks at the beginning.
    pub(super) first_clocks: [u64; reading::WORDS],
    /// `CLOCK_REALTIME` less `CLOCK_MONOTONIC`, at the beginning.
    pub(super) realtime_offset: i128,
    /// The same at later times of `CLOCK_MONOTONIC`, where it has changed.
    offset_changes: Vec<(u64, i128)>,
    /// By ring, and in the order in which they were written.
    pub(super) sub_buffers: Vec<SubBuffer>,
    pub(super) losses: Losses,
    pub(super) is_closed: bool,
    /// Whether the file had to end before the trace did.
    pub(super) is_cut: bool,
    /// Whether the process has written its rings' memory right into the file.
    is_mapped: bool,
    /// The unused block in front of the rings, where the process may add definitions.
    later_definitions: Option<u64>,
    /// Nanoseconds that the machine had slept by the last reading: since it was started, and since
    /// the first reading.
    slept: (u64, u64),
    /// `CLOCK_MONOTONIC` at the last reading.
    last_reading: u64,
    /// The same at the readings before and after each sleep.
    sleeps: Vec<[u64; 2]>,
    pub(super) problems: Vec<String>,
}

/// A sub-buffer in the file, or the rest of one.
#[derive(Clone, Copy, Debug)]
pub(super) struct SubBuffer {
    pub(super) ring: u64,
    /// The sub-buffer's number in its ring, from 0.
    pub(super) number: u64,
    pub(super) at: u64,
    /// The number of words to read. A live sub-buffer may use fewer.
    pub(super) words: usize,
    /// Whether its thread may still write it.
    pub(super) is_live: bool,
}

/// The counts of written and lost events, and the times after the last ones. Counts only grow. A
/// file that had to end has its last counts in front of the earlier ones.
#[derive(Default)]
pub(super) struct Losses {
    /// The heads of rings.
    pub(super) heads: HashMap<u64, [u64; ring::WORDS]>,
    /// Hits of threads without a ring, and hits inside of hits; `None` if the file was not closed.
    pub(super) unseen: Option<[u64; 2]>,
    /// The last blocks of rings with times off the processor after the last hits.
    pub(super) off: HashMap<u64, Vec<u64>>,
}

impl Losses {
    /// Notes the counts in a block, unless later ones are known.
    pub(super) fn note(&mut self, source: &mut dyn Source, of: Block) -> io::Result<()> {
        match of.kind {
            block::RING => {
                let head = of.words(source)?;
                let events = |of: &[u64; ring::WORDS]| of[ring::WRITTEN].saturating_add(of[ring::LOST]);
                let known = self.heads.entry(of.ring).or_insert(head);
                if events(known) <= events(&head) {
                    *known = head;
                }
            }
            block::UNSEEN => {
                let unseen = of.words(source)?;
                let sum = |of: [u64; 2]| of[0].saturating_add(of[1]);
                self.unseen = self.unseen.filter(|known| sum(*known) > sum(unseen)).or(Some(unseen));
            }
            block::OFF => {
                let words = usize::try_from(of.bytes / 8).unwrap_or(usize::MAX);
                self.off.insert(of.ring, words_at(source, of.content, words)?);
            }
            // A later writer has added this kind.
            _ => (),
        }
        Ok(())
    }
}

impl TraceFile {
    pub(super) fn open(path: &Path) -> Result<Self, ReadError> {
        let file = File::open(path).map_err(|it| ReadError::new(path, Problem::System(it)))?;
        Self::read(path, Box::new(file))
    }

    /// Reads the source; errors name it by this path.
    pub(super) fn read(path: &Path, source: Box<dyn Source>) -> Result<Self, ReadError> {
        let mut file = Self::header(path, source).map_err(|it| ReadError::new(path, it))?;
        let mut readings = vec![Reading::of(&file.first_clocks)];
        file.scan(&mut readings).map_err(|it| ReadError::new(path, Problem::System(it)))?;
        file.clock = Clock::new(readings);
        file.sleeps.iter().for_each(|around| file.clock.note_sleep(*around));
        file.sub_buffers.sort_by_key(|it| (it.ring, it.number));
        // A part of a sub-buffer may come before the whole sub-buffer.
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

    /// Reads the beginning alone: the header, and the program's name and definitions. Also returns
    /// where the beginning ends.
    pub(super) fn begin(path: &Path, source: Box<dyn Source>) -> Result<(Self, u64), ReadError> {
        let mut file = Self::header(path, source).map_err(|it| ReadError::new(path, it))?;
        let mut read = || {
            let (length, mut at) = (file.source.seek(SeekFrom::End(0))?, HEADER_BYTES as u64);
            while let Some((of, end)) = Block::whole_at(&mut *file.source, at, length, 0)?
                && matches!(of.kind, block::PROGRAM | block::DEFINITIONS)
            {
                file.describe(of)?;
                at = end;
            }
            Ok(at)
        };
        let end = read().map_err(|it| ReadError::new(path, Problem::System(it)))?;
        Ok((file, end))
    }

    fn header(path: &Path, mut source: Box<dyn Source>) -> Result<Self, Problem> {
        let mut bytes = [0; HEADER_BYTES];
        source.seek(SeekFrom::Start(0)).map_err(Problem::System)?;
        source.read_exact(&mut bytes).map_err(|it| match it.kind() {
            io::ErrorKind::UnexpectedEof => Problem::Foreign,
            _ => Problem::System(it),
        })?;
        let words = words_of(&bytes);
        if words[header::MAGIC] == layout::MAGIC.swap_bytes() {
            return Err(Problem::ByteOrder);
        }
        if words[header::MAGIC] != layout::MAGIC {
            return Err(Problem::Foreign);
        }
        if words[header::VERSION] != layout::VERSION {
            return Err(Problem::Version(words[header::VERSION]));
        }
        let shape = [words[header::SUB_BUFFERS], words[header::SUB_BUFFER_WORDS]];
        if !(sub_buffer::WORDS as u64..=MAX_SUB_BUFFER_WORDS).contains(&shape[1]) {
            return Err(Problem::Header("an impossible size of sub-buffers"));
        }
        let first_clocks: [u64; reading::WORDS] = std::array::from_fn(|at| words[header::READING + at]);
        Ok(Self {
            path: path.to_owned(),
            source,
            process: words[header::PROCESS],
            program: Arc::from(""),
            definitions: HashMap::new(),
            stacks: HashMap::new(),
            clock: Clock::new(vec![Reading::of(&first_clocks)]),
            boot: [words[header::BOOT], words[header::BOOT + 1]],
            shape,
            first_clocks,
            realtime_offset: realtime_offset(&first_clocks),
            offset_changes: Vec::new(),
            sub_buffers: Vec::new(),
            losses: Losses::default(),
            is_closed: [state::CLOSED, state::CUT].contains(&words[header::STATE]),
            is_cut: words[header::STATE] == state::CUT,
            is_mapped: false,
            later_definitions: None,
            slept: (time_asleep(&first_clocks), 0),
            last_reading: first_clocks[reading::MONOTONIC],
            sleeps: Vec::new(),
            problems: Vec::new(),
        })
    }

    /// Reads the blocks' headers, and the content of those that are no sub-buffers.
    fn scan(&mut self, readings: &mut Vec<Reading>) -> io::Result<()> {
        let length = self.source.seek(SeekFrom::End(0))?;
        let (mut at, mut damaged) = (HEADER_BYTES as u64, 0);
        while let Some(of) = Block::at(&mut *self.source, at, length)? {
            let (content, end) = (of.content, of.end());
            if of.has_magic() && of.kind == block::RINGS {
                self.is_mapped = true;
                let content = content..end.unwrap_or(length).min(length);
                self.scan_rings(content, of.ring, readings)?;
            }
            let Some(end) = end.filter(|end| of.has_magic() && *end <= length) else { break };
            match of.kind {
                _ if !of.is_possible(self.shape[1]) => {
                    let problem = format!("the block at byte {at} has an impossible length");
                    self.note_damage(&mut damaged, problem);
                }
                block::SUB_BUFFER => {
                    let head: [u64; sub_buffer::WORDS] = of.words(&mut *self.source)?;
                    readings.extend(Reading::in_sub_buffer(&head));
                    let number = head[sub_buffer::SEQUENCE].wrapping_sub(1);
                    let words = usize::try_from(of.bytes / 8).unwrap_or(usize::MAX);
                    let (ring, at) = (of.ring, content);
                    self.sub_buffers.push(SubBuffer { ring, number, at, words, is_live: false });
                }
                block::READING => {
                    let clocks = of.words(&mut *self.source)?;
                    readings.push(Reading::of(&clocks));
                    self.note_reading(&clocks);
                }
                block::PROGRAM | block::DEFINITIONS | block::STACKS => {
                    if !self.describe(of)? {
                        let what = if of.kind == block::STACKS { "stacks" } else { "definitions" };
                        let problem = format!("the {what} at byte {content} are damaged");
                        self.note_damage(&mut damaged, problem);
                    }
                }
                block::UNUSED if !self.is_mapped && !self.is_closed => self.later_definitions = Some(at),
                _ => self.losses.note(&mut *self.source, of)?,
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

    /// Takes the program's name, definitions or stacks. Returns whether the block was read to its
    /// end.
    fn describe(&mut self, of: Block) -> io::Result<bool> {
        if of.kind == block::DEFINITIONS {
            return define_from(&mut *self.source, of, &mut self.definitions);
        }
        if of.kind == block::STACKS {
            return add_stacks_from(&mut *self.source, of, &mut self.stacks);
        }
        let bytes = usize::try_from(of.bytes).unwrap_or(usize::MAX).min(MAX_PROGRAM_NAME_BYTES);
        self.program = String::from_utf8_lossy(&bytes_at(&mut *self.source, of.content, bytes)?).into();
        Ok(true)
    }

    /// Reads the definitions that the process has added in front of its rings since the last time.
    pub(super) fn define_later(&mut self) -> io::Result<()> {
        let Some(mut at) = self.later_definitions else { return Ok(()) };
        let length = self.source.seek(SeekFrom::End(0))?;
        while let Some((of, end)) = Block::whole_at(&mut *self.source, at, length, 0)?
            && of.kind == block::DEFINITIONS
        {
            define_from(&mut *self.source, of, &mut self.definitions)?;
            at = end;
            self.later_definitions = Some(at);
        }
        Ok(())
    }

    /// Notes the sub-buffers and losses of the rings that lie in this part of the file. `stride` is
    /// the bytes of one ring's memory. A ring that the file's end cuts off is read up to there.
    fn scan_rings(
        &mut self,
        content: Range<u64>,
        stride: u64,
        readings: &mut Vec<Reading>,
    ) -> io::Result<()> {
        let ([sub_buffers, words], length) = (self.shape, content.end);
        let bytes = sub_buffers.checked_mul(words).and_then(|words| words.checked_mul(8));
        let is_possible =
            |bytes: &u64| *bytes != 0 && *bytes <= stride.min(MAX_RING_BYTES) && stride.is_multiple_of(8);
        let Some(bytes) = bytes.filter(is_possible) else {
            self.problems.push(format!("the rings at byte {} have an impossible size", content.start));
            return Ok(());
        };
        let mut start = content.start;
        for number in 0.. {
            if start >= length {
                break;
            }
            let before = self.sub_buffers.len();
            for place in 0..sub_buffers {
                let at = start + place * words * 8;
                let Some(head) = self.words_at(at, sub_buffer::WORDS, length)? else { break };
                let Some(own) = head[sub_buffer::SEQUENCE].checked_sub(1) else {
                    // A ring begins with its first sub-buffer.
                    if place == 0 && head[sub_buffer::THREAD] == 0 {
                        break;
                    }
                    continue;
                };
                if own % sub_buffers != place {
                    self.problems.push(format!("the sub-buffer at byte {at} has an impossible number"));
                    continue;
                }
                readings.extend(Reading::in_sub_buffer(&head));
                let words = usize::try_from(words.min((length - at) / 8)).unwrap_or(usize::MAX);
                self.sub_buffers.push(SubBuffer { ring: number, number: own, at, words, is_live: true });
            }
            if self.sub_buffers.len() > before
                && let Some(head) = self.words_at(start + bytes, ring::WORDS, length)?
            {
                self.losses.heads.extend(head.try_into().ok().map(|head| (number, head)));
            }
            let Some(next) = start.checked_add(stride) else { break };
            start = next;
        }
        Ok(())
    }

    /// Notes whether the machine slept between the last reading and this one, and whether the
    /// calendar has changed.
    fn note_reading(&mut self, clocks: &[u64; reading::WORDS]) {
        let before = time_asleep(clocks);
        let slept = before.saturating_sub(self.slept.0);
        let now = clocks[reading::MONOTONIC];
        if slept >= MIN_SLEEP_NS {
            self.slept = (before, self.slept.1.saturating_add(slept));
            self.sleeps.push([self.last_reading, now]);
        }
        let last = self.offset_changes.last().map_or(self.realtime_offset, |(_, offset)| *offset);
        if (realtime_offset(clocks) - last).unsigned_abs() >= MIN_OFFSET_CHANGE_NS {
            self.offset_changes.push((now, realtime_offset(clocks)));
        }
        self.last_reading = now;
    }

    /// Returns how many nanoseconds `CLOCK_REALTIME` is ahead of `CLOCK_MONOTONIC` at a time of the
    /// latter.
    pub(super) fn realtime_offset_at(&self, time: i128) -> i128 {
        let before = self.offset_changes.partition_point(|(at, _)| i128::from(*at) <= time).checked_sub(1);
        before.map_or(self.realtime_offset, |last| self.offset_changes[last].1)
    }

    /// Counts a damaged block, and notes the problem if it is one of the first.
    fn note_damage(&mut self, damaged: &mut u64, problem: String) {
        *damaged += 1;
        if *damaged <= MAX_LISTED_DAMAGES {
            self.problems.push(problem);
        }
    }

    fn note_problems(&mut self) {
        let mut note = |problem: &str| self.problems.push(problem.to_owned());
        if !self.is_closed {
            let missing = if self.is_mapped {
                "hits of threads without a ring, and hits inside of hits, were not counted"
            } else {
                "its last events are missing"
            };
            note(&format!("the process did not finish the trace: it still runs, or was killed; {missing}"));
        }
        if self.is_cut {
            note("the file had to end before the trace, as on a full disk; later events are lost");
        }
        if self.clock.error().is_none() {
            note("one reading of the clocks is too few; a tick counts as a nanosecond");
        }
        if self.slept.1 != 0 {
            let seconds = self.slept.1.saturating_add(500_000_000) / 1_000_000_000;
            note(&format!(
                "the machine slept for {seconds} s, which times leave out; times between the two readings around that are less exact"
            ));
        }
        if self.clock.contradicting != 0 {
            let many = self.clock.contradicting;
            note(&format!(
                "the time stamp counter was set back or the clock was changed: {many} readings contradict others"
            ));
        }
    }

    /// Reads at most `most` words of a sub-buffer, and leaves the rest in `of`.
    pub(super) fn take(&mut self, of: &mut SubBuffer, most: usize) -> io::Result<Vec<u64>> {
        let words = of.words.min(most);
        let taken = words_at(&mut *self.source, of.at, words)?;
        of.at += words as u64 * 8;
        of.words -= words;
        Ok(taken)
    }

    /// Reads the words of a live sub-buffer that are in use. `None` if its thread has begun a later
    /// one in its place.
    pub(super) fn read_live(&mut self, of: SubBuffer) -> io::Result<Option<Vec<u64>>> {
        let (mut rest, mut words) = (of, Vec::new());
        // The part behind the last event may be large, and a hole of the file. Each part is as long
        // as all parts before it, so each word is looked at twice at most.
        let end = loop {
            let most = CHUNK_WORDS.max(words.len());
            words.append(&mut self.take(&mut rest, most)?);
            let end = used(&words);
            if rest.words == 0 || words.len() - end > event::PAYLOAD_MAX {
                break end;
            }
        };
        words.truncate(end);
        // As with a seqlock: the thread clears the number before it writes anew.
        let number = [of.number + 1];
        let is_same = words[..1] == number && self.words_at(of.at, 1, u64::MAX)?.as_deref() == Some(&number);
        Ok(is_same.then_some(words))
    }

    /// Returns the thread that a sub-buffer or a ring's head names by these two words.
    pub(super) fn thread(&self, file: usize, thread: u64, tid: u64) -> ThreadId {
        ThreadId { file, process: self.process, thread, tid }
    }

    /// Reads words; `None` if the file ends before them.
    pub(super) fn words_at(&mut self, at: u64, words: usize, length: u64) -> io::Result<Option<Vec<u64>>> {
        let is_there = at + words as u64 * 8 <= length;
        if is_there { words_at(&mut *self.source, at, words).map(Some) } else { Ok(None) }
    }
}

/// Returns the number of words in use.
fn used(words: &[u64]) -> usize {
    let used = usize::try_from(words[sub_buffer::USED]).unwrap_or(usize::MAX);
    let end = if used == 0 { words.len() } else { used.clamp(sub_buffer::WORDS, words.len()) };
    let mut at = sub_buffer::WORDS;
    while at < end && words[at] != 0 {
        let next = at + 1 + event::payload(words[at]);
        // The file was cut off in the middle of this record.
        if next > end {
            break;
        }
        at = next;
    }
    at
}

impl fmt::Debug for TraceFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TraceFile").field("path", &self.path).finish_non_exhaustive()
    }
}

/// The reason why a trace can't be read. It names the file, the fault and the remedy.
///
/// ```
/// let error = probe_trace::Trace::open(&["Cargo.toml"]).unwrap_err();
/// assert!(error.to_string().starts_with("Cargo.toml is no trace"));
/// ```
#[derive(Debug)]
pub struct ReadError {
    path: PathBuf,
    problem: Problem,
}

#[derive(Debug)]
pub(crate) enum Problem {
    System(io::Error),
    /// The file does not begin as a trace does.
    Foreign,
    /// The bytes of the words are in reverse order.
    ByteOrder,
    Version(u64),
    /// The header has an impossible value.
    Header(&'static str),
    /// No valid block begins at this byte.
    Block(u64),
}

impl ReadError {
    pub(crate) fn new(path: &Path, problem: Problem) -> Self {
        Self { path: path.to_owned(), problem }
    }

    /// Returns the file.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.path.display();
        match &self.problem {
            Problem::System(error) => write!(f, "{path} can't be read: {error}"),
            Problem::Foreign => {
                write!(f, "{path} is no trace of latent probes: it does not begin with `probetrc`")
            }
            Problem::ByteOrder => write!(
                f,
                "{path} has the bytes of its words in reverse: a copy or a conversion has changed it; traces are \
                 little-endian on all machines"
            ),
            Problem::Version(version) => {
                let own = layout::VERSION;
                write!(
                    f,
                    "{path} has version {version} of the format, and this reader knows version {own}; use the \
                     `probe-trace` of the program that wrote it"
                )
            }
            Problem::Block(at) => write!(f, "{path} can't be read: the block at byte {at} is damaged"),
            Problem::Header(what) => write!(f, "{path} can't be read: its header has {what}"),
        }
    }
}

impl std::error::Error for ReadError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        if let Problem::System(error) = &self.problem { Some(error) } else { None }
    }
}
