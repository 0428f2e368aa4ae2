//! The file that the thread writes: a trace as `probe-trace` reads it, or one for Perfetto. Its
//! ending says which.
//!
//! Cost: for `probe-trace`, a copy of each sub-buffer once it is full. For Perfetto, each pass
//! converts what the threads have written, also to sub-buffers that are not full.
//!
//! A limit bounds the disk space of the file. A reader may give back the parts that it has read
//! (`FALLOC_FL_PUNCH_HOLE`), so that the file continues. As long as there is no space, the thread
//! copies nothing: the rings get full, and hits without room are lost and counted, as always. The
//! part of a ring that reaches the limit goes beyond it, with the room for what the file says if it
//! has to end: 10 KiB for 64 new rings. Cost: two system calls for each part of a ring.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::path::Path;

use probe_trace::export::{Format, Live};
use probe_trace::layout::{block, ring, sub_buffer};
use probe_trace::{Part, Rings};

use super::file::{ClockReading, TraceFile, words_of};
use super::recording::Recording;
use super::ring::{Ring, Shape};
use super::snapshot;
use super::stacks::WrittenStacks;
use crate::engine::os::cancel::Uncancellable;
use crate::engine::os::guarded_file::GuardedFile;
use crate::report::file;

/// A file that grows while the program runs, to a limit.
pub(super) struct Output {
    form: Form,
    limit: Option<Limit>,
}

enum Form {
    /// As `probe-trace` reads it.
    Native(Box<TraceFile<GuardedFile>>, Flushed),
    Perfetto(Box<PerfettoFile>),
}

/// By ring, a sub-buffer that the file has a part of, and the events of that part.
type Flushed = HashMap<u64, (u64, u64)>;

/// A file for Perfetto.
struct PerfettoFile {
    live: Live<GuardedFile>,
    /// The number of later definitions that it has.
    defined: usize,
    written_stacks: WrittenStacks,
    /// The file's length and its events, as of the last pass.
    whole: (u64, u64),
}

/// The limit of one file, in bytes.
#[derive(Clone, Copy)]
struct Limit(u64);

impl Limit {
    /// Returns whether the file takes so much space that it shall not grow. One that tells nothing
    /// grows.
    fn is_reached(self, file: &mut GuardedFile) -> bool {
        file.disk_usage().is_some_and(|taken| taken >= self.0)
    }
}

/// Returns whether a file of this name is written for Perfetto.
pub(super) fn is_perfetto(path: &Path) -> bool {
    Format::from_path(path) == Ok(Format::Perfetto)
}

impl Form {
    fn native(recording: &Recording, file: GuardedFile) -> io::Result<Self> {
        let mut file = TraceFile::begin(file, &recording.about(false))?;
        file.reserve(recording.most())?;
        Ok(Self::Native(Box::new(file), Flushed::new()))
    }

    fn perfetto(recording: &Recording, file: GuardedFile) -> io::Result<Self> {
        let mut head = Vec::new();
        TraceFile::begin(&mut head, &recording.about(false))?;
        let mut live = Live::new(head, file)?;
        // No thread hits yet.
        let mut rings = DrainedRings { shape: recording.shape, rings: Vec::new(), off: HashMap::new() };
        live.advance(&words_of(recording.began), &mut rings)?;
        let whole = (live.writer().length(), 0);
        Ok(Self::Perfetto(Box::new(PerfettoFile {
            live,
            defined: 0,
            written_stacks: WrittenStacks::default(),
            whole,
        })))
    }
}

impl Output {
    /// Creates the file, and writes its beginning. A regular file of this name is replaced at once,
    /// not cut: another trace may be writing it, and continues with it. After an error it stays. A
    /// pipe or another stream is written in place, and so is a file that is open already.
    pub(super) fn begin(
        recording: &Recording,
        path: &Path,
        opened: Option<&File>,
        limit: Option<u64>,
    ) -> io::Result<Self> {
        let form = |recording: &Recording, file: GuardedFile| {
            let form = if is_perfetto(path) { Form::perfetto } else { Form::native };
            let form = form(recording, file.move_to_high_number())?;
            Ok(Self { form, limit: limit.map(Limit) })
        };
        if let Some(opened) = opened {
            return form(recording, GuardedFile::new(opened.try_clone()?)?);
        }
        if file::is_stream(path) {
            return form(recording, GuardedFile::new(File::create(path)?)?);
        }
        // No file beside must stay.
        let _whole = Uncancellable::new();
        file::replace(path, |beside| form(recording, file::create(beside)?.with_path(path)))
    }

    /// Writes what the threads have written, unless the file has reached its limit. Returns the
    /// largest number of sub-buffers of one ring that this made free.
    pub(super) fn pass(&mut self, recording: &Recording) -> io::Result<u64> {
        self.form.pass(recording, self.limit)
    }

    /// Writes all that was recorded before, so that the file is whole until there is more.
    pub(super) fn flush(&mut self, recording: &Recording) -> io::Result<()> {
        self.form.pass(recording, None)?;
        let Form::Native(file, flushed) = &mut self.form else { return Ok(()) };
        file.reopen()?;
        let off = recording.last_off();
        for ring in recording.rings() {
            file.reserve_head(ring.number())?;
            // As it was at the last copy: its thread continues.
            let mut head = ring.head_words();
            for last in ring.drained()..ring.numbers(recording.shape).end {
                if let Some(words) = file.sub_buffer(ring, recording.shape, last)? {
                    let events = snapshot::events(words);
                    head[ring::WRITTEN] = head[ring::WRITTEN].max(words[sub_buffer::WRITTEN_BEFORE] + events);
                    flushed.insert(ring.number(), (last, events));
                }
            }
            file.words(block::RING, ring.number(), &head)?;
        }
        snapshot::end(recording, &off, file)?;
        file.close()
    }

    /// Ends the file. No thread may hit any more.
    pub(super) fn finish(&mut self, recording: &Recording) -> io::Result<()> {
        match &mut self.form {
            Form::Native(..) => self.flush(recording),
            Form::Perfetto(it) => it.pass(recording, true).map(drop),
        }
    }

    /// Ends the file where it was whole for the last time, after an error. All events that it does
    /// not have are lost from then on: those in the rings, those of a part that was being written,
    /// and those that come.
    pub(super) fn cut(&mut self, recording: &Recording) {
        match &mut self.form {
            Form::Native(file, flushed) => {
                file.cut();
                recording.keep(recording.rings().map(|ring| kept(recording, ring, flushed)).sum());
            }
            Form::Perfetto(it) => {
                // Nothing can be done about an error.
                let _ = it.live.writer().cut(it.whole.0);
                recording.keep(it.whole.1);
            }
        }
    }

    /// Says in a file that was [cut](Self::cut) how many events it lacks so far. Perfetto's files
    /// have no place for that.
    pub(super) fn report_missing(&mut self, recording: &Recording) -> io::Result<()> {
        let Form::Native(file, flushed) = &mut self.form else { return Ok(()) };
        let (mut heads, mut unseen) = (Vec::new(), recording.unseen());
        for ring in recording.rings() {
            let (mut head, kept) = (ring.head_words(), kept(recording, ring, flushed));
            let missing = head[ring::WRITTEN].saturating_sub(kept);
            (head[ring::WRITTEN], head[ring::LOST]) = (kept, head[ring::LOST] + missing);
            if file.has(ring.number()) {
                heads.push((ring.number(), head));
            } else {
                unseen[0] += head[ring::LOST];
            }
        }
        file.report_missing(unseen, &heads)
    }

    /// Marks a file that was [cut](Self::cut) as one that may lack more than it says.
    pub(super) fn reopen(&mut self) -> io::Result<()> {
        if let Form::Native(file, _) = &mut self.form { file.reopen() } else { Ok(()) }
    }

    /// Adds new stacks and a reading of all clocks, if something was written since the file was
    /// whole. Perfetto's files get them with each pass.
    pub(super) fn reading(&mut self, recording: &Recording) -> io::Result<()> {
        match &mut self.form {
            Form::Native(file, _) if !file.is_closed() => {
                file.write_stacks(recording)?;
                file.reading(ClockReading::now(recording.clock))
            }
            _ => Ok(()),
        }
    }
}

impl Form {
    fn pass(&mut self, recording: &Recording, limit: Option<Limit>) -> io::Result<u64> {
        match self {
            Self::Native(file, _) => copy(recording, file, limit),
            Self::Perfetto(it) => {
                let is_reached = limit.is_some_and(|limit| limit.is_reached(it.live.writer()));
                if is_reached { Ok(0) } else { it.pass(recording, false) }
            }
        }
    }
}

impl PerfettoFile {
    /// Converts what the rings hold. Returns the largest number of sub-buffers of one ring that
    /// this made free.
    fn pass(&mut self, recording: &Recording, is_last: bool) -> io::Result<u64> {
        let now = words_of(ClockReading::now(recording.clock));
        // Called after the time was read up to which hits are written: their probes had joined, and
        // their stacks were kept by then.
        let later = recording.later(self.defined);
        later.iter().for_each(|definitions| self.live.define(definitions));
        self.defined += later.len();
        recording.new_stacks(&mut self.written_stacks).iter().for_each(|stacks| self.live.add_stacks(stacks));
        let mut rings = DrainedRings::of(recording);
        if is_last {
            rings.off = recording.last_off().into_iter().collect();
            self.live.finish(&now, &mut rings)?;
        } else {
            self.live.advance(&now, &mut rings)?;
        }
        self.whole = (self.live.writer().length(), self.live.events());
        Ok(rings.rings.iter().flatten().map(|(ring, first)| ring.drained() - first).max().unwrap_or(0))
    }
}

/// Returns the events of a ring that the file has.
fn kept(recording: &Recording, ring: Ring<'_>, flushed: &Flushed) -> u64 {
    let next = ring.drained();
    // A flush has copied all sub-buffers up to its last one, of which some may have become whole
    // while it ran.
    match flushed.get(&ring.number()) {
        Some((number, events)) if *number >= next => ring.before(recording.shape, *number) + events,
        _ => ring.before(recording.shape, next),
    }
}

/// Copies each sub-buffer that its thread has left, up to the limit.
///
/// The part of a sub-buffer that a flush copies comes again, later and whole; readers take the last
/// copy.
fn copy(recording: &Recording, file: &mut TraceFile<GuardedFile>, limit: Option<Limit>) -> io::Result<u64> {
    let mut fullest = 0;
    for ring in recording.rings() {
        let first = ring.drained();
        let mut next = first;
        while ring.is_whole(recording.shape, next) && !limit.is_some_and(|it| it.is_reached(file.out())) {
            file.reopen()?;
            file.reserve_head(ring.number())?;
            file.sub_buffer(ring, recording.shape, next)?;
            next += 1;
            ring.set_drained(next);
        }
        fullest = fullest.max(next - first);
    }
    // Read after the rings, so that all hits that were copied have their definitions.
    let later = recording.later(file.defined());
    if !later.is_empty() {
        file.reopen()?;
        file.define(&later)?;
    }
    Ok(fullest)
}

/// The rings by their numbers, each with the sub-buffers that were free before.
struct DrainedRings<'a> {
    shape: Shape,
    rings: Vec<Option<(Ring<'a>, u64)>>,
    /// Times off the processor after the last hits, once no thread hits any more.
    off: HashMap<u64, Vec<u64>>,
}

impl<'a> DrainedRings<'a> {
    fn of(recording: &'a Recording) -> Self {
        let mut rings = Vec::new();
        for ring in recording.rings() {
            let number = usize::try_from(ring.number()).unwrap_or_default();
            rings.resize(rings.len().max(number + 1), None);
            rings[number] = Some((ring, ring.drained()));
        }
        Self { shape: recording.shape, rings, off: HashMap::new() }
    }

    fn ring(&self, number: u64) -> Option<Ring<'a>> {
        let place = self.rings.get(usize::try_from(number).ok()?)?;
        place.map(|(ring, _)| ring)
    }
}

impl Rings for DrainedRings<'_> {
    fn numbers(&self) -> Vec<u64> {
        (0..).zip(&self.rings).filter_map(|(number, ring)| ring.map(|_| number)).collect()
    }

    fn head(&self, ring: u64) -> [u64; ring::WORDS] {
        self.ring(ring).map_or([0; ring::WORDS], Ring::head_words)
    }

    fn off(&self, ring: u64) -> Vec<u64> {
        self.off.get(&ring).cloned().unwrap_or_default()
    }

    fn read(&mut self, ring: u64, words: &mut Vec<u64>) -> Part {
        let Some(ring) = self.ring(ring) else { return Part::None };
        // The first word is the sub-buffer's number plus one.
        let number = words.first().map_or_else(|| ring.drained(), |number| number - 1);
        let is_whole = ring.is_whole(self.shape, number);
        let before = words.len();
        ring.extend(self.shape, number, words);
        if is_whole {
            ring.set_drained(number + 1);
        }
        if words.len() != before {
            return Part::Further;
        }
        if !is_whole {
            return Part::None;
        }
        words.clear();
        ring.extend(self.shape, number + 1, words);
        Part::Next
    }
}
