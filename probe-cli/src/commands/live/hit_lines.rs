//! The hits of a trace as lines: text, or a JSON object each.

use std::collections::HashMap;
use std::fmt::Write;

use probe_runtime::__tools::Time;
use probe_trace::calls::{Ending, Pairing, Slice, Step, Track};
use probe_trace::{FieldValue, Gap, Item, ThreadId, TraceEvent};
use serde::Serialize;
use serde_json::{Map, Value};

use crate::output::object;
use crate::text::{count, escape, escape_json};

/// Makes lines of items, one after the other.
pub(super) struct Lines {
    is_json: bool,
    pairing: Pairing,
    /// The slices that are open, with their beginnings if the trace has them.
    open: HashMap<Track, Vec<(Slice, Option<u64>)>>,
    names: HashMap<ThreadId, String>,
    /// The time of the first line, from which text counts.
    first: Option<u64>,
    /// Hits that have a line.
    pub(super) hits: u64,
    /// Hits that were lost instead.
    pub(super) lost: u64,
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
    pub(super) fn new(is_json: bool) -> Self {
        Self {
            is_json,
            pairing: Pairing::default(),
            open: HashMap::new(),
            names: HashMap::new(),
            first: None,
            hits: 0,
            lost: 0,
        }
    }

    /// Adds an item's line. `wall` turns times into nanoseconds since 1970.
    pub(super) fn add(&mut self, item: Item, wall: impl Fn(u64) -> u64, out: &mut String) {
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
            // A later reader's.
            _ => (),
        }
    }

    /// Adds a line about a time in which the probes were latent.
    pub(super) fn off(&mut self, nanoseconds: u64, out: &mut String) {
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
