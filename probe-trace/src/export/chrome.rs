//! Chrome's trace events, as a JSON array: begins and ends of calls (`B`, `E`), instants (`i`),
//! counters (`C`), names (`M`), and nestable asynchronous events for futures (`b`, `n`, `e`). The
//! times of a thread off the processor are on a track of their own.
//!
//! Names are full paths, and arguments are the fields alone: speedscope tells calls of one name
//! apart by their arguments, and shows both. Its flame graphs want folded stacks instead.
//!
//! Times are microseconds with three decimals, so they are exact. Integers of 128 bits, NaN, and
//! infinities are text.

use std::collections::{HashMap, HashSet};
use std::io::{self, Write};

use serde::{Serialize, Serializer};
use serde_json::value::RawValue;

use super::labels::{Note, OFF_LOST, crate_name, part_name};
use super::sink::Sink;
use crate::calls::{Begin, End, Ending, Fields, FutureId, Instant, OffProcessor, Slice, Track};
use crate::item::{FieldValue, Gap, Thread, ThreadId};

/// The first substitute for an id that another process or thread of the export has. No system has
/// ids that large.
const FIRST_SUBSTITUTE_ID: u64 = 10_000_000;

pub(super) struct Chrome<W> {
    writer: W,
    ids: Ids,
    /// Names of threads.
    names: HashMap<ThreadId, String>,
    is_first: bool,
}

/// One trace event.
#[derive(Clone, Default, Serialize)]
struct Record<'a> {
    #[serde(rename = "ph")]
    phase: &'static str,
    name: &'a str,
    #[serde(rename = "cat", skip_serializing_if = "str::is_empty")]
    category: &'a str,
    #[serde(rename = "pid")]
    process: u64,
    #[serde(rename = "tid", skip_serializing_if = "Option::is_none")]
    thread: Option<u64>,
    /// Microseconds with all their digits, which a 64-bit float does not have.
    #[serde(rename = "ts", skip_serializing_if = "Option::is_none")]
    time: Option<Box<RawValue>>,
    /// The scope of an instant: its thread.
    #[serde(rename = "s", skip_serializing_if = "Option::is_none")]
    scope: Option<&'static str>,
    /// The number that the events of one future share.
    #[serde(rename = "id", skip_serializing_if = "Option::is_none")]
    future: Option<String>,
    /// A hit's fields, and notes of pairing.
    #[serde(skip_serializing_if = "Vec::is_empty", serialize_with = "as_map")]
    args: Vec<(&'a str, &'a FieldValue)>,
}

fn arg((name, value): &Note) -> (&str, &FieldValue) {
    (name, value)
}

fn as_map<S: Serializer>(args: &[(&str, &FieldValue)], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(args.iter().map(|(name, value)| (name, Value(value))))
}

/// A field's value. Numbers that JSON's readers can't hold are text.
struct Value<'a>(&'a FieldValue);

impl Serialize for Value<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            FieldValue::U64(value) => serializer.serialize_u64(*value),
            FieldValue::I64(value) => serializer.serialize_i64(*value),
            FieldValue::F64(value) if value.is_finite() => serializer.serialize_f64(*value),
            FieldValue::Bool(value) => serializer.serialize_bool(*value),
            value => serializer.collect_str(value),
        }
    }
}

impl<W: Write> Chrome<W> {
    pub(super) fn new(mut writer: W) -> io::Result<Self> {
        writer.write_all(b"[")?;
        Ok(Self { writer, ids: Ids::default(), names: HashMap::new(), is_first: true })
    }

    fn write(&mut self, record: &Record<'_>) -> io::Result<()> {
        self.writer.write_all(if self.is_first { b"\n" } else { b",\n" })?;
        self.is_first = false;
        Ok(serde_json::to_writer(&mut self.writer, record)?)
    }

    /// Writes the name of a process or a thread, if it has one.
    fn write_name(&mut self, of: &str, process: u64, thread: Option<u64>, name: &str) -> io::Result<()> {
        if name.is_empty() {
            return Ok(());
        }
        let name = FieldValue::Str { text: name.to_owned(), cut: 0 };
        let args = vec![("name", &name)];
        self.write(&Record { phase: "M", name: of, process, thread, args, ..Record::default() })
    }

    /// Creates a record on a track, with the name of a probe.
    fn record<'a>(&mut self, track: Track, time: u64, path: &'a str) -> io::Result<Record<'a>> {
        let (process, thread, future) = match track {
            Track::Thread(id) => {
                let (process, thread) = self.ids.thread(id);
                (process, thread, None)
            }
            Track::Future(FutureId { file, process, number }) => {
                let (process, _) = self.ids.process(file, process);
                (process, process, Some(format!("{number:#x}")))
            }
        };
        let time = Some(microseconds(time)?);
        let (thread, category) = (Some(thread), crate_name(path));
        Ok(Record { name: path, category, process, thread, time, future, ..Record::default() })
    }
}

impl<W: Write> Sink for Chrome<W> {
    fn thread(&mut self, thread: &Thread) -> io::Result<()> {
        let (process, is_new) = self.ids.process(thread.id.file, thread.id.process);
        let (_, id) = self.ids.thread(thread.id);
        if is_new {
            self.write_name("process_name", process, None, &thread.program)?;
        }
        self.names.insert(thread.id, thread.name.clone());
        self.write_name("thread_name", process, Some(id), &thread.name)
    }

    fn begin(&mut self, begin: &Begin) -> io::Result<()> {
        let (path, note) = (&begin.fields.definition().path, begin.note());
        let mut record = self.record(begin.track, begin.time, path)?;
        record.phase = if record.future.is_some() { "b" } else { "B" };
        record.name = part_name(begin.track, begin.slice).unwrap_or(path);
        record.args.extend(begin.fields.iter().chain(note.iter().map(arg)));
        self.write(&record)
    }

    fn end(&mut self, end: &End) -> io::Result<()> {
        let (path, note) = (&end.definition.path, end.note());
        let mut record = self.record(end.track, end.time, path)?;
        record.phase = if record.future.is_some() { "e" } else { "E" };
        if record.phase == "e" && end.ending == Ending::Cancelled && end.slice == Slice::Future {
            self.write(&Record { phase: "n", name: "cancelled", ..record.clone() })?;
        }
        record.name = part_name(end.track, end.slice).unwrap_or(path);
        record.args.extend(end.fields.iter().flat_map(Fields::iter));
        record.args.extend(note.iter().map(arg));
        self.write(&record)
    }

    fn instant(&mut self, instant: &Instant) -> io::Result<()> {
        let note = instant.note();
        let path = &instant.fields.definition().path;
        let mut record = self.record(Track::Thread(instant.thread), instant.time, path)?;
        (record.phase, record.scope) = ("i", Some("t"));
        record.args.extend(instant.fields.iter().chain(note.iter().map(arg)));
        self.write(&record)?;
        let Some(counter) = instant.counter() else { return Ok(()) };
        self.write(&Record { phase: "C", thread: None, scope: None, args: vec![counter], ..record })
    }

    fn gap(&mut self, gap: &Gap) -> io::Result<()> {
        let (name, notes) = (format!("{} events lost", gap.lost), gap.notes());
        let mut record = self.record(Track::Thread(gap.thread), gap.begin, &name)?;
        (record.phase, record.scope, record.category) = ("i", Some("t"), "probe");
        record.args.extend(notes.iter().map(arg));
        self.write(&record)
    }

    fn off(&mut self, off: &OffProcessor) -> io::Result<()> {
        let thread = off.off.thread;
        let (id, is_new) = self.ids.states(thread);
        let mut record = self.record(Track::Thread(thread), off.off.begin, off.state())?;
        (record.phase, record.category, record.thread) = ("B", "probe", Some(id));
        if is_new {
            let name = format!("{} off the processor", self.names.get(&thread).map_or("thread", |it| it));
            self.write_name("thread_name", record.process, Some(id), &name)?;
        }
        let notes: Vec<_> = off.notes().collect();
        record.args.extend(notes.iter().map(arg));
        self.write(&record)?;
        let time = Some(microseconds(off.until)?);
        self.write(&Record { phase: "E", time, args: Vec::new(), ..record })
    }

    fn off_lost(&mut self, thread: ThreadId, time: u64) -> io::Result<()> {
        let mut record = self.record(Track::Thread(thread), time, OFF_LOST)?;
        (record.phase, record.scope, record.category) = ("i", Some("t"), "probe");
        self.write(&record)
    }

    fn finish(&mut self) -> io::Result<()> {
        self.writer.write_all(b"\n]\n")
    }
}

/// Returns a time in microseconds, with all its digits.
fn microseconds(time: u64) -> io::Result<Box<RawValue>> {
    Ok(RawValue::from_string(format!("{}.{:03}", time / 1000, time % 1000))?)
}

/// Viewers tell threads apart by the system's ids, which the system may give again, and which
/// containers give independently. The first one keeps its id.
#[derive(Default)]
struct Ids {
    processes: HashMap<(usize, u64), u64>,
    threads: HashMap<ThreadId, u64>,
    /// Ids of the tracks of threads' states.
    states: HashMap<ThreadId, u64>,
    used_processes: HashSet<u64>,
    used_threads: HashSet<(u64, u64)>,
    substitutes: u64,
}

impl Ids {
    /// Returns the id of a process; the second value tells whether it is new.
    fn process(&mut self, file: usize, process: u64) -> (u64, bool) {
        if let Some(id) = self.processes.get(&(file, process)) {
            return (*id, false);
        }
        let id = if self.used_processes.insert(process) { process } else { self.substitute() };
        self.processes.insert((file, process), id);
        (id, true)
    }

    /// Returns the ids of a thread's process and of the thread.
    fn thread(&mut self, thread: ThreadId) -> (u64, u64) {
        let (process, _) = self.process(thread.file, thread.process);
        if let Some(id) = self.threads.get(&thread) {
            return (process, *id);
        }
        let is_free = self.used_threads.insert((process, thread.tid));
        let id = if is_free { thread.tid } else { self.substitute() };
        self.threads.insert(thread, id);
        (process, id)
    }

    /// Returns the id of the track of a thread's states, and whether it is new.
    fn states(&mut self, thread: ThreadId) -> (u64, bool) {
        if let Some(id) = self.states.get(&thread) {
            return (*id, false);
        }
        let id = self.substitute();
        self.states.insert(thread, id);
        (id, true)
    }

    fn substitute(&mut self) -> u64 {
        self.substitutes += 1;
        FIRST_SUBSTITUTE_ID + self.substitutes - 1
    }
}

#[cfg(test)]
mod tests {
    //! Exact output for small traces, and balance for any.

    use proptest::prelude::*;
    use serde_json::Value as Json;

    use super::*;
    use crate::export::{Error, Format, export};
    use crate::tests::{Fixture, any_fixture, id, stack};

    fn text(fixture: &Fixture) -> String {
        let mut text = Vec::new();
        export(Format::Chrome, None, fixture.results(), &mut text).unwrap();
        String::from_utf8(text).unwrap()
    }

    #[test]
    fn events_have_exact_times_and_typed_arguments() {
        let fixture = Fixture::new()
            .thread(1, "main")
            .fields(
                1,
                18_446_744_073_709_551_001,
                "entry app::net::get",
                vec![
                    ("n", FieldValue::I64(-3)),
                    ("big", FieldValue::U128(u128::MAX)),
                    ("nan", FieldValue::F64(f64::NAN)),
                    ("half", FieldValue::F64(0.5)),
                    ("text", FieldValue::Str { text: "a\"b".to_owned(), cut: 2 }),
                ],
            )
            .fields(
                1,
                18_446_744_073_709_551_001,
                "point app::net::queue",
                vec![("length", FieldValue::U64(9))],
            )
            .hit(1, 18_446_744_073_709_551_002, "exit app::net::get")
            .gap(1, 18_446_744_073_709_551_003, 18_446_744_073_709_551_005, 4);
        let expected = r#"[
{"ph":"M","name":"process_name","pid":7,"args":{"name":"server"}},
{"ph":"M","name":"thread_name","pid":7,"tid":101,"args":{"name":"main"}},
{"ph":"B","name":"app::net::get","cat":"app","pid":7,"tid":101,"ts":18446744073709551.001,"args":{"n":-3,"big":"340282366920938463463374607431768211455","nan":"NaN","half":0.5,"text":"a\"b… (2 bytes more)"}},
{"ph":"i","name":"app::net::queue","cat":"app","pid":7,"tid":101,"ts":18446744073709551.001,"s":"t","args":{"length":9}},
{"ph":"C","name":"app::net::queue","cat":"app","pid":7,"ts":18446744073709551.001,"args":{"length":9}},
{"ph":"E","name":"app::net::get","cat":"app","pid":7,"tid":101,"ts":18446744073709551.002},
{"ph":"i","name":"4 events lost","cat":"probe","pid":7,"tid":101,"ts":18446744073709551.003,"s":"t","args":{"lost":4,"nanoseconds":2}}
]
"#;
        assert_eq!(text(&fixture), expected);
    }

    #[test]
    fn stacks_are_arguments() {
        let calls = stack(&["get<a;b>", "main"]);
        let fixture = Fixture::new().fields(1, 1000, "point app::p", vec![("stack", calls)]);
        let expected = r#"[
{"ph":"i","name":"app::p","cat":"app","pid":7,"tid":101,"ts":1.000,"s":"t","args":{"stack":"main;get<a:b>"}}
]
"#;
        assert_eq!(text(&fixture), expected);
    }

    #[test]
    fn times_off_the_processor_are_on_a_track_of_their_own() {
        let fixture = Fixture::new()
            .thread(1, "main")
            .hit(1, 1000, "entry app::f")
            .off(1, 1500, Some(1700), "ready")
            .off_in(1, 1800, Some(1900), "blocked", Some(("futex", 0x7f00_1000)))
            .off_lost(1)
            .hit(1, 2000, "exit app::f")
            .off(1, 2100, None, "ended");
        let expected = r#"[
{"ph":"M","name":"process_name","pid":7,"args":{"name":"server"}},
{"ph":"M","name":"thread_name","pid":7,"tid":101,"args":{"name":"main"}},
{"ph":"B","name":"app::f","cat":"app","pid":7,"tid":101,"ts":1.000},
{"ph":"M","name":"thread_name","pid":7,"tid":10000000,"args":{"name":"main off the processor"}},
{"ph":"B","name":"ready","cat":"probe","pid":7,"tid":10000000,"ts":1.500,"args":{"in":"app::f"}},
{"ph":"E","name":"ready","cat":"probe","pid":7,"tid":10000000,"ts":1.700},
{"ph":"B","name":"blocked","cat":"probe","pid":7,"tid":10000000,"ts":1.800,"args":{"in":"app::f","system call":"futex(0x7f001000)"}},
{"ph":"E","name":"blocked","cat":"probe","pid":7,"tid":10000000,"ts":1.900},
{"ph":"i","name":"times off the processor lost","cat":"probe","pid":7,"tid":101,"ts":1.900,"s":"t"},
{"ph":"E","name":"app::f","cat":"app","pid":7,"tid":101,"ts":2.000},
{"ph":"B","name":"ended","cat":"probe","pid":7,"tid":10000000,"ts":2.100},
{"ph":"E","name":"ended","cat":"probe","pid":7,"tid":10000000,"ts":2.100}
]
"#;
        assert_eq!(text(&fixture), expected);
    }

    #[test]
    fn futures_are_asynchronous_events() {
        let fixture = Fixture::new().hit(1, 1000, "resume app::get 64").hit(1, 2000, "drop app::get 64");
        let expected = r#"[
{"ph":"b","name":"app::get","cat":"app","pid":7,"tid":7,"ts":1.000,"id":"0x1","args":{"future":64,"probe.began_before":true}},
{"ph":"b","name":"poll","cat":"app","pid":7,"tid":7,"ts":1.000,"id":"0x1"},
{"ph":"B","name":"app::get","cat":"app","pid":7,"tid":101,"ts":1.000},
{"ph":"E","name":"app::get","cat":"app","pid":7,"tid":101,"ts":2.000,"args":{"probe.ending":"cancelled"}},
{"ph":"e","name":"poll","cat":"app","pid":7,"tid":7,"ts":2.000,"id":"0x1","args":{"probe.ending":"cancelled"}},
{"ph":"n","name":"cancelled","cat":"app","pid":7,"tid":7,"ts":2.000,"id":"0x1"},
{"ph":"e","name":"app::get","cat":"app","pid":7,"tid":7,"ts":2.000,"id":"0x1","args":{"probe.ending":"cancelled"}}
]
"#;
        assert_eq!(text(&fixture), expected);
    }

    #[test]
    fn output_is_whole_where_a_trace_is_torn() {
        let items = Fixture::new().hit(1, 10, "entry app::f").items;
        let items = items.into_iter().map(Ok).chain([Err("torn")]);
        let mut text = Vec::new();
        let error = export(Format::Chrome, None, items, &mut text).unwrap_err();
        assert_eq!(error.to_string(), "can't read the trace further, so the export ends here: torn");
        assert!(matches!(error, Error::Items("torn")));
        let events: Vec<Json> = serde_json::from_slice(&text).unwrap();
        assert_eq!(events[1]["args"]["probe.ending"], "open at the end of the trace");
    }

    proptest! {
        #[test]
        fn begins_and_ends_balance(fixture in any_fixture()) {
            let events: Vec<Json> = serde_json::from_str(&text(&fixture)).unwrap();
            let mut open: HashMap<(u64, String), Vec<String>> = HashMap::new();
            for event in &events {
                let key = (event["tid"].as_u64().unwrap_or(0), event["id"].to_string());
                let name = event["name"].as_str().unwrap().to_owned();
                match event["ph"].as_str().unwrap() {
                    "B" | "b" => open.entry(key).or_default().push(name),
                    "E" | "e" => prop_assert_eq!(open.entry(key).or_default().pop(), Some(name)),
                    _ => {}
                }
            }
            prop_assert!(open.values().all(Vec::is_empty));
        }
    }

    #[test]
    fn ids_that_the_system_gave_again_are_replaced() {
        let mut ids = Ids::default();
        let mut again = id(2);
        again.tid = 101;
        let mut other_file = id(1);
        other_file.file = 1;
        assert_eq!(ids.thread(id(1)), (7, 101));
        assert_eq!(ids.thread(again), (7, 10_000_000));
        assert_eq!(ids.thread(other_file), (10_000_001, 101));
        assert_eq!(ids.thread(again), (7, 10_000_000));
        assert_eq!(ids.process(1, 7), (10_000_001, false));
    }
}
