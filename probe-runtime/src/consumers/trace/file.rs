//! A trace file as it is written: a header, then blocks, each whole.
//!
//! A file has several readings of all clocks at one moment. Its reader turns time stamps into the
//! system's time by them, and knows from the time that each reading took how exact it is.
//!
//! Cost: one write(2) for each block, and two copies of its words in memory that is used again: a
//! sub-buffer as it was at one moment, and its bytes behind the block's header.

use std::collections::HashSet;
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;

use probe_trace::layout::{HEADER_BYTES, MAGIC, VERSION, block, header, policy, reading, ring, state};

use super::recording::Recording;
use super::ring::{Ring, Shape, WhenFull};
use super::stacks::WrittenStacks;
use crate::engine::clock::Clock;
use crate::engine::error::Error;
use crate::engine::os::guarded_file::GuardedFile;
use crate::engine::os::time;
use crate::report::program;

/// Writes one file, front to back.
pub(super) struct TraceFile<W> {
    out: W,
    is_closed: bool,
    /// A block that is being put together, so that it is written at once.
    buffer: Vec<u8>,
    /// The last sub-buffer that was copied.
    copy: Vec<u64>,
    /// The number of blocks of later definitions.
    defined: usize,
    written_stacks: WrittenStacks,
    /// Bytes up to the last block that was written whole.
    whole: u64,
    /// The room for what a file says that had to end.
    reserved: Vec<Reserved>,
    /// The rings that the file has something of. Their heads have a place there.
    known: HashSet<u64>,
}

/// A block without content, which a file that had to end replaces by others.
struct Reserved {
    at: u64,
    bytes: usize,
}

/// The rings whose heads a block has room for, at most.
const HEADS_RESERVED: usize = 64;

impl<W: Write> TraceFile<W> {
    /// Writes the header, the program's name and the definitions.
    pub(super) fn begin(out: W, about: &TraceHeader<'_>) -> io::Result<Self> {
        let TraceHeader { shape, began, boot, definitions, is_whole } = *about;
        let mut words = [0; header::WORDS];
        words[header::MAGIC] = MAGIC;
        words[header::VERSION] = VERSION;
        words[header::PROCESS] = std::process::id().into();
        words[header::STATE] = if is_whole { state::CLOSED } else { state::OPEN };
        words[header::SUB_BUFFERS] = shape.sub_buffers;
        words[header::SUB_BUFFER_WORDS] = shape.words;
        words[header::POLICY] = match shape.when_full {
            WhenFull::Overwrite => policy::OVERWRITE,
            WhenFull::Wait => policy::DRAIN,
            WhenFull::Stop => policy::STOP,
        };
        words[header::BOOT..header::BOOT + 2].copy_from_slice(&boot);
        words[header::READING..header::READING + reading::WORDS].copy_from_slice(&words_of(began));
        let mut file = Self {
            out,
            is_closed: false,
            buffer: Vec::new(),
            copy: Vec::new(),
            defined: 0,
            written_stacks: WrittenStacks::default(),
            whole: 0,
            reserved: Vec::new(),
            known: HashSet::new(),
        };
        words.iter().for_each(|word| file.buffer.extend(word.to_le_bytes()));
        file.buffer.resize(HEADER_BYTES, 0);
        file.flush()?;
        file.block(block::PROGRAM, 0, program().as_bytes())?;
        file.block(block::DEFINITIONS, 0, definitions)?;
        Ok(file)
    }

    /// Returns the number of later definitions that the file has.
    pub(super) fn defined(&self) -> usize {
        self.defined
    }

    /// Writes further later definitions.
    pub(super) fn define(&mut self, later: &[Arc<[u8]>]) -> io::Result<()> {
        later.iter().try_for_each(|definitions| self.block(block::DEFINITIONS, 0, definitions))?;
        self.defined += later.len();
        Ok(())
    }

    /// Writes the stacks that the file lacks.
    pub(super) fn write_stacks(&mut self, recording: &Recording) -> io::Result<()> {
        let new = recording.new_stacks(&mut self.written_stacks);
        new.map_or(Ok(()), |stacks| self.block(block::STACKS, 0, &stacks))
    }

    /// Writes a block of words.
    pub(super) fn words(&mut self, kind: u64, ring: u64, words: &[u64]) -> io::Result<()> {
        self.head(kind, ring, size_of_val(words));
        let start = self.buffer.len();
        self.buffer.resize(start + size_of_val(words), 0);
        let places = self.buffer[start..].as_chunks_mut().0;
        places.iter_mut().zip(words).for_each(|(place, word)| *place = word.to_le_bytes());
        self.flush()?;
        if [block::SUB_BUFFER, block::RING].contains(&kind) {
            self.known.insert(ring);
        }
        Ok(())
    }

    /// Writes a sub-buffer, and returns its words; `None` if its thread has begun a later one
    /// there.
    pub(super) fn sub_buffer(
        &mut self,
        ring: Ring<'_>,
        shape: Shape,
        number: u64,
    ) -> io::Result<Option<&[u64]>> {
        if ring.copy(shape, number, &mut self.copy).is_none() {
            return Ok(None);
        }
        let copy = std::mem::take(&mut self.copy);
        let written = self.words(block::SUB_BUFFER, ring.number(), &copy);
        self.copy = copy;
        written.map(|()| Some(&self.copy[..]))
    }

    /// Writes a reading of all clocks.
    pub(super) fn reading(&mut self, now: ClockReading) -> io::Result<()> {
        self.words(block::READING, 0, &words_of(now))
    }

    fn block(&mut self, kind: u64, ring: u64, bytes: &[u8]) -> io::Result<()> {
        self.head(kind, ring, bytes.len());
        self.buffer.extend(bytes);
        self.buffer.resize(self.buffer.len().next_multiple_of(8), 0);
        self.flush()
    }

    fn head(&mut self, kind: u64, ring: u64, bytes: usize) {
        for word in [block::MAGIC, kind, bytes as u64, ring] {
            self.buffer.extend(word.to_le_bytes());
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        let written = self.out.write_all(&self.buffer);
        if written.is_ok() {
            self.whole += self.buffer.len() as u64;
        }
        self.buffer.clear();
        written
    }

    /// Returns whether the file is whole.
    pub(super) fn is_closed(&self) -> bool {
        self.is_closed
    }
}

impl TraceFile<GuardedFile> {
    /// Returns the file.
    pub(super) fn out(&mut self) -> &mut GuardedFile {
        &mut self.out
    }

    /// Takes room for what the file says if it has to end before the trace does: a full disk has
    /// none then. `rings` is the largest number of rings.
    pub(super) fn reserve(&mut self, rings: usize) -> io::Result<()> {
        self.take_room(UNSEEN_BYTES + rings.min(HEADS_RESERVED) * RING_BYTES)
    }

    /// Does the same for a ring's head. Call this before writing anything of the ring.
    pub(super) fn reserve_head(&mut self, ring: u64) -> io::Result<()> {
        if self.has(ring) {
            return Ok(());
        }
        let room: usize = self.reserved.iter().map(|room| room.bytes).sum();
        let needed = UNSEEN_BYTES + (self.known.len() + 1) * RING_BYTES;
        if needed > room { self.take_room(HEADS_RESERVED * RING_BYTES) } else { Ok(()) }
    }

    fn take_room(&mut self, bytes: usize) -> io::Result<()> {
        if self.out.has_places() {
            let at = self.whole;
            self.block(block::UNUSED, 0, &vec![0; bytes])?;
            self.reserved.push(Reserved { at, bytes });
        }
        Ok(())
    }

    /// Returns whether the file has something of a ring.
    pub(super) fn has(&self, ring: u64) -> bool {
        self.known.contains(&ring)
    }

    /// Ends the file after its last whole block, though the trace continues. Nothing can be done
    /// about an error.
    pub(super) fn cut(&mut self) {
        let _ = self.out.cut(self.whole);
    }

    /// Notes the missing events in a file that was [cut](Self::cut): those of the rings that it
    /// has something of in their heads, all others as unseen. A stream has no place for that.
    pub(super) fn report_missing(
        &mut self,
        unseen: [u64; 2],
        heads: &[(u64, [u64; ring::WORDS])],
    ) -> io::Result<()> {
        if self.reserved.is_empty() {
            return Ok(());
        }
        let of_rings = heads.iter().map(|(ring, head)| (block::RING, *ring, &head[..]));
        let mut blocks = [(block::UNSEEN, 0, &unseen[..])].into_iter().chain(of_rings).peekable();
        for index in 0..self.reserved.len() {
            let Reserved { at, bytes } = self.reserved[index];
            while let Some((kind, ring, words)) =
                blocks.next_if(|(.., words)| self.buffer.len() + HEAD_BYTES + size_of_val(*words) <= bytes)
            {
                self.head(kind, ring, size_of_val(words));
                self.buffer.extend(words.iter().flat_map(|word| word.to_le_bytes()));
            }
            // The header of the room's own block covers the bytes that are left.
            self.head(block::UNUSED, 0, bytes.saturating_sub(self.buffer.len()));
            let told = self.out.overwrite(&self.buffer, at);
            self.buffer.clear();
            told?;
        }
        self.end(state::CUT)
    }

    /// Marks the file as whole, and waits until the disk has it.
    pub(super) fn close(&mut self) -> io::Result<()> {
        self.end(state::CLOSED)
    }

    fn end(&mut self, state: u64) -> io::Result<()> {
        self.mark(state)?;
        self.is_closed = true;
        self.out.sync()
    }

    /// Marks a whole file as one that continues.
    pub(super) fn reopen(&mut self) -> io::Result<()> {
        if !std::mem::replace(&mut self.is_closed, false) {
            return Ok(());
        }
        self.mark(state::OPEN)
    }

    /// Writes the state into the header. A pipe has no beginning to go back to; its readers see its
    /// end.
    fn mark(&mut self, state: u64) -> io::Result<()> {
        if self.out.has_places() {
            self.out.overwrite(&state.to_le_bytes(), header::STATE as u64 * 8)?;
        }
        Ok(())
    }
}

/// Bytes of a block's header, of a block of unseen events, and of a ring's head.
const HEAD_BYTES: usize = block::WORDS * 8;
const UNSEEN_BYTES: usize = HEAD_BYTES + 2 * 8;
const RING_BYTES: usize = HEAD_BYTES + ring::WORDS * 8;

/// The trace that a file describes.
#[derive(Clone, Copy)]
pub(super) struct TraceHeader<'a> {
    pub(super) shape: Shape,
    pub(super) began: ClockReading,
    pub(super) boot: [u64; 2],
    pub(super) definitions: &'a [u8],
    /// Whether the file is written at once.
    pub(super) is_whole: bool,
}

/// A time stamp, and the system's clocks at the same moment, in nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct ClockReading {
    pub(super) ticks: u64,
    /// Ticks that the reading of the monotonic clock took.
    pub(super) width: u64,
    pub(super) monotonic: u64,
    pub(super) real: u64,
    /// Since the machine was started, its sleep included.
    pub(super) boot: u64,
}

impl ClockReading {
    /// Returns the best of several readings: the one that took the shortest time.
    pub(super) fn now(clock: Clock) -> Self {
        let mut best = Self::read(clock);
        for _ in 0..4 {
            let again = Self::read(clock);
            if again.width < best.width {
                best = again;
            }
        }
        best
    }

    fn read(clock: Clock) -> Self {
        let (ticks, width, monotonic) = monotonic(clock);
        // Each clock counts in nanoseconds, so the others are read for the same moment.
        let after = |other: u64| other.saturating_sub(time::monotonic().saturating_sub(monotonic));
        Self { ticks, width, monotonic, real: after(time::real()), boot: after(time::since_boot()) }
    }
}

/// Returns a time stamp, the ticks that the reading took, and `CLOCK_MONOTONIC` at that stamp.
pub(super) fn monotonic(clock: Clock) -> (u64, u64, u64) {
    let before = clock.now();
    let monotonic = time::monotonic();
    let width = clock.now().saturating_sub(before);
    (before + width / 2, width, monotonic)
}

pub(super) fn words_of(now: ClockReading) -> [u64; reading::WORDS] {
    let mut words = [0; reading::WORDS];
    words[reading::TICKS] = now.ticks;
    words[reading::WIDTH] = now.width;
    words[reading::MONOTONIC] = now.monotonic;
    words[reading::REAL] = now.real;
    words[reading::BOOT] = now.boot;
    words
}

/// Returns an error that names the file.
pub(super) fn at(path: &Path, error: &io::Error) -> Error {
    Error::Consumer(io::Error::new(error.kind(), problem(path, error)).into())
}

pub(super) fn problem(path: &Path, error: &io::Error) -> String {
    let is_full = matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded);
    let advice = match error.kind() {
        io::ErrorKind::FileTooLarge if error.raw_os_error().is_some() => {
            "; the process may make no longer files (`ulimit -f`)"
        }
        _ if is_full => "; make room there, or choose a file on another disk",
        _ => "",
    };
    format!("the trace can't be written to {}: {error}{advice}", path.display())
}
