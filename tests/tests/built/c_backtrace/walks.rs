//! Walks from each site of `tests/c/frames.c`.

use std::backtrace::Backtrace;
use std::env;
use std::ops::Range;
use std::path::Path;
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use probe_runtime::{Consumer, Event, Kind, select};
use probe_tests::c::Object;
use probe_tests::processes;

use super::{HAS_LINES, OBJECT, object};

/// Functions and their lines.
const FUNCTIONS: [(&str, Range<u32>); 5] =
    [("leaf", 5..9), ("framed", 11..19), ("tail_calls", 21..25), ("variable", 27..35), ("root", 37..44)];

/// A hit: its function and kind; then its callers, with the lines of their calls.
type Hit = (&'static str, Kind, &'static [(&'static str, u32)]);

const ROOT: (&str, u32) = ("root", 39);
const TAIL: (&str, u32) = ("root", 40);
const VARIABLE: (&str, u32) = ("root", 41);

/// Hits during one call of `root`. A function left by a tail call is no caller in backtraces.
const EXPECTED: [Hit; 18] = [
    ("root", Kind::Entry, &[]),
    ("framed", Kind::Entry, &[ROOT]),
    ("leaf", Kind::Entry, &[("framed", 15), ROOT]),
    ("leaf", Kind::Exit, &[("framed", 15), ROOT]),
    ("framed", Kind::Exit, &[ROOT]),
    ("tail_calls", Kind::Entry, &[TAIL]),
    ("tail_calls", Kind::Exit, &[TAIL]),
    ("leaf", Kind::Entry, &[TAIL]),
    ("leaf", Kind::Exit, &[TAIL]),
    ("variable", Kind::Entry, &[VARIABLE]),
    ("framed", Kind::Entry, &[("variable", 31), VARIABLE]),
    ("leaf", Kind::Entry, &[("framed", 15), ("variable", 31), VARIABLE]),
    ("leaf", Kind::Exit, &[("framed", 15), ("variable", 31), VARIABLE]),
    ("framed", Kind::Exit, &[("variable", 31), VARIABLE]),
    ("variable", Kind::Exit, &[VARIABLE]),
    ("root", Kind::Exit, &[]),
    // A second call, to see that nothing is left over.
    ("root", Kind::Entry, &[]),
    ("framed", Kind::Entry, &[ROOT]),
];

/// Keeps a backtrace of each hit.
#[derive(Default)]
struct Traces(Mutex<Vec<(String, Kind, String)>>);

impl Consumer for Traces {
    fn hit(&self, event: &Event<'_>) {
        let trace = Backtrace::force_capture().to_string();
        self.0.lock().unwrap().push((event.path().to_owned(), event.kind(), trace));
    }
}

/// The C functions of a backtrace, with their lines where they are known.
fn frames(trace: &str) -> Vec<(String, Option<u32>)> {
    let mut frames: Vec<(String, Option<u32>)> = Vec::new();
    let mut is_ours = false;
    for line in trace.lines().map(str::trim) {
        if let Some(at) = line.strip_prefix("at ") {
            if is_ours {
                let line = at.rsplit_once("frames.c:").map(|(_, rest)| rest.split(':').next().unwrap());
                frames.last_mut().unwrap().1 = line.map(|line| line.parse().unwrap());
            }
        } else if let Some((_, name)) = line.split_once(": ") {
            is_ours = FUNCTIONS.iter().any(|(function, _)| *function == name);
            if is_ours {
                frames.push((name.to_owned(), None));
            }
        }
    }
    frames
}

/// Asserts that a walk is what the hit should see.
fn check(found: &[(String, Option<u32>)], expected: &Hit, has_lines: bool, trace: &str) {
    let (function, kind, callers) = expected;
    let names: Vec<_> = found.iter().map(|(name, _)| name.as_str()).collect();
    let expected_names: Vec<_> =
        [*function].into_iter().chain(callers.iter().map(|(name, _)| *name)).collect();
    assert_eq!(names, expected_names, "{function} {kind}:\n{trace}");
    if !has_lines {
        return;
    }
    let lines = FUNCTIONS.iter().find(|(name, _)| name == function).unwrap().1.clone();
    let line = found[0].1.unwrap_or(0);
    assert!(lines.contains(&line), "{function} {kind} is at line {line}, not in {lines:?}:\n{trace}");
    for ((name, line), (_, found)) in callers.iter().zip(&found[1..]) {
        assert_eq!(*found, Some(*line), "{function} {kind}, called by {name}:\n{trace}");
    }
}

/// Walks from each site.
pub(super) fn walk() {
    let object = Object::open(&object());
    let has_lines = env::var(HAS_LINES).is_ok_and(|it| !it.is_empty());
    let root = object.library.function("root");
    let set = select("@frames.c").unwrap();
    for probe in select("@frames.c").unwrap().probes() {
        let lines = FUNCTIONS.iter().find(|(name, _)| *name == probe.path()).unwrap().1.clone();
        assert_eq!(probe.line(), lines.start, "{probe}");
    }
    let traces = set.attach(Traces::default()).unwrap();
    assert_eq!((root(5), root(5)), (15 + 18 + 16 + 5, 15 + 18 + 16 + 5));
    let traces = traces.0.lock().unwrap();
    assert_eq!(traces.len(), 32);
    for ((path, kind, trace), expected) in traces.iter().zip(&EXPECTED) {
        assert_eq!((path.as_str(), *kind), (expected.0, expected.1));
        check(&frames(trace), expected, has_lines, trace);
        assert!(trace.contains("walks::walk") && trace.contains("thread_start"), "{trace}");
    }
}

/// The place at which gdb stops.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn c_backtrace_stops_here(hits: &AtomicU64) {
    hits.fetch_add(1, Ordering::Relaxed);
}

struct Stops(AtomicU64);

impl Consumer for Stops {
    fn hit(&self, _event: &Event<'_>) {
        c_backtrace_stops_here(&self.0);
    }
}

/// gdb's child.
pub(super) fn stop() {
    let object = Object::open(&object());
    let stops = select("@frames.c").unwrap().attach(Stops(AtomicU64::new(0))).unwrap();
    assert_eq!((object.library.function("root"))(5), 54);
    assert_eq!(stops.0.load(Ordering::Relaxed), 16);
}

pub(super) fn under_gdb(object: &Path) {
    let output = Command::new("gdb")
        .args(["-batch", "-nx", "-ex", "set breakpoint pending on", "-ex", "set print frame-arguments none"])
        .args(["-ex", "break c_backtrace_stops_here", "-ex", "run"])
        .args(["-ex", "bt", "-ex", "continue"].repeat(16))
        .arg("--args")
        .arg(env::current_exe().unwrap())
        .args(["--exact", &processes::test("scenario"), "--ignored", "--test-threads=1"])
        .env("PROBE_TEST_SCENARIO", "stop")
        .env(OBJECT, object)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    if text.contains("ptrace: Operation not permitted") || text.contains("not being run") {
        println!("skipped: gdb may not run a child here");
        return;
    }
    let stops: Vec<_> = text.split("#0 ").skip(1).collect();
    assert_eq!(stops.len(), 16, "{text}\n{}", String::from_utf8_lossy(&output.stderr));
    for (stop, expected) in stops.iter().zip(&EXPECTED) {
        // gdb concludes from debug information who made a tail call.
        let is_gone = |name: &str| name == "tail_calls" && expected.0 == "leaf";
        let frames: Vec<_> = stop.lines().filter_map(gdb_frame).filter(|(name, _)| !is_gone(name)).collect();
        check(&frames, expected, true, stop);
        assert!(stop.contains("walks::stop") && !stop.contains("Backtrace stopped"), "{stop}");
    }
}

/// `#5  0x… in leaf (x=…) at …/frames.c:8`, or `#5  leaf (…) at …`.
fn gdb_frame(line: &str) -> Option<(String, Option<u32>)> {
    let line = line.strip_prefix('#')?;
    let (place, at) = line.rsplit_once("frames.c:")?;
    let name = place.split(" (").next()?.split_whitespace().last()?;
    Some((name.to_owned(), at.trim().parse().ok()))
}
