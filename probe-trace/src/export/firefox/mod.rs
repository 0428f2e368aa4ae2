//! Firefox Profiler's processed profile, as JSON, by the crate `fxprof-processed-profile`.
//!
//! - Calls and polls are markers of their threads, from begin to end, with their fields. Each
//!   process has one track more, `futures`, with markers of futures and their waits.
//! - The time between two changes of a thread's open calls is a sample of these calls, whose weight
//!   is that time. So the call tree and the flame graph have the self times of folded stacks.
//!   Weights are nanoseconds; if one is longer than 2.1 s, they are tens of them, and so on. A
//!   thread counts as busy while a traced call is open.
//! - A point that is a counter has a graph.
//!
//! Memory: the profile. Its format is one of columns, so nothing can be written before the end.

mod markers;

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::io::{self, Write};
use std::time::Duration;

use fx::{CategoryColor, CategoryHandle, CpuDelta, Frame, FrameFlags, FrameInfo, MarkerTiming, Profile};
use fx::{ProcessHandle, ReferenceTimestamp, SamplingInterval, StackHandle, ThreadHandle, Timestamp};
use fxprof_processed_profile as fx;

use markers::{Markers, Value};

use super::counter::counter_value;
use super::name;
use super::sink::Sink;
use crate::calls::{Begin, End, Fields, FutureId, Instant, Slice, Step, Track};
use crate::item::{Gap, Thread, ThreadId};
use crate::layout::reading;

/// Crates that have a category of their own.
const MAX_CATEGORIES: usize = 64;
const COLORS: [CategoryColor; 6] = [
    CategoryColor::Blue,
    CategoryColor::Green,
    CategoryColor::Orange,
    CategoryColor::Purple,
    CategoryColor::Yellow,
    CategoryColor::Magenta,
];

pub(super) struct Firefox<W> {
    writer: W,
    profile: Profile,
    markers: Markers,
    categories: HashMap<String, CategoryHandle>,
    processes: HashMap<(usize, u64), Process>,
    threads: HashMap<ThreadId, ThreadRow>,
    /// Futures that have not ended, with their open slices.
    futures: HashMap<FutureId, Vec<OpenSlice>>,
    clocks: Option<[u64; reading::WORDS]>,
    /// The time of the first step; times count from there.
    first: Option<u64>,
    /// The longest time of a sample.
    longest_sample: u64,
}

struct Process {
    handle: ProcessHandle,
    id: u32,
    /// The row of its futures.
    futures: Option<ThreadHandle>,
}

/// A thread, and its open calls.
struct ThreadRow {
    thread: ThreadHandle,
    calls: Vec<(StackHandle, OpenSlice)>,
    /// The time of the last sample.
    last: Option<u64>,
    samples: Vec<Sample>,
}

/// The end of a time in which the thread's open calls stayed the same.
struct Sample {
    at: Timestamp,
    stack: Option<StackHandle>,
    nanoseconds: u64,
}

/// A slice that has begun.
struct OpenSlice {
    time: u64,
    fields: Vec<(String, Value)>,
}

impl<W: Write> Firefox<W> {
    pub(super) fn new(writer: W, clocks: Option<[u64; reading::WORDS]>) -> Self {
        let start = ReferenceTimestamp::from_millis_since_unix_epoch(0.0);
        let mut profile = Profile::new("", start, SamplingInterval::from_nanos(1));
        // Names are known; nobody needs to look for symbols.
        profile.set_symbolicated(true);
        Self {
            writer,
            profile,
            markers: Markers::default(),
            categories: HashMap::new(),
            processes: HashMap::new(),
            threads: HashMap::new(),
            futures: HashMap::new(),
            clocks,
            first: None,
            longest_sample: 0,
        }
    }

    /// Returns a time as the profile has it.
    fn timestamp(&mut self, time: u64) -> Timestamp {
        let first = *self.first.get_or_insert_with(|| {
            if let Some(clocks) = self.clocks {
                let real = clocks[reading::REAL].saturating_add(time);
                let start = Duration::from_nanos(real.saturating_sub(clocks[reading::MONOTONIC]));
                let start = ReferenceTimestamp::from_duration_since_unix_epoch(start);
                self.profile.set_reference_timestamp(start);
            }
            time
        });
        Timestamp::from_nanos_since_reference(time.saturating_sub(first))
    }

    fn process(&mut self, file: usize, process: u64) -> &mut Process {
        let Self { profile, processes, .. } = self;
        processes.entry((file, process)).or_insert_with(|| {
            let id = u32::try_from(process).unwrap_or(u32::MAX);
            let handle = profile.add_process("", id, Timestamp::from_nanos_since_reference(0));
            Process { handle, id, futures: None }
        })
    }

    fn thread(&mut self, id: ThreadId) -> ThreadHandle {
        if let Some(open) = self.threads.get(&id) {
            return open.thread;
        }
        let process = self.process(id.file, id.process).handle;
        let tid = u32::try_from(id.tid).unwrap_or(u32::MAX);
        let start = Timestamp::from_nanos_since_reference(0);
        let thread = self.profile.add_thread(process, tid, start, id.tid == id.process);
        self.threads.insert(id, ThreadRow { thread, calls: Vec::new(), last: None, samples: Vec::new() });
        thread
    }

    /// Returns where the futures of a process are shown.
    fn futures_row(&mut self, future: FutureId) -> ThreadHandle {
        let Process { handle, id, futures } = *self.process(future.file, future.process);
        futures.unwrap_or_else(|| {
            let start = Timestamp::from_nanos_since_reference(0);
            let thread = self.profile.add_thread(handle, id, start, false);
            self.profile.set_thread_name(thread, "futures");
            self.process(future.file, future.process).futures = Some(thread);
            thread
        })
    }

    fn describe(&mut self, thread: &Thread) {
        let handle = self.thread(thread.id);
        if !thread.name.is_empty() {
            self.profile.set_thread_name(handle, &thread.name);
        }
        if !thread.program.is_empty() {
            let process = self.process(thread.id.file, thread.id.process).handle;
            self.profile.set_process_name(process, &thread.program);
            self.profile.set_product(&thread.program);
        }
    }

    /// Returns the category of a path: its crate.
    fn category(&mut self, path: &str) -> CategoryHandle {
        let krate = name::crate_name(path);
        if let Some(known) = self.categories.get(krate) {
            return *known;
        }
        let number = self.categories.len();
        if number == MAX_CATEGORIES {
            return CategoryHandle::OTHER;
        }
        let category = self.profile.add_category(krate, COLORS[number % COLORS.len()]);
        self.categories.insert(krate.to_owned(), category);
        category
    }

    /// Adds a sample of a thread's open calls, up to this time.
    fn sample(&mut self, id: ThreadId, until: u64) {
        self.thread(id);
        let at = self.timestamp(until);
        let Some(open) = self.threads.get_mut(&id) else { return };
        let nanoseconds = until.saturating_sub(open.last.replace(until).unwrap_or(until));
        if nanoseconds != 0 {
            let stack = open.calls.last().map(|(stack, _)| *stack);
            open.samples.push(Sample { at, stack, nanoseconds });
            self.longest_sample = self.longest_sample.max(if stack.is_some() { nanoseconds } else { 0 });
        }
    }

    /// Puts the samples into the profile.
    fn add_samples(&mut self) {
        let Self { profile, threads, longest_sample, .. } = self;
        // Weights are integers of 31 bits.
        let mut unit = 1;
        while *longest_sample / unit > u64::from(i32::MAX.unsigned_abs()) {
            unit *= 10;
        }
        profile.set_interval(SamplingInterval::from_nanos(unit));
        for open in threads.values_mut() {
            // The next sample tells the remainder of one.
            let (mut weight, mut busy) = (0_u64, 0_u64);
            for Sample { at, stack, nanoseconds } in open.samples.drain(..) {
                let own = if stack.is_some() { nanoseconds } else { 0 };
                (weight, busy) = ((weight % unit).saturating_add(own), (busy % 1000).saturating_add(own));
                let whole = i32::try_from(weight / unit).unwrap_or(i32::MAX);
                profile.add_sample(open.thread, at, stack, CpuDelta::from_nanos(busy), whole);
            }
        }
    }

    fn begin(&mut self, begin: &Begin) {
        // Times may count from here.
        self.timestamp(begin.time);
        let mut fields = values(&begin.fields);
        if begin.began_before {
            fields.push(("probe.began_before".to_owned(), Value::Text("true".to_owned())));
        }
        let slice = OpenSlice { time: begin.time, fields };
        match begin.track {
            Track::Thread(id) => {
                self.sample(id, begin.time);
                let thread = self.thread(id);
                let path = &begin.fields.definition().path;
                let label = Frame::Label(self.profile.intern_string(path));
                let category_pair = self.category(path).into();
                let frame = FrameInfo { frame: label, category_pair, flags: FrameFlags::empty() };
                let frame = self.profile.intern_frame(thread, frame);
                let Some(open) = self.threads.get_mut(&id) else { return };
                let parent = open.calls.last().map(|(stack, _)| *stack);
                let stack = self.profile.intern_stack(thread, parent, frame);
                open.calls.push((stack, slice));
            }
            Track::Future(id) => self.futures.entry(id).or_default().push(slice),
        }
    }

    fn end(&mut self, end: &End) {
        let path = &end.definition.path;
        let (thread, slice) = match end.track {
            Track::Thread(id) => {
                self.sample(id, end.time);
                let open = self.threads.get_mut(&id);
                let call = open.and_then(|open| open.calls.pop());
                (self.thread(id), call.map(|(_, slice)| slice))
            }
            Track::Future(id) => {
                let slice = self.futures.get_mut(&id).and_then(Vec::pop);
                if end.slice == Slice::Future {
                    self.futures.remove(&id);
                }
                // The thread has the poll.
                let slice = slice.filter(|_| end.slice != Slice::Poll);
                (self.futures_row(id), slice)
            }
        };
        let Some(OpenSlice { time, mut fields }) = slice else { return };
        fields.extend(end.fields.iter().flat_map(values));
        if let Some(cause) = end.ending.cause() {
            fields.push(("probe.ending".to_owned(), Value::Text(cause.to_owned())));
        }
        let waits = format!("{path} waits");
        let name = if end.slice == Slice::Wait { &waits } else { path };
        let timing = MarkerTiming::Interval(self.timestamp(time), self.timestamp(end.time));
        self.add_marker(thread, path, name, timing, fields);
    }

    fn instant(&mut self, instant: &Instant) {
        let thread = self.thread(instant.thread);
        let mut fields = values(&instant.fields);
        if let Some((name, value)) = counter_value(instant) {
            let number = fields.iter_mut().find(|(field, _)| field == name);
            number.into_iter().for_each(|(_, shown)| *shown = Value::counted(value));
        }
        if instant.lacks_entry {
            fields.push(("probe.lacks_entry".to_owned(), Value::Text("true".to_owned())));
        }
        let timing = MarkerTiming::Instant(self.timestamp(instant.time));
        let path = &instant.fields.definition().path;
        self.add_marker(thread, path, path, timing, fields);
    }

    fn gap(&mut self, gap: &Gap) {
        let thread = self.thread(gap.thread);
        let timing = MarkerTiming::Interval(self.timestamp(gap.begin), self.timestamp(gap.end));
        let fields = vec![("lost".to_owned(), Value::Text(gap.lost.to_string()))];
        self.add_marker(thread, "probe", "lost events", timing, fields);
    }

    /// Adds a marker in the category of this path.
    fn add_marker(
        &mut self,
        thread: ThreadHandle,
        path: &str,
        name: &str,
        timing: MarkerTiming,
        fields: Vec<(String, Value)>,
    ) {
        let category = self.category(path);
        let marker = self.markers.marker(&mut self.profile, name, category, fields);
        self.profile.add_marker(thread, timing, marker);
    }
}

impl<W: Write> Sink for Firefox<W> {
    fn step(&mut self, step: &Step) -> io::Result<()> {
        match step {
            Step::Thread(thread) => self.describe(thread),
            Step::Begin(begin) => self.begin(begin),
            Step::End(end) => self.end(end),
            Step::Instant(instant) => self.instant(instant),
            Step::Gap(gap) => self.gap(gap),
        }
        Ok(())
    }

    fn finish(&mut self) -> io::Result<()> {
        self.add_samples();
        serde_json::to_writer(&mut self.writer, &self.profile)?;
        self.writer.write_all(b"\n")
    }
}

fn values(fields: &Fields) -> Vec<(String, Value)> {
    fields.iter().map(|(name, value)| (name.to_owned(), Value::Text(value.to_string()))).collect()
}
