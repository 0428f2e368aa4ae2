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

use super::counter::counter_value;
use super::name;
use super::sink::Sink;
use crate::calls::{Begin, End, Ending, FutureId, Instant, Slice, Step, Track};
use crate::item::{Gap, Thread};

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
        self.write(&Record { phase: "M", name: of, process, thread, args, ..Record::default() })
    }

    /// Creates a record on a track, with the name of a probe.
    fn record<'a>(&mut self, track: Track, time: u64, path: &'a str) -> Record<'a> {
        let (process, thread, future) = match track {
            Track::Thread(id) => {
                let (process, thread) = self.ids.thread(id);
                (process, thread, None)
            }
            Track::Future(FutureId { file, process, number }) => {
                let (process, _) = self.ids.process(file, process);
                (process, process, Some(number))
            }
        };
        let (thread, time) = (Some(thread), Some(time));
        Record {
            name: path,
            category: name::crate_name(path),
            process,
            thread,
            time,
            future,
            ..Record::default()
        }
    }

    fn begin(&mut self, begin: &Begin) -> io::Result<()> {
        let mut record = self.record(begin.track, begin.time, &begin.fields.definition().path);
        record.phase = if record.future.is_some() { "b" } else { "B" };
        record.name = slice_name(begin.track, begin.slice, record.name);
        record.args.fields = Some(&begin.fields);
        if begin.began_before {
            record.args.notes.push(("probe.began_before", Note::Flag(true)));
        }
        self.write(&record)
    }

    fn end(&mut self, end: &End) -> io::Result<()> {
        let mut record = self.record(end.track, end.time, &end.definition.path);
        let is_of_future = record.future.is_some();
        if is_of_future && end.ending == Ending::Cancelled && end.slice == Slice::Future {
            self.write(&Record { phase: "n", name: "cancelled", ..record.clone() })?;
        }
        record.phase = if is_of_future { "e" } else { "E" };
        record.name = slice_name(end.track, end.slice, record.name);
        record.args.fields = end.fields.as_ref();
        record.args.notes.extend(end.ending.cause().map(|cause| ("probe.ending", Note::Text(cause))));
        self.write(&record)
    }

    fn instant(&mut self, instant: &Instant) -> io::Result<()> {
        let path = &instant.fields.definition().path;
        let mut record = self.record(Track::Thread(instant.thread), instant.time, path);
        record.phase = "i";
        record.args.fields = Some(&instant.fields);
        if instant.lacks_entry {
            record.args.notes.push(("probe.lacks_entry", Note::Flag(true)));
        }
        self.write(&record)?;
        let Some(counter) = counter_value(instant) else { return Ok(()) };
        let args = Args { counter: Some(counter), ..Args::default() };
        self.write(&Record { phase: "C", thread: None, args, ..record })
    }

    fn gap(&mut self, gap: &Gap) -> io::Result<()> {
        let name = format!("{} events lost", gap.lost);
        let mut record = self.record(Track::Thread(gap.thread), gap.begin, &name);
        (record.phase, record.category) = ("i", "probe");
        let length = gap.end - gap.begin;
        record.args.notes = vec![("lost", Note::Number(gap.lost)), ("nanoseconds", Note::Number(length))];
        self.write(&record)
    }
}

impl<W: Write> Sink for Chrome<W> {
    fn step(&mut self, step: &Step) -> io::Result<()> {
        match step {
            Step::Thread(thread) => self.thread(thread),
            Step::Begin(begin) => self.begin(begin),
            Step::End(end) => self.end(end),
            Step::Instant(instant) => self.instant(instant),
            Step::Gap(gap) => self.gap(gap),
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
