//! Traces: the files of one or more processes, merged into one time line.

use std::fmt;
use std::io::{Read, Seek};
use std::path::Path;

use super::file::{Problem, ReadError, TraceFile};
use super::stream::{Merge, Stream};
use crate::item::Item;
use crate::layout::{reading, ring};

/// Traces of one or more processes, opened for reading.
///
/// Files of killed and of running processes are read as far as they go;
/// [`problems`](Self::problems) names the missing parts. Times are those of the first file's
/// `CLOCK_MONOTONIC`. Files of other machines, or from before a restart, are laid beside it by the
/// calendar time of both.
///
/// Memory: about 100 bytes for each sub-buffer of the files, their definitions, and at most 72 KiB
/// for each ring. No number in a file is believed: a damaged or hostile file costs memory and time
/// in proportion to its length.
///
/// ```no_run
/// use probe_trace::{Item, Trace};
///
/// let mut trace = Trace::open(&["server.probetrace", "worker.probetrace"])?;
/// trace.problems().iter().for_each(|problem| eprintln!("{problem}"));
/// for item in trace.items() {
///     if let Item::Event(event) = item? {
///         println!("{} {}", event.time, event.definition.path);
///     }
/// }
/// # Ok::<(), probe_trace::ReadError>(())
/// ```
#[derive(Debug)]
pub struct Trace {
    files: Vec<TraceFile>,
    problems: Vec<String>,
}

/// Hits of a trace: those that it has, and those that it lacks.
///
/// ```no_run
/// let trace = probe_trace::Trace::open(&["server.probetrace"])?;
/// if let Some(totals) = trace.totals() {
///     println!("{} of {} hits were lost", totals.lost(), totals.emitted());
/// }
/// # Ok::<(), probe_trace::ReadError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[non_exhaustive]
pub struct Totals {
    /// Events that were written; in a flight recorder, later ones have replaced most.
    pub written: u64,
    /// Events that found no room in their thread's ring.
    pub without_room: u64,
    /// Events of threads for which there was no ring, or only one that an earlier thread had left
    /// full.
    pub without_ring: u64,
    /// Hits inside of other hits, as of signal handlers.
    pub nested: u64,
}

impl Totals {
    /// Returns the number of lost hits.
    pub fn lost(self) -> u64 {
        self.without_room.saturating_add(self.without_ring).saturating_add(self.nested)
    }

    /// Returns the number of all hits, written or lost.
    pub fn emitted(self) -> u64 {
        self.written.saturating_add(self.lost())
    }
}

impl Trace {
    /// Opens files.
    ///
    /// # Errors
    /// If one can't be read, is no trace, or has another version.
    pub fn open<P: AsRef<Path>>(paths: &[P]) -> Result<Self, ReadError> {
        let files = paths.iter().map(|path| TraceFile::open(path.as_ref()));
        Ok(Self::of(files.collect::<Result<_, _>>()?))
    }

    /// Reads files' content from elsewhere, such as from memory. Each has a name, for errors.
    ///
    /// ```
    /// use std::io::Cursor;
    ///
    /// let error = probe_trace::Trace::read([("upload", Cursor::new(b"PK"))]).unwrap_err();
    /// assert!(error.to_string().starts_with("upload is no trace"));
    /// ```
    ///
    /// # Errors
    /// As those of [`open`](Self::open).
    pub fn read<P: AsRef<Path>, S: Read + Seek + Send + 'static>(
        sources: impl IntoIterator<Item = (P, S)>,
    ) -> Result<Self, ReadError> {
        let files =
            sources.into_iter().map(|(name, source)| TraceFile::read(name.as_ref(), Box::new(source)));
        Ok(Self::of(files.collect::<Result<_, _>>()?))
    }

    fn of(files: Vec<TraceFile>) -> Self {
        let mut problems = Vec::new();
        for file in &files {
            problems.extend(file.problems.iter().map(|it| format!("{}: {it}", file.path.display())));
        }
        for file in files.iter().filter(|file| file.boot != files[0].boot) {
            problems.push(format!(
                "{}: this machine was started apart from the first file's; the two are compared by calendar time",
                file.path.display()
            ));
        }
        Self { files, problems }
    }

    /// Returns a line for each part of the files that is missing or doubtful.
    pub fn problems(&self) -> &[String] {
        &self.problems
    }

    /// Returns the largest error of a time on its own machine's clock, in nanoseconds; `None` if a
    /// file does not tell. If the machine slept, this is the error of times near the sleep: the
    /// distance of the two readings around it, about a second in a trace that was written to a
    /// file.
    pub fn clock_error(&self) -> Option<u64> {
        self.files.iter().map(|file| file.clock.error()).try_fold(0, |most, error| Some(most.max(error?)))
    }

    /// Returns the calendar time of an item's time, in nanoseconds since 1970, by the first file's
    /// last reading of both clocks before. So it follows a clock that was set, and a machine that
    /// slept.
    pub fn wall_time(&self, time: u64) -> u64 {
        let time = i128::from(time);
        let time = time + self.files.first().map_or(0, |file| file.realtime_offset_at(time));
        u64::try_from(time.max(0)).unwrap_or(u64::MAX)
    }

    /// Returns the [reading] of all clocks at the first file's beginning, for
    /// [`export`](crate::export::export); `None` if there is no file.
    ///
    /// ```no_run
    /// let trace = probe_trace::Trace::open(&["server.probetrace"])?;
    /// assert!(trace.clocks().is_some());
    /// # Ok::<(), probe_trace::ReadError>(())
    /// ```
    pub fn clocks(&self) -> Option<[u64; reading::WORDS]> {
        self.files.first().map(|file| file.first_clocks)
    }

    /// Returns the hits of all files; `None` if a process did not finish its file.
    pub fn totals(&self) -> Option<Totals> {
        self.files.iter().try_fold(Totals::default(), |mut sum, file| {
            let [ringless, nested] = file.losses.unseen?;
            for head in file.losses.heads.values() {
                sum.written = sum.written.saturating_add(head[ring::WRITTEN]);
                sum.without_room = sum.without_room.saturating_add(head[ring::LOST]);
            }
            sum.without_ring = sum.without_ring.saturating_add(ringless);
            sum.nested = sum.nested.saturating_add(nested);
            Some(sum)
        })
    }

    /// Returns whether a file had to end before its trace: its disk was full, or it could grow no
    /// further. [`problems`](Self::problems) says so, too.
    ///
    /// ```no_run
    /// let trace = probe_trace::Trace::open(&["server.probetrace"])?;
    /// if trace.is_cut() {
    ///     eprintln!("make room on the disk");
    /// }
    /// # Ok::<(), probe_trace::ReadError>(())
    /// ```
    pub fn is_cut(&self) -> bool {
        self.files.iter().any(|file| file.is_cut)
    }

    /// Reads the items of all files, from the first one on, in the order of their times.
    pub fn items(&mut self) -> Items<'_> {
        Items::new(&mut self.files)
    }
}

/// The items of a trace, see [`Trace::items`]. Ends after an error.
///
/// ```no_run
/// let mut trace = probe_trace::Trace::open(&["server.probetrace"])?;
/// let items = trace.items().collect::<Result<Vec<_>, _>>()?;
/// # Ok::<(), probe_trace::ReadError>(())
/// ```
pub struct Items<'a> {
    files: &'a mut [TraceFile],
    merge: Merge,
    is_over: bool,
}

impl<'a> Items<'a> {
    fn new(files: &'a mut [TraceFile]) -> Self {
        let mut merge = Merge::default();
        for (number, file) in files.iter().enumerate() {
            let is_near = file.boot == files[0].boot;
            let shift = if is_near { 0 } else { file.realtime_offset - files[0].realtime_offset };
            let rings = file.sub_buffers.chunk_by(|one, other| one.ring == other.ring);
            merge.streams.extend(rings.map(|ring| Stream::new(number, shift, ring)));
        }
        merge.restart();
        Self { files, merge, is_over: false }
    }

    /// Returns the number of events so far whose probes have no definition in their file; they are
    /// left out.
    pub fn undefined(&self) -> u64 {
        self.merge.undefined()
    }
}

impl Iterator for Items<'_> {
    type Item = Result<Item, ReadError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.is_over {
            return None;
        }
        let Self { files, merge, .. } = self;
        let next = merge.next(|stream| {
            let of = &mut files[stream.file];
            stream.read(of).map_err(|error| ReadError::new(&of.path, Problem::System(error)))
        });
        self.is_over = !matches!(next, Ok(Some(_)));
        next.transpose()
    }
}

impl fmt::Debug for Items<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Items").field("streams", &self.merge.streams.len()).finish_non_exhaustive()
    }
}
