//! The attached trace: its totals, its snapshots, and its end.

use std::fmt;
use std::fs;
use std::io::{self, Write};
use std::path::Path;

use super::drain::{Drain, at};
use super::{Keep, Trace, TraceTotals, snapshot};
use crate::control::Attachment;
use crate::error::Error;
use crate::report::{footnotes, notes};

impl Attachment<Trace> {
    /// Returns the hits that were written and lost so far. The sum is exact when no thread is in a
    /// hit.
    pub fn totals(&self) -> TraceTotals {
        let mut totals = self.recorded();
        totals.lost += self.suppressed();
        totals
    }

    /// Writes what the rings hold to a file, and returns the totals so far. No thread waits for it,
    /// and the trace goes on. The file appears whole, and replaces one of this name.
    ///
    /// # Errors
    /// [`Error::Consumer`] with the system's error if the file can't be written, or if the trace
    /// writes [to a file](Trace::to_file) already.
    pub fn snapshot(&self, path: impl AsRef<Path>) -> Result<TraceTotals, Error> {
        let path = path.as_ref();
        if let Keep::File(other) = &self.keep {
            let problem = format!("this trace is written to {} already", other.display());
            return Err(at(path, &io::Error::new(io::ErrorKind::Unsupported, problem)));
        }
        let mut beside = path.as_os_str().to_owned();
        beside.push(format!(".{}.part", std::process::id()));
        let written = fs::File::create(&beside).and_then(|file| {
            self.copy_to(io::BufWriter::with_capacity(1 << 16, file))?;
            fs::rename(&beside, path)
        });
        if written.is_err() {
            let _ = fs::remove_file(&beside);
        }
        written.map(|()| self.totals()).map_err(|error| at(path, &error))
    }

    /// Writes a whole file with the content of the rings.
    pub(super) fn copy_to(&self, mut out: impl Write) -> io::Result<()> {
        let Some(running) = self.running.get() else { return Ok(()) };
        snapshot::write(running, self.suppressed(), &mut out)?;
        out.flush()
    }

    /// Writes all events so far to the file of [`Trace::to_file`], and returns the totals. The file
    /// is whole from then on, until the trace writes to it again. A trace without such a file, or
    /// one in a forked child, has nothing to write.
    ///
    /// # Errors
    /// [`Error::Consumer`] with the system's error if the file could not be written.
    pub fn flush(&self) -> Result<TraceTotals, Error> {
        let nested = self.suppressed();
        self.drain.get().map_or(Ok(()), |drain| drain.flush(nested))?;
        Ok(self.totals())
    }

    /// Detaches, writes the remaining events, and closes the file. Returns the totals, in which
    /// each hit is written or lost.
    ///
    /// # Errors
    /// [`Error::Consumer`] with the system's error if the file could not be written.
    pub fn finish(self) -> Result<TraceTotals, Error> {
        self.pause();
        let nested = self.suppressed();
        self.end(nested)?;
        Ok(self.totals())
    }
}

impl Trace {
    /// Returns the hits that the rings have, and those for which they had no room.
    pub(super) fn recorded(&self) -> TraceTotals {
        let Some(running) = self.running.get() else { return TraceTotals::default() };
        let none = TraceTotals { written: 0, lost: running.ringless() };
        running.rings().fold(none, |sum, ring| {
            let (written, lost) = ring.totals();
            TraceTotals { written: sum.written + written, lost: sum.lost + lost }
        })
    }

    fn end(&self, nested: u64) -> Result<(), Error> {
        self.drain.get().map_or(Ok(()), |drain| drain.finish(nested))
    }
}

impl Drop for Trace {
    fn drop(&mut self) {
        // The thread that writes has said what went wrong.
        let _ = self.end(0);
        if self.drain.get().is_some_and(Drain::is_parents) {
            std::mem::forget(self.drain.take());
        }
    }
}

/// Prints the totals, and where the events are.
impl fmt::Display for Attachment<Trace> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let TraceTotals { written, lost } = self.totals();
        let rings = self.running.get().map_or(0, |running| running.rings().count());
        let threads = if rings == 1 { "thread" } else { "threads" };
        write!(f, "{written} events of {rings} {threads}, and {lost} lost; ")?;
        match &self.keep {
            Keep::File(path) => write!(f, "the trace is {}", path.display())?,
            Keep::Latest => f.write_str("the latest are in memory, for a report as .pftrace")?,
            Keep::First => f.write_str("the first are in memory, for a report as .pftrace")?,
        }
        footnotes(&notes(self.untyped()), f)
    }
}
