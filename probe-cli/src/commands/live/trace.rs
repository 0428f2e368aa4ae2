//! `trace`: the hits of a running program, a line each, as they come.
//!
//! The program writes a trace to a file in this process's memory, and flushes it when it is asked
//! for a report. Blocks that were read are cut out of the file. If the program hits faster than
//! lines are made or read, its probes are off until the rest has been read; a line says for how
//! long. The file has a limit, for the time when this process is stopped and reads nothing.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Sender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use probe_protocol::{Attach, Client, Liveness};
use probe_report::Time;
use probe_trace::calls::{Ending, Pairing, Slice, Step, Track};
use probe_trace::{FieldValue, Followed, Gap, Item, ThreadId, TraceEvent};
use rustix::fs::{FallocateFlags, MemfdFlags, fallocate, memfd_create};
use serde::Serialize;
use serde_json::{Map, Value};

use super::measure::connect_or_start;
use crate::args::Trace;
use crate::live::{Schedule, Stop, WatchEnd, attachment_notes, unless_ended, watch};
use crate::output::{Failure, Output, map_pipe_error, object};
use crate::text::{count, escape, escape_json};

/// The time between two flushes.
const FLUSH_INTERVAL: Duration = Duration::from_millis(50);
/// The time for the program to write its hits.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(60);
/// Bytes of the trace, or of lines, that may wait before the probes are paused.
const MAX_BACKLOG: u64 = 8 << 20;
/// Most bytes of the trace that are not read yet. Later hits are lost, and counted.
const TRACE_LIMIT: &str = "64M";
/// The first bytes of the file, which the program updates.
const FILE_HEADER_LEN: u64 = 4096;

pub(super) fn run(args: &Trace, is_json: bool) -> Result<Output, Failure> {
    let stop = Stop::on_signals()?;
    let mut program = connect_or_start(&args.target, &stop)?;
    let file = MemoryFile::new().map_err(|it| Failure::Input(format!("no memory for a trace: {it}")))?;
    program.client.set_timeout(FLUSH_TIMEOUT);
    let spec = format!("{}=trace(limit={TRACE_LIMIT})", args.selector);
    let attach = Attach { output: Some(format!("hits.{}", probe_trace::Trace::ENDING)), ..Attach::new(spec) };
    let attached = program.client.record(&attach, &file.0).map_err(|error| program.failure(error))?;
    let mut notes = attachment_notes(&attached);
    let mut shown = TraceReader::begin(file, is_json)?;
    let schedule = Schedule::new(Some(FLUSH_INTERVAL), false);
    let watched = watch(&mut program.client, &stop, args.time, schedule, |client, _| {
        shown.read_new(client, attached.id, &stop)
    })?;
    let mut missing = None;
    if watched == WatchEnd::Stopped {
        let client = &mut program.client;
        missing = unless_ended(client.pause(attached.id).and_then(|_| client.detach(attached.id)))?;
    }
    notes
        .extend(missing.unwrap_or_else(|| {
            vec![format!("{}; hits shortly before may be missing", program.end_reason())]
        }));
    notes.extend(shown.finish()?);
    if !stop.is_set() {
        notes.extend(program.finish(watched));
    }
    Ok(Output::notes(notes))
}

/// A file in memory.
struct MemoryFile(File);

impl MemoryFile {
    fn new() -> io::Result<Self> {
        let file: OwnedFd = memfd_create("probectl-trace", MemfdFlags::CLOEXEC)?;
        Ok(Self(file.into()))
    }

    /// Frees the memory of the bytes before this one.
    fn free(&self, until: u64) {
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        if let Some(length) = until.checked_sub(FILE_HEADER_LEN).filter(|it| *it != 0) {
            // If that fails, the file only stays larger.
            let _ = fallocate(&self.0, flags, FILE_HEADER_LEN, length);
        }
    }
}

/// The trace that is read, and the lines that are written.
struct TraceReader {
    file: MemoryFile,
    followed: Followed,
    lines: Lines,
    output: LineWriter,
    off: Duration,
}

impl TraceReader {
    fn begin(file: MemoryFile, is_json: bool) -> Result<Self, Failure> {
        // Opened once more, for a position of its own.
        let reader = File::open(format!("/proc/self/fd/{}", file.0.as_raw_fd())).map_err(Failure::input)?;
        let followed = Followed::begin("the program's trace", reader).map_err(Failure::input)?;
        let (lines, output) = (Lines { is_json, ..Lines::default() }, LineWriter::start());
        Ok(Self { file, followed, lines, output, off: Duration::ZERO })
    }

    /// Writes lines of the new hits. Pauses the probes if there are too many.
    fn read_new(&mut self, client: &mut Client, attachment: u32, stop: &Stop) -> Result<(), Failure> {
        // The program flushes its trace before a report.
        if unless_ended(client.view(attachment, 0))?.is_none() {
            return Ok(());
        }
        let length = self.file.0.metadata().map_or(0, |metadata| metadata.len());
        let backlog = length.saturating_sub(self.followed.position()).max(self.output.waiting());
        if backlog <= MAX_BACKLOG {
            return self.write_lines();
        }
        if unless_ended(client.pause(attachment))?.is_none() {
            return Ok(());
        }
        let since = Instant::now();
        self.write_lines()?;
        while self.output.waiting() > MAX_BACKLOG / 8 && !stop.is_set() {
            if client.wait_for_end(Duration::from_millis(10))? != Liveness::Running {
                return Ok(());
            }
        }
        self.output.check()?;
        if stop.is_set() {
            return Ok(());
        }
        // The trace gets a reading of its clock, which tells the times before and after apart.
        unless_ended(client.view(attachment, 0))?;
        self.write_lines()?;
        unless_ended(client.resume(attachment))?;
        let off = since.elapsed();
        self.off += off;
        let mut text = String::new();
        self.lines.off(off.as_nanos().try_into().unwrap_or(u64::MAX), &mut text);
        self.output.write(text)
    }

    fn write_lines(&mut self) -> Result<(), Failure> {
        let (mut text, ahead) = (String::new(), self.followed.wall_time(0));
        let lines = &mut self.lines;
        let take = |item| lines.add(item, |time| time.saturating_add(ahead), &mut text);
        let read = self.followed.advance(take).map_err(Failure::input);
        self.file.free(self.followed.position());
        self.output.write(text)?;
        read
    }

    /// Shows the rest, and returns notes on missing parts.
    fn finish(mut self) -> Result<Vec<String>, Failure> {
        self.write_lines()?;
        let (mut text, ahead) = (String::new(), self.followed.wall_time(0));
        let (lines, mut notes) = (&mut self.lines, Vec::new());
        let take = |item| lines.add(item, |time| time.saturating_add(ahead), &mut text);
        if let Err(error) = self.followed.finish(take) {
            notes.push(error.to_string());
        }
        self.output.write(text)?;
        self.output.finish()?;
        let lost = self.lines.lost.saturating_add(self.followed.unseen());
        notes.push(format!("{}, and {lost} lost", count(self.lines.hits, "hit")));
        let undefined = self.followed.undefined();
        if undefined != 0 {
            notes.push(format!("{} of probes without a definition were left out", count(undefined, "hit")));
        }
        if !self.off.is_zero() {
            let seconds = self.off.as_secs_f64();
            notes.push(format!("the probes were off for {seconds:.1} s in all: choose fewer ones"));
        }
        Ok(notes)
    }
}

/// A thread that writes lines to stdout, so that a slow reader does not keep the program's trace
/// from being read.
struct LineWriter {
    sender: Sender<String>,
    waiting: Arc<AtomicU64>,
    /// `None` once it has ended.
    thread: Option<JoinHandle<io::Result<()>>>,
}

impl LineWriter {
    fn start() -> Self {
        let (sender, receiver) = mpsc::channel::<String>();
        let waiting = Arc::new(AtomicU64::new(0));
        let left = Arc::clone(&waiting);
        let thread = thread::spawn(move || {
            for text in receiver {
                let mut out = io::stdout().lock();
                out.write_all(text.as_bytes())?;
                out.flush()?;
                left.fetch_sub(text.len() as u64, Ordering::Relaxed);
            }
            Ok(())
        });
        Self { sender, waiting, thread: Some(thread) }
    }

    /// Returns the bytes that are not written yet.
    fn waiting(&self) -> u64 {
        if self.has_ended() { 0 } else { self.waiting.load(Ordering::Relaxed) }
    }

    fn has_ended(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    fn write(&mut self, text: String) -> Result<(), Failure> {
        self.check()?;
        self.waiting.fetch_add(text.len() as u64, Ordering::Relaxed);
        // If the thread ends now, the next call says why.
        let _ = self.sender.send(text);
        Ok(())
    }

    /// Fails if nobody reads stdout any further.
    fn check(&mut self) -> Result<(), Failure> {
        if !self.has_ended() {
            return Ok(());
        }
        self.join()?;
        Err(Failure::Closed)
    }

    /// Waits until all is written.
    fn finish(mut self) -> Result<(), Failure> {
        self.sender = mpsc::channel().0;
        self.join()
    }

    fn join(&mut self) -> Result<(), Failure> {
        let ended = self.thread.take().map_or(Ok(Ok(())), JoinHandle::join);
        map_pipe_error(ended.unwrap_or_else(|_| Err(io::Error::other("the thread that writes has panicked"))))
    }
}

/// Makes lines of items, one after the other.
#[derive(Default)]
struct Lines {
    is_json: bool,
    pairing: Pairing,
    /// The slices that are open, with their beginnings if the trace has them.
    open: HashMap<Track, Vec<(Slice, Option<u64>)>>,
    names: HashMap<ThreadId, String>,
    /// The time of the first line, from which text counts.
    first: Option<u64>,
    /// Hits that have a line.
    hits: u64,
    /// Hits that were lost instead.
    lost: u64,
}

#[derive(Serialize)]
struct HitRow<'a> {
    time_ns: u64,
    pid: u64,
    tid: u64,
    thread: &'a str,
    kind: &'a str,
    probe: &'a str,
    depth: usize,
    fields: Map<String, Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    duration_ns: Option<u64>,
}

impl Lines {
    /// Adds an item's line. `wall` turns times into nanoseconds since 1970.
    fn add(&mut self, item: Item, wall: impl Fn(u64) -> u64, out: &mut String) {
        match item {
            Item::Thread(thread) => {
                self.names.insert(thread.id, thread.name.clone());
                self.pairing.take(Item::Thread(thread));
                self.settle();
            }
            Item::Event(event) => self.hit(event, wall, out),
            Item::Gap(gap) => {
                self.gap(&gap, wall, out);
                self.pairing.take(Item::Gap(gap));
                self.settle();
            }
            // Items of later versions.
            _ => (),
        }
    }

    /// Adds a line about a time in which the probes were latent.
    fn off(&mut self, nanoseconds: u64, out: &mut String) {
        if self.is_json {
            push(out, &object! { off_ns: nanoseconds });
        } else {
            let time = Time(nanoseconds);
            // Writing to a string never fails.
            let _ = writeln!(out, "-- the probes were off for {time}, since lines are read more slowly");
        }
    }

    fn hit(&mut self, event: TraceEvent, wall: impl Fn(u64) -> u64, out: &mut String) {
        self.hits += 1;
        let (thread, time, definition) = (event.thread, event.time, event.definition.clone());
        let kind = definition.kind.map_or("unknown", |kind| kind.name());
        // The first field of a future's probe tells its calls apart.
        let hidden = usize::from(definition.is_future);
        let named = definition.fields.iter().zip(&event.fields).skip(hidden);
        let text = if self.is_json { String::new() } else { fields(named.clone()) };
        let values = self.is_json.then(|| named.map(|(name, it)| (name.clone(), value(it))).collect());
        let before = self.depth(thread);
        self.pairing.take(Item::Event(event));
        let duration = self.settle();
        // A beginning and its end stand at the same depth.
        let depth = before.min(self.depth(thread));
        let name = self.names.get(&thread).map_or("", String::as_str);
        if let Some(fields) = values {
            let row = HitRow {
                time_ns: wall(time),
                pid: thread.process,
                tid: thread.tid,
                thread: name,
                kind,
                probe: &definition.path,
                depth,
                fields,
                duration_ns: duration,
            };
            return push(out, &row);
        }
        let lead = lead(time, &mut self.first, thread, name);
        let indent = 2 * depth.min(20);
        let took = duration.map_or(String::new(), |it| format!("  {}", Time(it)));
        let path = escape(&definition.path);
        let _ = writeln!(out, "{lead} {kind:<7} {:indent$}{path}{text}{took}", "");
    }

    fn gap(&mut self, gap: &Gap, wall: impl Fn(u64) -> u64, out: &mut String) {
        self.lost += gap.lost;
        let name = self.names.get(&gap.thread).map_or("", String::as_str);
        if self.is_json {
            let row = object! {
                time_ns: wall(gap.begin),
                until_ns: wall(gap.end),
                pid: gap.thread.process,
                tid: gap.thread.tid,
                thread: name,
                lost: gap.lost,
            };
            return push(out, &row);
        }
        let lead = lead(gap.begin, &mut self.first, gap.thread, name);
        let length = Time(gap.end.saturating_sub(gap.begin));
        let _ = writeln!(out, "{lead} -- {} lost in {length}", count(gap.lost, "hit"));
    }

    fn depth(&self, thread: ThreadId) -> usize {
        self.open.get(&Track::Thread(thread)).map_or(0, Vec::len)
    }

    /// Takes the steps of the last item. Returns the time of the call that it has ended; of a
    /// future that only waits, the time of the poll.
    fn settle(&mut self) -> Option<u64> {
        let (mut call, mut poll) = (None, None);
        while let Some(step) = self.pairing.step() {
            match step {
                Step::Begin(begin) => {
                    let since = (!begin.began_before).then_some(begin.time);
                    self.open.entry(begin.track).or_default().push((begin.slice, since));
                }
                Step::End(end) => {
                    let Some(open) = self.open.get_mut(&end.track) else { continue };
                    let since = open.pop().and_then(|(_, since)| since);
                    if open.is_empty() {
                        self.open.remove(&end.track);
                    }
                    let took = since.map(|since| end.time.saturating_sub(since));
                    match (end.ending, end.slice) {
                        (Ending::Exit | Ending::Cancelled, Slice::Call | Slice::Future) => call = took,
                        (Ending::Exit, Slice::Poll) => poll = took,
                        _ => (),
                    }
                }
                _ => (),
            }
        }
        call.or(poll)
    }
}

/// Returns the beginning of a line: seconds since the first one, and the thread.
fn lead(time: u64, first: &mut Option<u64>, thread: ThreadId, name: &str) -> String {
    let time = time.saturating_sub(*first.get_or_insert(time));
    let (seconds, micros) = (time / 1_000_000_000, time % 1_000_000_000 / 1000);
    format!("{seconds:>5}.{micros:06} {:>7} {:<15}", thread.tid, escape(name))
}

fn push(out: &mut String, row: &impl Serialize) {
    // Rows have text as keys, and numbers that JSON has.
    out.push_str(&escape_json(&serde_json::to_string(row).unwrap_or_default()));
    out.push('\n');
}

fn fields<'a>(named: impl Iterator<Item = (&'a String, &'a FieldValue)>) -> String {
    let mut text = String::new();
    for (name, value) in named {
        let _ = write!(text, "  {}=", escape(name));
        let _ = match value {
            FieldValue::Str { text: value, cut: 0 } | FieldValue::Formatted { text: value, cut: 0 } => {
                write!(text, "{value:?}")
            }
            other => write!(text, "{}", escape(&other.to_string())),
        };
    }
    // Debug output keeps marks of direction.
    escape(&text).into_owned()
}

fn value(value: &FieldValue) -> Value {
    match value {
        FieldValue::U64(number) => (*number).into(),
        FieldValue::I64(number) => (*number).into(),
        FieldValue::Bool(is_so) => (*is_so).into(),
        // Infinite ones, and those that are no numbers, are text, as long integers are.
        FieldValue::F64(number) if number.is_finite() => (*number).into(),
        FieldValue::Absent
        | FieldValue::Failed
        | FieldValue::Unknown
        | FieldValue::LeftOut
        | FieldValue::Unreadable => Value::Null,
        other => other.to_string().into(),
    }
}
