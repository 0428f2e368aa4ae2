//! Chrome's trace events, as a JSON array: begins and ends of calls (`B`, `E`), instants (`i`),
//! counters (`C`), names (`M`), and nestable asynchronous events for futures (`b`, `n`, `e`).
//!
//! Names are full paths, and arguments are the fields alone: speedscope tells calls of one name
//! apart by their arguments, and shows both. Its flame graphs want folded stacks instead.
//!
//! Times are microseconds with three decimals, so they are exact. Integers of 128 bits, NaN, and
//! infinities are text.

mod ids;
mod record;

#[cfg(test)]
mod tests;

use std::io::{self, Write};

use ids::Ids;
use record::{Args, Note, Record};

use super::counter::counted;
use super::name;
use super::sink::Sink;
use crate::calls::{Begin, End, Ending, FutureId, Instant, Slice, Step, Track};
use crate::item::Thread;

pub(super) struct Chrome<W> {
    writer: W,
    ids: Ids,
    is_first: bool,
}

impl<W: Write> Chrome<W> {
    pub(super) fn new(mut writer: W) -> io::Result<Self> {
        writer.write_all(b"[")?;
        Ok(Self { writer, ids: Ids::default(), is_first: true })
    }

    fn write(&mut self, record: &Record<'_>) -> io::Result<()> {
        self.writer.write_all(if self.is_first { b"\n" } else { b",\n" })?;
        self.is_first = false;
        Ok(serde_json::to_writer(&mut self.writer, record)?)
    }

    fn thread(&mut self, thread: &Thread) -> io::Result<()> {
        let (process, is_new) = self.ids.process(thread.id.file, thread.id.process);
        let (_, id) = self.ids.thread(thread.id);
        if is_new && !thread.program.is_empty() {
            self.metadata("process_name", process, None, &thread.program)?;
        }
        if !thread.name.is_empty() {
            self.metadata("thread_name", process, Some(id), &thread.name)?;
        }
        Ok(())
    }

    fn metadata(&mut self, of: &str, process: u64, thread: Option<u64>, name: &str) -> io::Result<()> {
        let args = Args { notes: vec![("name", Note::Text(name))], ..Args::default() };
        let (category, time, future) = ("", None, None);
        self.write(&Record { phase: "M", name: of, category, process, thread, time, future, args })
    }

    /// Returns the ids of a track: process, thread, future.
    fn track(&mut self, track: Track) -> (u64, Option<u64>, Option<u64>) {
        match track {
            Track::Thread(id) => {
                let (process, thread) = self.ids.thread(id);
                (process, Some(thread), None)
            }
            Track::Future(FutureId { file, process, number }) => {
                let (process, _) = self.ids.process(file, process);
                (process, Some(process), Some(number))
            }
        }
    }

    fn begin(&mut self, begin: &Begin) -> io::Result<()> {
        let (process, thread, future) = self.track(begin.track);
        let path = &begin.fields.definition().path;
        let mut args = Args { fields: Some(&begin.fields), ..Args::default() };
        if begin.began_before {
            args.notes.push(("probe.began_before", Note::Flag(true)));
        }
        self.write(&Record {
            phase: if future.is_some() { "b" } else { "B" },
            name: slice_name(begin.track, begin.slice, path),
            category: name::krate(path),
            process,
            thread,
            time: Some(begin.time),
            future,
            args,
        })
    }

    fn end(&mut self, end: &End) -> io::Result<()> {
        let (process, thread, future) = self.track(end.track);
        let path = &end.definition.path;
        let category = name::krate(path);
        let time = Some(end.time);
        if future.is_some() && end.ending == Ending::Cancelled && end.slice == Slice::Future {
            let (phase, name, args) = ("n", "cancelled", Args::default());
            self.write(&Record { phase, name, category, process, thread, time, future, args })?;
        }
        let mut args = Args { fields: end.fields.as_ref(), ..Args::default() };
        if let Some(cause) = end.ending.cause() {
            args.notes.push(("probe.ending", Note::Text(cause)));
        }
        let phase = if future.is_some() { "e" } else { "E" };
        let name = slice_name(end.track, end.slice, path);
        self.write(&Record { phase, name, category, process, thread, time, future, args })
    }

    fn instant(&mut self, instant: &Instant) -> io::Result<()> {
        let (process, thread, future) = self.track(Track::Thread(instant.thread));
        let path = &instant.fields.definition().path;
        let mut args = Args { fields: Some(&instant.fields), ..Args::default() };
        if instant.lacks_entry {
            args.notes.push(("probe.lacks_entry", Note::Flag(true)));
        }
        let (name, category, time) = (path, name::krate(path), Some(instant.time));
        self.write(&Record { phase: "i", name, category, process, thread, time, future, args })?;
        let Some((field, value)) = counted(instant) else { return Ok(()) };
        let args = Args { counter: Some((field, value)), ..Args::default() };
        self.write(&Record { phase: "C", name, category, process, thread: None, time, future, args })
    }
}

impl<W: Write> Sink for Chrome<W> {
    fn step(&mut self, step: &Step) -> io::Result<()> {
        match step {
            Step::Thread(thread) => self.thread(thread),
            Step::Begin(begin) => self.begin(begin),
            Step::End(end) => self.end(end),
            Step::Instant(instant) => self.instant(instant),
            Step::Gap(gap) => {
                let (process, thread, future) = self.track(Track::Thread(gap.thread));
                let notes = vec![
                    ("lost", Note::Number(gap.lost)),
                    ("nanoseconds", Note::Number(gap.end - gap.begin)),
                ];
                self.write(&Record {
                    phase: "i",
                    name: &format!("{} events lost", gap.lost),
                    category: "probe",
                    process,
                    thread,
                    time: Some(gap.begin),
                    future,
                    args: Args { notes, ..Args::default() },
                })
            }
        }
    }

    fn finish(&mut self) -> io::Result<()> {
        self.writer.write_all(b"\n]\n")
    }
}

/// A poll or a wait of a future has its kind as its name, other slices the probe's path.
fn slice_name(track: Track, slice: Slice, path: &str) -> &str {
    match (track, slice) {
        (Track::Future(_), Slice::Poll | Slice::Wait) => slice.name(),
        _ => path,
    }
}
