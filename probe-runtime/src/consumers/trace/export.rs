//! The trace as other tools read it, by way of `probe-trace`.
//!
//! Cost: a trace that is written to a file is read from there. The rings of others are copied
//! first, so they take twice their memory meanwhile.

use std::io::{self, Cursor, Write};
use std::path::Path;
use std::time::Duration;

use probe_trace::Trace as Recorded;
use probe_trace::export::{Error, Format, export};

use super::drain::Drain;
use super::live::is_perfetto;
use super::{Keep, Trace, TraceTotals};
use crate::engine::control::Attachment;
use crate::report::was;

impl Attachment<Trace> {
    /// Writes the trace so far in a format that other tools read. Returns its missing parts, a
    /// line each.
    pub(crate) fn write_as(&self, format: Format, out: &mut dyn Write) -> io::Result<Vec<String>> {
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
            Error::Write(error) => error,
            other => io::Error::other(other.to_string()),
        })?;
        Ok(missing)
    }

    /// Writes the trace so far as `probe-trace` reads it, unless it has that very file already.
    pub(crate) fn write_native(&self, out: &mut dyn Write) -> io::Result<Vec<String>> {
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
        let problem = self.flush_within(PATIENCE).err();
        let text = self.to_string();
        match problem {
            Some(problem) => format!("{text}\n{problem}"),
            None => text,
        }
    }

    /// Returns a line each about lost events, and about those that are not in the rings' file.
    fn losses(&self) -> impl Iterator<Item = String> {
        let TraceTotals { written, lost } = self.totals();
        let mut line =
            format!("{} lost, and {written} written; the trace shows each gap", was(lost, "event"));
        if matches!(&self.keep, Keep::File(path) if is_perfetto(path)) {
            let (native, perfetto) = (Recorded::ENDING, Format::Perfetto.ending());
            line.push_str(&format!(
                "; a `.{native}` takes them fifty times as fast, and `probectl convert` makes a `.{perfetto}` \
                 of it"
            ));
        }
        (lost != 0).then_some(line).into_iter().chain(self.ring_file().1)
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
const PATIENCE: Duration = Duration::from_secs(5);

const IN_CHILD: &str =
    "a trace that a thread writes to a file ends in a forked child; `flight` goes on there";
