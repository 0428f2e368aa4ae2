//! The file that the thread writes: a trace as `probe-trace` reads it, or one for Perfetto. Its
//! ending says which.
//!
//! Cost: for `probe-trace`, a copy of each sub-buffer once it is full. For Perfetto, each pass
//! converts what the threads have written, also to sub-buffers that are not full.

use std::fs::File;
use std::io;
use std::path::Path;

use probe_trace::export::{Format, Live};
use probe_trace::layout::{block, ring};
use probe_trace::{Part, Rings};

use super::clocks::Moment;
use super::file::{TraceFile, words_of};
use super::limit::Limit;
use super::ring::{Ring, Shape};
use super::running::Running;
use super::snapshot;
use crate::os::cancel::Uncancellable;
use crate::report::file;

/// A file that grows while the program runs, to a limit.
pub(super) struct Output {
    form: Form,
    limit: Option<Limit>,
}

enum Form {
    /// As `probe-trace` reads it.
    Native(TraceFile<File>),
    /// With the number of the later definitions that it has.
    Perfetto(Box<Live<File>>, usize),
}

/// Returns whether a file of this name is written for Perfetto.
pub(super) fn is_perfetto(path: &Path) -> bool {
    Format::from_path(path) == Ok(Format::Perfetto)
}

impl Form {
    fn native(running: &Running, file: File) -> io::Result<Self> {
        TraceFile::begin(file, &running.about(false)).map(Self::Native)
    }

    fn perfetto(running: &Running, file: File) -> io::Result<Self> {
        let mut head = Vec::new();
        TraceFile::begin(&mut head, &running.about(false))?;
        let mut live = Box::new(Live::new(head, file)?);
        // No thread hits yet.
        let mut rings = Converted { shape: running.shape, rings: Vec::new() };
        live.advance(&words_of(running.began), &mut rings)?;
        Ok(Self::Perfetto(live, 0))
    }
}

impl Output {
    /// Creates the file, and writes its beginning. A regular file of this name is replaced at once,
    /// not cut: another trace may be writing it, and goes on with it. After an error it stays. A
    /// pipe or another stream is written in place, and so is a file that is open already.
    pub(super) fn begin(
        running: &Running,
        path: &Path,
        opened: Option<&File>,
        limit: Option<u64>,
    ) -> io::Result<Self> {
        let form = |running: &Running, file: File| {
            let limit = limit.map(|bytes| Limit::new(&file, bytes)).transpose()?;
            let form = if is_perfetto(path) { Form::perfetto } else { Form::native };
            form(running, file).map(|form| Self { form, limit })
        };
        if let Some(opened) = opened {
            return form(running, opened.try_clone()?);
        }
        if file::is_stream(path) {
            return form(running, File::create(path)?);
        }
        // No file beside must stay.
        let _whole = Uncancellable::new();
        file::replace(path, |beside| form(running, file::create(beside)?))
    }

    /// Writes what the threads have written, unless the file has reached its limit. Returns the
    /// largest number of sub-buffers of one ring that this made free.
    pub(super) fn pass(&mut self, running: &Running) -> io::Result<u64> {
        self.form.pass(running, self.limit.as_ref())
    }

    /// Writes all that was recorded before, so that the file is whole until there is more.
    pub(super) fn flush(&mut self, running: &Running) -> io::Result<()> {
        self.form.pass(running, None)?;
        let Form::Native(file) = &mut self.form else { return Ok(()) };
        file.reopen()?;
        for ring in running.rings() {
            for last in ring.drained()..ring.numbers(running.shape).end {
                file.sub_buffer(ring, running.shape, last)?;
            }
            file.words(block::RING, ring.number(), &ring.head_words())?;
        }
        snapshot::end(running, file)?;
        file.close()
    }

    /// Ends the file. No thread may hit any more.
    pub(super) fn finish(&mut self, running: &Running) -> io::Result<()> {
        match &mut self.form {
            Form::Native(_) => self.flush(running),
            Form::Perfetto(live, defined) => {
                let now = words_of(Moment::now(running.clock));
                define(running, live, defined);
                convert(running, |rings| live.finish(&now, rings)).map(drop)
            }
        }
    }

    /// Adds a reading of all clocks, if something was written since the file was whole. Perfetto's
    /// files get them with each pass.
    pub(super) fn reading(&mut self, running: &Running) -> io::Result<()> {
        match &mut self.form {
            Form::Native(file) if !file.is_closed() => file.reading(Moment::now(running.clock)),
            _ => Ok(()),
        }
    }
}

impl Form {
    fn pass(&mut self, running: &Running, limit: Option<&Limit>) -> io::Result<u64> {
        match self {
            Self::Native(file) => copy(running, file, limit),
            Self::Perfetto(..) if limit.is_some_and(Limit::is_reached) => Ok(0),
            Self::Perfetto(live, defined) => {
                let now = words_of(Moment::now(running.clock));
                define(running, live, defined);
                convert(running, |rings| live.advance(&now, rings))
            }
        }
    }
}

/// Hands over later definitions. Called after the time was read up to which hits are written: their
/// probes had joined by then.
fn define(running: &Running, live: &mut Live<File>, defined: &mut usize) {
    let later = running.later(*defined);
    later.iter().for_each(|definitions| live.define(definitions));
    *defined += later.len();
}

/// Copies each sub-buffer that its thread has left, up to the limit.
///
/// The part of a sub-buffer that a flush copies comes again, later and whole; readers take the last
/// copy.
fn copy(running: &Running, file: &mut TraceFile<File>, limit: Option<&Limit>) -> io::Result<u64> {
    let mut fullest = 0;
    for ring in running.rings() {
        let first = ring.drained();
        let mut next = first;
        while ring.is_whole(running.shape, next) && !limit.is_some_and(Limit::is_reached) {
            file.reopen()?;
            file.sub_buffer(ring, running.shape, next)?;
            next += 1;
            ring.set_drained(next);
        }
        fullest = fullest.max(next - first);
    }
    // Read after the rings, so that all hits that were copied have their definitions.
    let later = running.later(file.defined());
    if !later.is_empty() {
        file.reopen()?;
        file.define(&later)?;
    }
    Ok(fullest)
}

/// Converts what the rings hold.
fn convert(running: &Running, write: impl FnOnce(&mut Converted<'_>) -> io::Result<()>) -> io::Result<u64> {
    let mut rings = Converted { shape: running.shape, rings: Vec::new() };
    for ring in running.rings() {
        let number = usize::try_from(ring.number()).unwrap_or_default();
        rings.rings.resize(rings.rings.len().max(number + 1), None);
        rings.rings[number] = Some((ring, ring.drained()));
    }
    write(&mut rings)?;
    Ok(rings.rings.iter().flatten().map(|(ring, first)| ring.drained() - first).max().unwrap_or(0))
}

/// The rings by their numbers, each with the sub-buffers that were free before.
struct Converted<'a> {
    shape: Shape,
    rings: Vec<Option<(Ring<'a>, u64)>>,
}

impl<'a> Converted<'a> {
    fn ring(&self, number: u64) -> Option<Ring<'a>> {
        let place = self.rings.get(usize::try_from(number).ok()?)?;
        place.map(|(ring, _)| ring)
    }
}

impl Rings for Converted<'_> {
    fn numbers(&self) -> Vec<u64> {
        (0..).zip(&self.rings).filter_map(|(number, ring)| ring.map(|_| number)).collect()
    }

    fn head(&self, ring: u64) -> [u64; ring::WORDS] {
        self.ring(ring).map_or([0; ring::WORDS], Ring::head_words)
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
