//! The attached trace: its totals, its snapshots, its end; and what other tools read, by way of
//! `probe-trace`.
//!
//! Cost: a trace that is written to a file is read from there. The rings of others are copied
//! first, so they take twice their memory meanwhile.

use std::fmt;
use std::io::{self, Cursor, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use probe_trace::Trace as Recorded;
use probe_trace::export::{self, Format, export};

use super::drain::Drain;
use super::file::at;
use super::output::is_perfetto;
use super::ring_file::RingFile;
use super::{Keep, Trace, TraceTotals, snapshot};
use crate::engine::control::Attachment;
use crate::engine::error::Error;
use crate::report::{footnotes, notes};
use probe_report::{count, was};

impl Attachment<Trace> {
    /// Returns the hits that were written and lost so far. The sum is exact when no thread is in a
    /// hit.
    pub fn totals(&self) -> TraceTotals {
        self.recorded()
    }

    /// Writes what the rings hold to a file, and returns the totals so far. No thread waits for it,
    /// and the trace continues. The file appears whole, and replaces one of this name.
    ///
    /// # Errors
    /// [`Error::Consumer`] with the system's error if the file can't be written, or if the trace
    /// writes [to a file](Trace::to_file) already.
    pub fn snapshot(&self, path: impl AsRef<Path>) -> Result<TraceTotals, Error> {
        let path = path.as_ref();
        if let Keep::File(other) = &self.keep {
            return Err(at(path, &no_snapshots(other)));
        }
        let written = self.recording.get().map_or(Ok(()), |recording| snapshot::to_file(recording, path));
        written.map(|()| self.totals()).map_err(|error| at(path, &error))
    }

    /// Writes a whole file with the content of the rings.
    pub(super) fn copy_to(&self, mut out: impl Write) -> io::Result<()> {
        let Some(recording) = self.recording.get() else { return Ok(()) };
        snapshot::write(recording, &mut out)?;
        out.flush()
    }

    /// Writes all events so far to the file of [`Trace::to_file`], and returns the totals. The file
    /// is whole from then on, until the trace writes to it again. A trace without such a file, or
    /// one in a forked child, has nothing to write.
    ///
    /// # Errors
    /// [`Error::Consumer`] with the system's error if the file could not be written.
    pub fn flush(&self) -> Result<TraceTotals, Error> {
        self.flush_within(Duration::MAX)?;
        Ok(self.totals())
    }

    /// Writes all events so far to the file. Gives up after this time.
    pub(crate) fn flush_within(&self, at_most: Duration) -> Result<(), Error> {
        self.drain.get().map_or(Ok(()), |drain| drain.flush(at_most))
    }

    /// Detaches, writes the remaining events, and closes the file. Returns the totals, in which
    /// each hit is written or lost.
    ///
    /// # Errors
    /// [`Error::Consumer`] with the system's error if the file could not be written, or if another
    /// program has cut off the file [that holds the rings](Trace::in_file).
    pub fn finish(self) -> Result<TraceTotals, Error> {
        self.untyped().end_hits();
        self.end()?;
        Ok(self.totals())
    }
}

impl Attachment<Trace> {
    /// Writes the trace so far in a format that other tools read. Returns its missing parts, a
    /// line each.
    pub(crate) fn export(&self, format: Format, out: &mut dyn Write) -> io::Result<Vec<String>> {
        let mut problem = None;
        let mut recorded = match &self.keep {
            Keep::File(_) if self.is_parents() => return Ok(vec![IN_CHILD.to_owned()]),
            Keep::File(path) => {
                // The file has the events that came before.
                problem = self.flush().err().map(|error| error.to_string());
                if is_perfetto(path) {
                    return if format == Format::Perfetto {
                        Ok(self.losses().chain(problem).collect())
                    } else {
                        Err(only_perfetto(path))
                    };
                }
                Recorded::open(&[path])
            }
            Keep::Latest | Keep::First => {
                let mut copy = Vec::new();
                self.copy_to(&mut copy)?;
                Recorded::read([("the rings", Cursor::new(copy))])
            }
        }
        .map_err(io::Error::other)?;
        let missing = self.losses().chain(problem).chain(recorded.problems().iter().cloned()).collect();
        export(format, recorded.clocks(), recorded.items(), out).map_err(|error| match error {
            export::Error::Write(error) => error,
            other => io::Error::other(other.to_string()),
        })?;
        Ok(missing)
    }

    /// Writes the trace so far as `probe-trace` reads it, unless it has that very file already.
    pub(crate) fn export_native(&self, out: &mut dyn Write) -> io::Result<Vec<String>> {
        let mut problem = None;
        match &self.keep {
            Keep::File(_) if self.is_parents() => return Ok(vec![IN_CHILD.to_owned()]),
            Keep::File(path) if is_perfetto(path) => return Err(only_perfetto(path)),
            Keep::File(_) => problem = self.flush().err().map(|error| error.to_string()),
            Keep::Latest | Keep::First => self.copy_to(out)?,
        }
        Ok(self.losses().chain(problem).collect())
    }

    /// Returns the text of a report. The file has all events before it, unless a line says why not.
    pub(crate) fn text(&self) -> String {
        let problem = self.flush_within(FLUSH_TIMEOUT).err();
        let text = self.to_string();
        match problem {
            Some(problem) => format!("{text}\n{problem}"),
            None => text,
        }
    }

    /// Returns a line each about lost events, and about those that are not in the rings' file.
    fn losses(&self) -> impl Iterator<Item = String> {
        let TraceTotals { written, lost } = self.totals();
        let (native, perfetto) = (Recorded::ENDING, Format::Perfetto.ending());
        let advice = match &self.keep {
            Keep::File(path) if is_perfetto(path) => format!(
                "; a `.{native}` takes them fifty times as fast, and `probectl convert` makes a `.{perfetto}` \
                 of it"
            ),
            _ => String::new(),
        };
        let line =
            format!("{} lost, and {written} written; the trace shows each gap{advice}", was(lost, "event"));
        let notes = self.recording.get().into_iter().flat_map(|recording| recording.notes());
        (lost != 0).then_some(line).into_iter().chain(self.ring_file().1).chain(notes)
    }

    /// Returns whether this is a forked child, which lacks the thread that writes.
    fn is_parents(&self) -> bool {
        self.drain.get().is_some_and(Drain::is_parents)
    }
}

fn only_perfetto(path: &Path) -> io::Error {
    let (path, native) = (path.display(), Recorded::ENDING);
    let problem = "is written for Perfetto while the program runs; other formats come from a";
    io::Error::other(format!("{path} {problem} `.{native}`"))
}

/// The longest wait for a file that takes nothing, such as a pipe that nobody reads.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(5);

const IN_CHILD: &str =
    "a trace that a thread writes to a file ends in a forked child; `flight` goes on there";

/// Returns the reason why a trace that is written to a file has no snapshots.
pub(super) fn no_snapshots(path: &Path) -> io::Error {
    let problem = format!("this trace is written to {} already", path.display());
    io::Error::new(io::ErrorKind::Unsupported, problem)
}

impl Trace {
    /// Returns the hits that the rings have, and those that they lack.
    pub(super) fn recorded(&self) -> TraceTotals {
        let [written, lost] = self.recording.get().map_or([0; 2], |recording| recording.totals());
        TraceTotals { written, lost }
    }

    fn end(&self) -> Result<(), Error> {
        let closed = self.recording.get().map_or(Ok(()), |recording| recording.close());
        self.drain.get().map_or(closed, Drain::finish)
    }

    /// Returns the file that the rings of this process lie in, if there is one, and a line about
    /// events that are not there.
    pub(super) fn ring_file(&self) -> (Option<PathBuf>, Option<String>) {
        let file = self.recording.get().and_then(|recording| recording.file.as_ref());
        (file.and_then(RingFile::path), file.and_then(RingFile::problem))
    }
}

impl Drop for Trace {
    fn drop(&mut self) {
        // The thread that writes has said what went wrong.
        let _ = self.end();
        if self.drain.get().is_some_and(Drain::is_parents) {
            std::mem::forget(self.drain.take());
        }
    }
}

/// Prints the totals, and where the events are.
impl fmt::Display for Attachment<Trace> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let TraceTotals { written, lost } = self.totals();
        let rings = self.recording.get().map_or(0, |recording| recording.rings().count());
        write!(f, "{written} events of {}, and {lost} lost; ", count(rings as u64, "thread"))?;
        match &self.keep {
            Keep::File(path) => write!(f, "the trace is {}", path.display())?,
            Keep::Latest => f.write_str("the latest are in ")?,
            Keep::First => f.write_str("the first are in ")?,
        }
        let (file, problem) = self.ring_file();
        match file {
            Some(file) => write!(f, "{}", file.display())?,
            None if matches!(self.keep, Keep::File(_)) => (),
            None => write!(f, "memory, for a report as .{}", Format::Perfetto.ending())?,
        }
        problem.map_or(Ok(()), |problem| write!(f, "\n{problem}"))?;
        let own = self.recording.get().into_iter().flat_map(|recording| recording.notes());
        let notes: Vec<_> = own.chain(notes(self.untyped())).collect();
        footnotes(&notes, f)
    }
}
