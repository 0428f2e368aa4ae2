//! Firefox Profiler's processed profile, as JSON, by the crate `fxprof-processed-profile`.
//!
//! - Calls and polls are markers of their threads, from begin to end, with their fields. Each
//!   process has one track more, `futures`, with markers of futures and their waits.
//! - The time between two changes of a thread's open calls is a sample of these calls, whose weight
//!   is that time. So the call tree and the flame graph have the self times of folded stacks.
//!   Weights are nanoseconds; if one is longer than 2.1 s, they are tens of them, and so on. A
//!   thread counts as busy while a traced call is open.
//! - A time off the processor is a marker of its thread, too.
//! - The stack of a hit is the cause of its marker, and an outermost call is inside of its stack.
//! - A point that is a counter has a graph. Other values are text, as in tables, since the
//!   profiler's numbers lack digits.
//!
//! Memory: the profile. Its format is one of columns, so nothing can be written before the end.

use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;
use std::io::{self, Write};
use std::sync::Arc;
use std::time::Duration;

use fx::{
    CategoryColor, CategoryHandle, CpuDelta, Frame, FrameFlags, FrameInfo, Marker, MarkerFieldFlags,
    MarkerFieldFormat, MarkerGraphType, MarkerLocations, MarkerTiming, MarkerTypeHandle, ProcessHandle,
    Profile, ReferenceTimestamp, RuntimeSchemaMarkerField, RuntimeSchemaMarkerGraph,
    RuntimeSchemaMarkerSchema, SamplingInterval, StackHandle, StringHandle, ThreadHandle, Timestamp,
};
use fxprof_processed_profile as fx;

use super::labels::{Note, OFF_LOST, crate_name};
use super::sink::Sink;
use crate::calls::{Begin, End, Fields, FutureId, Instant, OffProcessor, Slice, Track};
use crate::item::{FieldValue, Gap, Thread, ThreadId};
use crate::layout::reading;

/// The most crates that have a category of their own.
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
    /// The types of markers, by their fields: each with its name, and whether it is a number.
    marker_types: HashMap<Vec<(String, bool)>, MarkerTypeHandle>,
    categories: HashMap<String, CategoryHandle>,
    processes: HashMap<(usize, u64), Process>,
    threads: HashMap<ThreadId, ThreadRow>,
    /// Futures that have not ended, with their open slices.
    futures: HashMap<FutureId, Vec<OpenSlice>>,
    clocks: Option<[u64; reading::WORDS]>,
    /// The time of the first step; times count from there.
    first: Option<u64>,
    /// The nanoseconds of the longest sample.
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
    fields: Vec<(String, FieldValue)>,
}

/// The arguments of a slice or an instant: the fields of its hits, and a note of pairing.
fn arguments<'a>(
    fields: impl IntoIterator<Item = &'a Fields>,
    notes: impl IntoIterator<Item = Note>,
) -> impl Iterator<Item = (String, FieldValue)> {
    let fields =
        fields.into_iter().flat_map(Fields::iter).map(|(name, value)| (name.to_owned(), value.clone()));
    fields.chain(notes.into_iter().map(|(name, value)| (name.to_owned(), value)))
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
            marker_types: HashMap::new(),
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

    fn row(&mut self, id: ThreadId) -> &mut ThreadRow {
        let process = self.process(id.file, id.process).handle;
        let Self { profile, threads, .. } = self;
        threads.entry(id).or_insert_with(|| {
            let tid = u32::try_from(id.tid).unwrap_or(u32::MAX);
            let start = Timestamp::from_nanos_since_reference(0);
            let thread = profile.add_thread(process, tid, start, id.tid == id.process);
            ThreadRow { thread, calls: Vec::new(), last: None, samples: Vec::new() }
        })
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

    /// Returns the category of a path: its crate.
    fn category(&mut self, path: &str) -> CategoryHandle {
        let name = crate_name(path);
        if let Some(known) = self.categories.get(name) {
            return *known;
        }
        let number = self.categories.len();
        if number == MAX_CATEGORIES {
            return CategoryHandle::OTHER;
        }
        let category = self.profile.add_category(name, COLORS[number % COLORS.len()]);
        self.categories.insert(name.to_owned(), category);
        category
    }

    /// Adds a sample of a thread's open calls, up to this time.
    fn sample(&mut self, id: ThreadId, until: u64) {
        let at = self.timestamp(until);
        let row = self.row(id);
        let nanoseconds = until.saturating_sub(row.last.replace(until).unwrap_or(until));
        if nanoseconds != 0 {
            let stack = row.calls.last().map(|(stack, _)| *stack);
            row.samples.push(Sample { at, stack, nanoseconds });
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
        for row in threads.values_mut() {
            // The next sample has the remainder of this one.
            let (mut weight, mut busy) = (0_u64, 0_u64);
            for Sample { at, stack, nanoseconds } in row.samples.drain(..) {
                let own = if stack.is_some() { nanoseconds } else { 0 };
                (weight, busy) = ((weight % unit).saturating_add(own), (busy % 1000).saturating_add(own));
                let whole = i32::try_from(weight / unit).unwrap_or(i32::MAX);
                profile.add_sample(row.thread, at, stack, CpuDelta::from_nanos(busy), whole);
            }
        }
    }

    /// Returns a stack, whose calls come from the innermost; `None` if it has none.
    fn stack(&mut self, thread: ThreadHandle, calls: &[Arc<str>]) -> Option<StackHandle> {
        calls.iter().rev().fold(None, |parent, name| Some(self.call(thread, parent, name)))
    }

    /// Returns the stack of a call inside of another stack.
    fn call(&mut self, thread: ThreadHandle, parent: Option<StackHandle>, path: &str) -> StackHandle {
        let frame = Frame::Label(self.profile.intern_string(path));
        let category_pair = self.category(path).into();
        let frame = FrameInfo { frame, category_pair, flags: FrameFlags::empty() };
        let frame = self.profile.intern_frame(thread, frame);
        self.profile.intern_stack(thread, parent, frame)
    }

    /// Adds a marker in the category of this path. The value of the field `counter` is a number,
    /// of which the profiler makes a graph.
    fn add_marker(
        &mut self,
        thread: ThreadHandle,
        [path, name]: [&str; 2],
        timing: MarkerTiming,
        fields: impl IntoIterator<Item = (String, FieldValue)>,
        counter: Option<&str>,
    ) {
        let category = self.category(path);
        let (mut list, mut cells, mut cause) = (Vec::new(), Vec::new(), None);
        for (field, value) in fields {
            let profile = &mut self.profile;
            let cell = match value {
                FieldValue::Stack(names) => {
                    cause = self.stack(thread, &names);
                    continue;
                }
                FieldValue::U64(value) if counter == Some(&*field) => Cell::Number(value as f64),
                FieldValue::I64(value) if counter == Some(&*field) => Cell::Number(value as f64),
                FieldValue::F64(value) if counter == Some(&*field) && value.is_finite() => {
                    Cell::Number(value)
                }
                value => Cell::Text(profile.intern_string(&value.to_string())),
            };
            list.push((field, matches!(cell, Cell::Number(_))));
            cells.push(cell);
        }
        let (profile, number) = (&mut self.profile, self.marker_types.len());
        let ty = *self.marker_types.entry(list).or_insert_with_key(|list| {
            // Its name is seen in JSON alone.
            profile.register_marker_type(schema(format!("probe-{number}"), list))
        });
        let name = profile.intern_string(name);
        let marker = profile.add_marker(thread, timing, ProbeMarker { ty, name, category, cells });
        profile.set_marker_stack(thread, marker, cause);
    }
}

impl<W: Write> Sink for Firefox<W> {
    fn thread(&mut self, thread: &Thread) -> io::Result<()> {
        let handle = self.row(thread.id).thread;
        if !thread.name.is_empty() {
            self.profile.set_thread_name(handle, &thread.name);
        }
        if !thread.program.is_empty() {
            let process = self.process(thread.id.file, thread.id.process).handle;
            self.profile.set_process_name(process, &thread.program);
            self.profile.set_product(&thread.program);
        }
        Ok(())
    }

    fn begin(&mut self, begin: &Begin) -> io::Result<()> {
        // Times may count from here.
        self.timestamp(begin.time);
        let slice =
            OpenSlice { time: begin.time, fields: arguments([&begin.fields], begin.note()).collect() };
        match begin.track {
            Track::Thread(id) => {
                self.sample(id, begin.time);
                let path = &begin.fields.definition().path;
                let row = self.row(id);
                let (thread, around) = (row.thread, row.calls.last().map(|(stack, _)| *stack));
                let parent = around.or_else(|| self.stack(thread, begin.fields.stack()));
                let stack = self.call(thread, parent, path);
                self.row(id).calls.push((stack, slice));
            }
            Track::Future(id) => self.futures.entry(id).or_default().push(slice),
        }
        Ok(())
    }

    fn end(&mut self, end: &End) -> io::Result<()> {
        let (thread, slice) = match end.track {
            Track::Thread(id) => {
                self.sample(id, end.time);
                let row = self.row(id);
                (row.thread, row.calls.pop().map(|(_, slice)| slice))
            }
            Track::Future(id) => {
                let slice = self.futures.get_mut(&id).and_then(Vec::pop);
                if end.slice == Slice::Future {
                    self.futures.remove(&id);
                }
                // The thread has the poll.
                (self.futures_row(id), slice.filter(|_| end.slice != Slice::Poll))
            }
        };
        let Some(OpenSlice { time, mut fields }) = slice else { return Ok(()) };
        fields.extend(arguments(&end.fields, end.note()));
        let path = &end.definition.path;
        let name = if end.slice == Slice::Wait { &format!("{path} waits") } else { path };
        let timing = MarkerTiming::Interval(self.timestamp(time), self.timestamp(end.time));
        self.add_marker(thread, [path, name], timing, fields, None);
        Ok(())
    }

    fn instant(&mut self, instant: &Instant) -> io::Result<()> {
        let thread = self.row(instant.thread).thread;
        let fields = arguments([&instant.fields], instant.note());
        let counter = instant.counter().map(|(field, _)| field);
        let timing = MarkerTiming::Instant(self.timestamp(instant.time));
        let path = &instant.fields.definition().path;
        self.add_marker(thread, [path, path], timing, fields, counter);
        Ok(())
    }

    fn gap(&mut self, gap: &Gap) -> io::Result<()> {
        let thread = self.row(gap.thread).thread;
        let timing = MarkerTiming::Interval(self.timestamp(gap.begin), self.timestamp(gap.end));
        // The interval has the nanoseconds.
        let [lost, _] = gap.notes();
        self.add_marker(thread, ["probe", "lost events"], timing, arguments([], Some(lost)), None);
        Ok(())
    }

    fn off(&mut self, off: &OffProcessor) -> io::Result<()> {
        let thread = self.row(off.off.thread).thread;
        let timing = MarkerTiming::Interval(self.timestamp(off.off.begin), self.timestamp(off.until));
        self.add_marker(thread, ["probe", off.state()], timing, arguments([], off.notes()), None);
        Ok(())
    }

    fn off_lost(&mut self, thread: ThreadId, time: u64) -> io::Result<()> {
        let thread = self.row(thread).thread;
        let timing = MarkerTiming::Instant(self.timestamp(time));
        self.add_marker(thread, ["probe", OFF_LOST], timing, arguments([], None), None);
        Ok(())
    }

    fn finish(&mut self) -> io::Result<()> {
        self.add_samples();
        serde_json::to_writer(&mut self.writer, &self.profile)?;
        self.writer.write_all(b"\n")
    }
}

/// A marker, in the words of its profile.
struct ProbeMarker {
    ty: MarkerTypeHandle,
    name: StringHandle,
    category: CategoryHandle,
    cells: Vec<Cell>,
}

/// A field's value.
enum Cell {
    Text(StringHandle),
    Number(f64),
}

impl Marker for ProbeMarker {
    fn marker_type(&self, _: &mut Profile) -> MarkerTypeHandle {
        self.ty
    }

    fn name(&self, _: &mut Profile) -> StringHandle {
        self.name
    }

    fn category(&self, _: &mut Profile) -> CategoryHandle {
        self.category
    }

    fn string_field_value(&self, field: u32) -> StringHandle {
        match self.cells[field as usize] {
            Cell::Text(text) => text,
            Cell::Number(_) => unreachable!("its type says which it is"),
        }
    }

    fn number_field_value(&self, field: u32) -> f64 {
        match self.cells[field as usize] {
            Cell::Text(_) => unreachable!("its type says which it is"),
            Cell::Number(number) => number,
        }
    }
}

/// Returns the type of markers with these fields: each with its name, and whether it is a number.
fn schema(type_name: String, list: &[(String, bool)]) -> RuntimeSchemaMarkerSchema {
    let (mut fields, mut label) = (Vec::with_capacity(list.len()), String::new());
    // These are the format's own.
    let mut used = HashSet::from(["type".to_owned(), "cause".to_owned()]);
    for (number, (name, is_number)) in list.iter().enumerate() {
        let mut key = name.replace(['.', '{', '}'], "_");
        // A call's entry and its exit may have fields of one name.
        while !used.insert(key.clone()) {
            let _ = write!(key, "_{number}");
        }
        let _ = write!(label, " {name}={{marker.data.{key}}}");
        fields.push(RuntimeSchemaMarkerField {
            key,
            label: name.clone(),
            format: if *is_number { MarkerFieldFormat::Decimal } else { MarkerFieldFormat::String },
            flags: MarkerFieldFlags::SEARCHABLE,
        });
    }
    let numbers = list.iter().zip(&fields).filter(|((_, is_number), _)| *is_number);
    let graph = |(_, field): (_, &RuntimeSchemaMarkerField)| RuntimeSchemaMarkerGraph {
        key: field.key.clone(),
        graph_type: MarkerGraphType::Line,
        color: None,
    };
    RuntimeSchemaMarkerSchema {
        type_name,
        description: None,
        locations: MarkerLocations::MARKER_CHART | MarkerLocations::MARKER_TABLE,
        chart_label: Some(label.trim_start().to_owned()),
        tooltip_label: None,
        table_label: Some(format!("{{marker.name}}{label}")),
        graphs: numbers.map(graph).collect(),
        fields,
    }
}

#[cfg(test)]
mod tests {
    //! Exact profiles of small traces. The samples of any trace have the times of its folded
    //! stacks.

    use std::collections::BTreeMap;

    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;
    use crate::export::{Format, export};
    use crate::tests::{Fixture, any_fixture, id, stack};

    fn profile(fixture: &Fixture, clocks: Option<[u64; reading::WORDS]>) -> Value {
        let mut text = Vec::new();
        export(Format::Firefox, clocks, fixture.results(), &mut text).unwrap();
        serde_json::from_slice(&text).unwrap()
    }

    fn list(value: &Value) -> impl Iterator<Item = &Value> {
        value.as_array().unwrap().iter()
    }

    fn string(thread: &Value, index: &Value) -> String {
        thread["stringArray"][at(index)].as_str().unwrap().to_owned()
    }

    fn at(index: &Value) -> usize {
        usize::try_from(index.as_u64().unwrap()).unwrap()
    }

    /// A thread's markers: names, begins and ends in milliseconds, and fields.
    fn markers(profile: &Value, thread: &Value) -> Vec<String> {
        let column = |name: &str| list(&thread["markers"][name]);
        let times = column("startTime").zip(column("endTime"));
        let rest = column("name").zip(column("data")).zip(column("phase"));
        let shown = times.zip(rest).map(|((start, end), ((name, data), phase))| {
            let schema =
                list(&profile["meta"]["markerSchema"]).find(|it| it["name"] == data["type"]).unwrap();
            let fields = list(&schema["fields"]).map(|field| {
                let value = &data[field["key"].as_str().unwrap()];
                let text = if field["format"] == "unique-string" {
                    string(thread, value)
                } else {
                    value.to_string()
                };
                format!(" {}={text}", field["label"].as_str().unwrap())
            });
            let until = if *phase == 1 { format!("..{end}") } else { String::new() };
            format!("{start}{until} {}{}", string(thread, name), fields.collect::<String>())
        });
        shown.collect()
    }

    /// The names of a stack's calls, from the outermost.
    fn frames<'a>(thread: &'a Value, mut stack: &'a Value) -> Vec<String> {
        let mut names = Vec::new();
        while !stack.is_null() {
            let func = &thread["frameTable"]["func"][at(&thread["stackTable"]["frame"][at(stack)])];
            names.push(string(thread, &thread["funcTable"]["name"][at(func)]));
            stack = &thread["stackTable"]["prefix"][at(stack)];
        }
        names.reverse();
        names
    }

    /// A thread's stacks, as folded ones, with the sums of their weights.
    fn stacks(thread: &Value) -> BTreeMap<String, u64> {
        let mut stacks = BTreeMap::new();
        for (stack, weight) in list(&thread["samples"]["stack"]).zip(list(&thread["samples"]["weight"])) {
            let names = frames(thread, stack);
            if !names.is_empty() {
                *stacks.entry(names.join(";")).or_default() += weight.as_u64().unwrap();
            }
        }
        stacks
    }

    fn named<'a>(profile: &'a Value, name: &str) -> &'a Value {
        list(&profile["threads"]).find(|thread| thread["name"] == name).unwrap()
    }

    #[test]
    fn calls_are_markers_and_samples() {
        let text = FieldValue::Str { text: "größe".to_owned(), cut: 0 };
        let fixture = Fixture::new()
            .thread(1, "main")
            .thread(2, "worker")
            .fields(1, 1_000_000, "entry app::get", vec![("n", FieldValue::I64(-3)), ("type", text)])
            .fields(1, 1_200_000, "point app::queue", vec![("length", FieldValue::U64(9))])
            .hit(1, 1_500_000, "entry app::read")
            .hit(1, 4_500_000, "exit app::read")
            .fields(1, 5_000_001, "exit app::get", vec![("n", FieldValue::U64(7))])
            .gap(1, 6_000_000, 7_000_000, 4)
            .hit(2, 8_000_000, "entry lib::run");
        let mut clocks = [0; reading::WORDS];
        (clocks[reading::MONOTONIC], clocks[reading::REAL]) = (3_000_000, 9_000_000);
        let profile = profile(&fixture, Some(clocks));
        assert_eq!(profile["meta"]["startTime"], 7.0, "milliseconds, when the first hit was");
        assert_eq!(profile["meta"]["product"], "server");
        let main = named(&profile, "main");
        assert_eq!(
            (&main["pid"], &main["tid"], &main["processName"]),
            (&"7".into(), &"101".into(), &"server".into())
        );
        assert_eq!(
            markers(&profile, main),
            [
                "0.2 app::queue length=9.0",
                "0.5..3.5 app::read",
                "0.0..4.000001 app::get n=-3 type=größe n=7",
                "5.0..6.0 lost events lost=4",
            ]
        );
        let expected = [("app::get", 1_000_001), ("app::get;app::read", 3_000_000)];
        assert_eq!(stacks(main), expected.map(|(stack, own)| (stack.to_owned(), own)).into());
        let worker = named(&profile, "worker");
        assert_eq!(
            markers(&profile, worker),
            ["7.0..7.0 lib::run probe.ending=open at the end of the trace"]
        );
        let categories: Vec<_> =
            list(&profile["meta"]["categories"]).map(|it| it["name"].as_str().unwrap()).collect();
        assert!(categories.ends_with(&["app", "probe", "lib"]), "{categories:?}");
        // A counter's value has a graph.
        let graphs = list(&profile["meta"]["markerSchema"]).filter_map(|it| it.get("graphs"));
        assert_eq!(graphs.filter(|it| it[0]["key"] == "length").count(), 1);
    }

    #[test]
    fn stacks_are_causes_of_markers() {
        let fixture = Fixture::new()
            .thread(1, "main")
            .fields(
                1,
                1000,
                "entry app::f",
                vec![("n", FieldValue::U64(3)), ("stack", stack(&["handle", "main"]))],
            )
            .fields(1, 1500, "point app::p", vec![("stack", stack(&["app::f", "handle", "main"]))])
            .hit(1, 3000, "exit app::f");
        let profile = profile(&fixture, None);
        let thread = named(&profile, "main");
        assert_eq!(markers(&profile, thread), ["0.0005 app::p", "0.0..0.002 app::f n=3"]);
        let causes: Vec<_> = list(&thread["markers"]["data"])
            .map(|data| frames(thread, &data["cause"]["stack"]).join(";"))
            .collect();
        assert_eq!(causes, ["main;handle;app::f", "main;handle"]);
        assert_eq!(stacks(thread), [("main;handle;app::f".to_owned(), 2000)].into());
    }

    #[test]
    fn futures_have_a_row_of_tracks() {
        let fixture = Fixture::new()
            .thread(1, "main")
            .fields(1, 1_000_000, "entry app::task 64", vec![("id", FieldValue::U64(5))])
            .hit(1, 2_000_000, "suspend app::task 64")
            .hit(1, 4_000_000, "resume app::task 64")
            .hit(1, 5_000_000, "drop app::task 64");
        let profile = profile(&fixture, None);
        assert_eq!(
            markers(&profile, named(&profile, "main")),
            ["0.0..1.0 app::task id=5", "3.0..4.0 app::task probe.ending=cancelled"]
        );
        assert_eq!(
            markers(&profile, named(&profile, "futures")),
            ["1.0..3.0 app::task waits", "0.0..4.0 app::task future=64 id=5 probe.ending=cancelled"]
        );
    }

    #[test]
    fn long_times_have_a_larger_unit() {
        let fixture = |long: u64| {
            let fixture = Fixture::new().thread(1, "main").hit(1, 5, "entry app::sleep").hit(
                1,
                5 + long,
                "exit app::sleep",
            );
            fixture.hit(1, 100 + long, "entry app::wake").hit(1, 107 + long, "exit app::wake")
        };
        let sums = |long: u64| {
            let profile = profile(&fixture(long), None);
            let stacks = stacks(named(&profile, "main"));
            let nanoseconds = profile["meta"]["interval"].as_f64().unwrap() * 1e6;
            (nanoseconds.round(), stacks["app::sleep"], stacks["app::wake"])
        };
        let most = u64::from(i32::MAX.unsigned_abs());
        assert_eq!(sums(most), (1.0, most, 7));
        // The remainder is told with the next sample.
        assert_eq!(sums(most * 10 + 3), (10.0, most, 1));
        assert_eq!(sums(u64::MAX - 107).1, 1_844_674_407);
    }

    /// Stacks of a thread in the folded format.
    fn folded(fixture: &Fixture) -> BTreeMap<String, u64> {
        let mut text = Vec::new();
        export(Format::Folded, None, fixture.results(), &mut text).unwrap();
        let text = String::from_utf8(text).unwrap();
        let lines = text.lines().map(|line| line.rsplit_once(' ').unwrap());
        let mut stacks = BTreeMap::new();
        for (stack, own) in lines {
            // The program and the thread come first.
            let calls: Vec<_> = stack.split(';').skip(2).collect();
            if own != "0" {
                *stacks.entry(calls.join(";")).or_default() += own.parse::<u64>().unwrap();
            }
        }
        stacks
    }

    proptest! {
        #[test]
        fn samples_have_the_times_of_folded_stacks(fixture in any_fixture()) {
            let profile = profile(&fixture, None);
            let mut all = BTreeMap::new();
            for thread in list(&profile["threads"]) {
                for (stack, own) in stacks(thread) {
                    *all.entry(stack).or_default() += own;
                }
            }
            prop_assert_eq!(all, folded(&fixture));
        }

        #[test]
        fn each_step_but_begins_is_a_marker(fixture in any_fixture()) {
            use crate::calls::{Calls, Slice, Step};
            let shown = |step: &Step| match step {
                Step::End(end) => matches!(end.track, Track::Thread(_)) || end.slice != Slice::Poll,
                Step::Instant(_) | Step::Gap(_) | Step::Off(_) | Step::OffLost(..) => true,
                _ => false,
            };
            let steps = Calls::new(fixture.results()).map(Result::unwrap).filter(shown).count();
            let profile = profile(&fixture, None);
            let found: usize = list(&profile["threads"]).map(|thread| markers(&profile, thread).len()).sum();
            prop_assert_eq!(found, steps);
        }
    }

    #[test]
    fn threads_of_one_id_are_told_apart() {
        let mut fixture = Fixture::new().hit(1, 10, "point app::a").hit(2, 11, "point app::b");
        for item in &mut fixture.items {
            if let crate::Item::Event(event) = item {
                event.thread.tid = id(1).tid;
            }
        }
        let profile = profile(&fixture, None);
        let tids: Vec<_> = list(&profile["threads"]).map(|thread| thread["tid"].clone()).collect();
        assert_eq!(tids, ["101", "101.1"]);
    }
}
