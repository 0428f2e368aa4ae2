//! A file that its process still writes, read as it grows.
//!
//! Life cycle: opening reads the file's beginning ▸ each pass reads the blocks that are new, and
//! hands out the items up to a reading of the clocks after which all rings were copied ▸ the last
//! pass hands out the rest. So items come in the order of time, and one flush late. A process that
//! has to end its file early writes the counts of missing events over unused blocks. Each later
//! pass reads them.
//!
//! Memory: the definitions, and for each ring the sub-buffers that are not handed out yet. All
//! other blocks are read once, so what lies before [`position`](Followed::position) may be cut out
//! of the file after a pass, but for its header.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::io::{self, Read, Seek, SeekFrom};
use std::ops::Range;
use std::path::Path;

use super::clock::realtime_offset;
use super::decode::{Block, add_stacks_from, define_from, words_at};
use super::file::{Losses, Problem, ReadError};
use super::rings::{RingReader, Rings};
use super::stream::Part;
use crate::item::Item;
use crate::layout::{block, header, reading, ring, state, sub_buffer};

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
    items: RingReader,
    rings: CopiedRings,
    /// The first byte that was not read yet.
    at: u64,
    /// The places of unused blocks. A process that has to end its file early writes over them.
    unused_blocks: Vec<Range<u64>>,
    /// The last reading of all clocks, and the one before the last flush.
    last_clocks: [u64; reading::WORDS],
    flushed_until: Option<[u64; reading::WORDS]>,
}

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
        let (items, at) = RingReader::new(path.as_ref(), source)?;
        let last_clocks = items.file.first_clocks;
        let (rings, unused_blocks) = (CopiedRings::default(), Vec::new());
        Ok(Self { items, rings, at, unused_blocks, last_clocks, flushed_until: None })
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
        self.items.set_clock(&self.last_clocks);
        self.items.finish(&mut self.rings, take);
        result
    }

    /// Returns the number of bytes that were read. Among them, later passes need the header alone,
    /// and the counts of missing events that the process may write there after this pass.
    pub fn position(&self) -> u64 {
        self.at
    }

    /// Returns the number of lost hits that no [gap](Item::Gap) tells, as of the last flush, or of
    /// the file's end: those of threads without a ring, and hits inside of other hits.
    pub fn unseen(&self) -> u64 {
        let [ringless, nested] = self.rings.losses.unseen.unwrap_or_default();
        ringless.saturating_add(nested)
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
        read.map_err(|problem| ReadError::new(&self.items.file.path, problem))
    }

    /// Reads the blocks that are new and whole.
    fn read(&mut self) -> Result<(), Problem> {
        let sub_buffer_words = self.items.file.shape[1];
        let length = self.items.file.source.seek(SeekFrom::End(0)).map_err(Problem::System)?;
        let block_at = |of: &mut Self| Block::at(&mut *of.items.file.source, of.at, length);
        while let Some(of) = block_at(self).map_err(Problem::System)? {
            if !of.is_possible(sub_buffer_words) {
                return Err(Problem::Block(self.at));
            }
            let Some(end) = of.end().filter(|end| *end <= length) else { break };
            self.take(of, self.at..end).map_err(Problem::System)?;
            self.at = end;
        }
        Ok(())
    }

    /// Reads the counts of missing events, if the file had to end before the trace did.
    fn read_missing(&mut self) -> io::Result<()> {
        let state = words_at(&mut *self.items.file.source, header::STATE as u64 * 8, 1)?;
        let unused_blocks = if state == [state::CUT] { self.unused_blocks.clone() } else { Vec::new() };
        for Range { start: mut at, end: length } in unused_blocks {
            let words = self.items.file.shape[1];
            while let Some((of, end)) = Block::whole_at(&mut *self.items.file.source, at, length, words)?
                && matches!(of.kind, block::UNSEEN | block::RING)
            {
                self.take(of, at..end)?;
                at = end;
            }
        }
        Ok(())
    }

    /// Takes the content of a block.
    fn take(&mut self, of: Block, place: Range<u64>) -> io::Result<()> {
        let file = &mut self.items.file;
        let source = &mut *file.source;
        match of.kind {
            block::SUB_BUFFER => {
                let words = words_at(source, of.content, usize::try_from(of.bytes / 8).unwrap_or_default())?;
                self.rings.add(of.ring, words);
            }
            block::READING => self.last_clocks = of.words(source)?,
            block::UNUSED => self.unused_blocks.push(place),
            block::DEFINITIONS => _ = define_from(source, of, &mut file.definitions)?,
            block::STACKS => _ = add_stacks_from(source, of, &mut file.stacks)?,
            _ => self.rings.losses.note(source, of)?,
        }
        // Each flush ends with this block and a reading. The process has copied its rings after all
        // readings before.
        if of.kind == block::UNSEEN {
            self.flushed_until = Some(self.last_clocks);
        }
        Ok(())
    }
}

/// The copied sub-buffers of each ring. The last copy of a sub-buffer is the longest.
#[derive(Default)]
struct CopiedRings {
    rings: HashMap<u64, VecDeque<Vec<u64>>>,
    losses: Losses,
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
        // A ring whose hits were all lost has only a head.
        let mut numbers: Vec<_> = self.rings.keys().chain(self.losses.heads.keys()).copied().collect();
        numbers.sort_unstable();
        numbers.dedup();
        numbers
    }

    fn head(&self, ring: u64) -> [u64; ring::WORDS] {
        self.losses.heads.get(&ring).copied().unwrap_or([0; ring::WORDS])
    }

    fn off(&self, ring: u64) -> Vec<u64> {
        self.losses.off.get(&ring).cloned().unwrap_or_default()
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
        // The current sub-buffer stays until the next one comes: a longer copy of it may follow.
        if copies.len() < 2 {
            return Part::None;
        }
        copies.pop_front();
        words.clear();
        words.extend(copies.front().into_iter().flatten());
        Part::Next
    }
}

impl fmt::Debug for Followed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = &self.items.file.path;
        f.debug_struct("Followed").field("path", path).field("position", &self.at).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::super::decode::words_of;
    use super::*;
    use crate::item::TraceEvent;
    use crate::layout::{HEADER_BYTES, MAGIC, VERSION, event};

    /// A file that grows.
    #[derive(Clone, Default)]
    struct GrowingFile(Arc<Mutex<Vec<u8>>>, u64);

    impl Read for GrowingFile {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            let bytes = self.0.lock().unwrap();
            let rest = bytes.get(usize::try_from(self.1).unwrap()..).unwrap_or_default();
            let many = rest.len().min(into.len());
            into[..many].copy_from_slice(&rest[..many]);
            self.1 += many as u64;
            Ok(many)
        }
    }

    impl Seek for GrowingFile {
        fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
            self.1 = match to {
                SeekFrom::Start(at) => at,
                SeekFrom::End(0) => self.0.lock().unwrap().len() as u64,
                other => panic!("{other:?}"),
            };
            Ok(self.1)
        }
    }

    impl GrowingFile {
        fn words(&self, words: &[u64]) {
            self.0.lock().unwrap().extend(words.iter().flat_map(|word| word.to_le_bytes()));
        }

        fn block(&self, kind: u64, ring: u64, words: &[u64]) {
            self.words(&[block::MAGIC, kind, words.len() as u64 * 8, ring]);
            self.words(words);
        }

        /// Ends a flush: the clocks stand at this nanosecond, which is a tick, too.
        fn flushed(&self, now: u64, unseen: u64) {
            self.block(block::UNSEEN, 0, &[unseen, 0]);
            self.block(block::READING, 0, &[now, 0, now, now + 1_000_000, now]);
        }

        /// Adds a copy of a ring's sub-buffer with hits at these ticks.
        fn copy(&self, ring: u64, number: u64, lost: u64, hits: &[u32]) {
            let mut words = [0; sub_buffer::WORDS];
            words[sub_buffer::SEQUENCE] = number + 1;
            words[sub_buffer::THREAD] = ring + 1;
            words[sub_buffer::TID] = 100 + ring;
            words[sub_buffer::LOST_BEFORE] = lost;
            let hits = hits.iter().map(|ticks| event::word(1, 0, *ticks));
            self.block(block::SUB_BUFFER, ring, &words.into_iter().chain(hits).collect::<Vec<_>>());
        }
    }

    /// Returns a file with its beginning: a probe with the number 1.
    fn begun() -> GrowingFile {
        let file = GrowingFile::default();
        let mut words = [0; HEADER_BYTES / 8];
        words[header::MAGIC] = MAGIC;
        words[header::VERSION] = VERSION;
        words[header::PROCESS] = 7;
        words[header::SUB_BUFFERS] = 4;
        words[header::SUB_BUFFER_WORDS] = 64;
        file.words(&words);
        let mut definition = 1_u32.to_le_bytes().to_vec();
        definition.extend([0, 0, 0, 0, 3, 0, 0, 0]);
        for text in ["app::hit", "a.rs"] {
            definition.extend(u32::try_from(text.len()).unwrap().to_le_bytes());
            definition.extend(text.as_bytes());
        }
        definition.resize(definition.len().next_multiple_of(8), 0);
        file.block(block::DEFINITIONS, 0, &words_of(&definition));
        file
    }

    /// Returns the thread and time of each hit, and the number of lost ones as `(0, lost)`.
    fn taken(pass: impl FnOnce(&mut dyn FnMut(Item)) -> Result<(), ReadError>) -> Vec<(u64, u64)> {
        let mut taken = Vec::new();
        pass(&mut |item| match item {
            Item::Event(TraceEvent { thread, time, definition, .. }) => {
                assert_eq!(definition.path, "app::hit");
                taken.push((thread.tid, time));
            }
            Item::Gap(gap) => taken.push((0, gap.lost)),
            Item::Thread(_) | Item::Off(_) | Item::OffLost(_) => (),
        })
        .unwrap();
        taken
    }

    #[test]
    fn items_come_once_and_in_the_order_of_time() {
        let file = begun();
        let mut followed = Followed::begin("run", file.clone()).unwrap();
        let advance = |followed: &mut Followed| taken(|take| followed.advance(take));
        assert_eq!(advance(&mut followed), []);
        // Hits at 20 and 40 of one ring, at 30 of another; the rings were copied before 50.
        file.copy(0, 0, 0, &[20, 40]);
        file.copy(1, 0, 0, &[30]);
        file.flushed(50, 0);
        assert_eq!(advance(&mut followed), []);
        // The first ring continues in the same sub-buffer, which comes again, and in the next.
        file.copy(0, 0, 0, &[20, 40, 60]);
        file.copy(0, 1, 5, &[70]);
        file.copy(1, 0, 0, &[30, 45, 65]);
        file.flushed(80, 2);
        assert_eq!(advance(&mut followed), [(100, 20), (101, 30), (100, 40), (101, 45)]);
        assert_eq!((followed.unseen(), followed.wall_time(7)), (2, 1_000_007));
        // A block that is not whole yet.
        let length = followed.position();
        file.words(&[block::MAGIC, block::READING, 40, 0]);
        assert_eq!(advance(&mut followed), []);
        assert_eq!(followed.position(), length);
        file.words(&[100, 0, 100, 100, 100]);
        assert_eq!(taken(|take| followed.finish(take)), [(100, 60), (0, 5), (101, 65), (100, 70)]);
        assert_eq!(followed.undefined(), 0);
    }

    #[test]
    fn a_file_that_had_to_end_early_says_what_it_lacks() {
        let head_of = |tid, written, lost| {
            let mut head = [0; ring::WORDS];
            (head[ring::WRITTEN], head[ring::LOST], head[ring::TID]) = (written, lost, tid);
            head
        };
        let file = begun();
        let room = file.0.lock().unwrap().len();
        file.block(block::UNUSED, 0, &[0; 60]);
        let mut followed = Followed::begin("run", file.clone()).unwrap();
        // One ring has hits; another one had no room for any.
        file.copy(0, 0, 0, &[20]);
        file.block(block::RING, 0, &head_of(100, 1, 0));
        file.block(block::RING, 1, &head_of(101, 0, 4));
        file.flushed(50, 1);
        assert_eq!(taken(|take| followed.advance(take)), []);
        let whole = file.0.lock().unwrap().len();
        // The disk is full, and three hits and five more are lost, and one that no ring has seen.
        file.block(block::UNSEEN, 0, &[2, 0]);
        file.block(block::RING, 0, &head_of(100, 1, 3));
        file.block(block::RING, 1, &head_of(101, 0, 9));
        let mut bytes = file.0.lock().unwrap();
        let told = bytes.split_off(whole);
        bytes[room..][..told.len()].copy_from_slice(&told);
        let state_at = header::STATE * 8;
        bytes[state_at] = u8::try_from(state::CUT).unwrap();
        drop(bytes);
        // After this pass, what lies before its place may be gone.
        assert_eq!(taken(|take| followed.advance(take)), [(100, 20)]);
        assert!(followed.position() >= (room + told.len()) as u64);
        file.0.lock().unwrap()[room..whole].fill(0);
        assert_eq!(taken(|take| followed.finish(take)), [(0, 9), (0, 3)]);
        assert_eq!(followed.unseen(), 2);
    }

    #[test]
    fn damaged_blocks_are_errors() {
        for words in [[1, block::READING, 40, 0], [block::MAGIC, block::SUB_BUFFER, 8 * 65, 0]] {
            let file = begun();
            let mut followed = Followed::begin("run", file.clone()).unwrap();
            let at = followed.position();
            file.words(&words);
            file.words(&[0; 80]);
            let error = followed.advance(|_| ()).unwrap_err().to_string();
            assert_eq!(error, format!("run can't be read: the block at byte {at} is damaged"));
        }
        let error = Followed::begin("run", GrowingFile::default()).unwrap_err().to_string();
        assert!(error.starts_with("run is no trace"), "{error}");
    }
}
