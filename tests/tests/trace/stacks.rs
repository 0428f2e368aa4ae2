//! Each hit of an entry or a point has the calls that led to it, in each form of a trace.
#![cfg(all(target_arch = "x86_64", target_os = "linux", not(any(probe_portable, probe_off))))]

use std::collections::BTreeMap;
use std::hint::black_box;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;

use probe_runtime::{Attachment, Trace, point, probe, select};
use probe_tests::folder::Folder;
use probe_tests::perfetto;
use probe_tests::turn::turn;
use probe_trace::export::{Format, export};
use probe_trace::{FieldValue, Kind, Trace as Read, TraceEvent};

#[probe]
#[inline(never)]
fn plain(n: u64) {
    black_box(n);
}

#[probe(args(*), ret)]
#[inline(never)]
fn with_fields(a: u64, stack: &str) -> u64 {
    black_box(a + stack.len() as u64)
}

#[inline(never)]
fn with_point(n: u64) -> u64 {
    let twice = black_box(n * 2);
    point!("stacks_point", n, twice);
    black_box(twice)
}

macro_rules! caller {
    ($name:ident) => {
        #[inline(never)]
        fn $name(n: u64) {
            plain(n);
            black_box(with_fields(n, "text"));
            black_box(with_point(n));
        }
    };
}

caller!(first);
caller!(second);

#[inline(never)]
fn recursive(n: u64) {
    if n == 0 {
        first(n);
    } else {
        recursive(n - 1);
    }
    black_box(n);
}

fn play() {
    (0..3).for_each(first);
    (0..5).for_each(second);
    recursive(20);
}

const PROBES: &str = "trace::stacks::*";

fn attach(selector: &str, trace: Trace) -> Attachment<Trace> {
    select(selector).unwrap().attach(trace).unwrap()
}

/// Returns the last parts of the calls of a hit, from the innermost.
fn calls(event: &TraceEvent) -> Vec<&str> {
    match event.fields.last() {
        Some(FieldValue::Stack(calls)) => calls.iter().map(|it| it.rsplit("::").next().unwrap()).collect(),
        other => panic!("{other:?}"),
    }
}

/// Returns the hits with stacks, by probes and callers.
fn tally(events: &[TraceEvent]) -> BTreeMap<(&str, &str), u64> {
    let mut tally = BTreeMap::new();
    for event in events.iter().filter(|event| event.definition.kind != Some(Kind::Exit)) {
        let path = event.definition.path.rsplit("::").next().unwrap();
        *tally.entry((path, calls(event)[0])).or_default() += 1;
    }
    tally
}

fn expected() -> BTreeMap<(&'static str, &'static str), u64> {
    // A point is in the function that `first` and `second` have called.
    let of = |probe| [((probe, "first"), 4), ((probe, "second"), 5)];
    ["plain", "stacks_point", "with_fields"].into_iter().flat_map(of).collect()
}

#[test]
fn hits_have_their_stacks() {
    let _turn = turn();
    let folder = Folder::new("trace-stacks");
    let path = folder.join("stacks.probetrace");
    let trace = attach(PROBES, Trace::recorder().stacks());
    play();
    trace.snapshot(&path).unwrap();
    let events = super::events(&path);
    assert_eq!(tally(&events), expected());
    for event in &events {
        let fields = &event.definition.fields;
        match (event.definition.kind, event.definition.path.rsplit("::").next().unwrap()) {
            (Some(Kind::Exit), "plain") => assert_eq!(fields, &[""; 0]),
            (Some(Kind::Exit), _) => assert_eq!(fields, &["outcome", "ret"]),
            (_, "with_fields") => assert_eq!(fields, &["a", "stack", "probe.stack"]),
            (_, "plain") => assert_eq!(fields, &["stack"]),
            _ => assert_eq!(fields, &["n", "twice", "stack"]),
        }
    }
    let deepest = events.iter().map(|event| event.fields.last()).find_map(|it| match it {
        Some(FieldValue::Stack(calls)) if calls.len() == 17 => Some(calls),
        _ => None,
    });
    let deepest = deepest.unwrap();
    assert!(deepest[0].ends_with("::first") && deepest[1..16].iter().all(|it| it.ends_with("::recursive")));
    assert_eq!(&*deepest[16], "…");
    assert_eq!(trace.to_string().lines().count(), 1, "no notes: {trace}");
    // Later snapshots have the stacks that are known already, too.
    (0..3).for_each(first);
    trace.snapshot(&path).unwrap();
    assert_eq!(tally(&super::events(&path))[&("plain", "first")], 7);
}

#[test]
fn hits_have_their_callers() {
    let _turn = turn();
    let folder = Folder::new("trace-callers");
    let path = folder.join("callers.probetrace");
    let trace = attach(PROBES, Trace::recorder().callers());
    play();
    trace.snapshot(&path).unwrap();
    let events = super::events(&path);
    assert_eq!(tally(&events), expected());
    let entries = events.iter().filter(|event| event.definition.kind != Some(Kind::Exit));
    for event in entries {
        assert_eq!(calls(event).len(), 1);
        assert_eq!(event.definition.fields.last().unwrap(), "caller");
    }
}

#[test]
fn files_that_a_thread_writes_have_stacks() {
    let _turn = turn();
    let folder = Folder::new("trace-stacks-written");
    let native = folder.join("stacks.probetrace");
    let trace = attach(PROBES, Trace::to_file(&native).stacks());
    (0..3).for_each(first);
    trace.flush().unwrap();
    (0..5).for_each(second);
    thread::spawn(|| recursive(20)).join().unwrap();
    assert_eq!(trace.finish().unwrap().lost, 0);
    assert_eq!(tally(&super::events(&native)), expected());

    let live = folder.join("stacks.pftrace");
    let trace = attach(PROBES, Trace::to_file(&live).stacks());
    play();
    assert_eq!(trace.finish().unwrap().lost, 0);
    assert_eq!(stacks_of(&live), lines_of(&native));
}

/// Returns the innermost calls of events, with their numbers, of Perfetto's file.
fn stacks_of(path: &Path) -> BTreeMap<String, u64> {
    let mut stacks = BTreeMap::new();
    for stack in perfetto::callstacks(path) {
        *stacks.entry(stack.last().unwrap().clone()).or_default() += 1;
    }
    stacks
}

/// The same of a `.probetrace`.
fn lines_of(path: &Path) -> BTreeMap<String, u64> {
    let mut stacks = BTreeMap::new();
    for event in super::events(path) {
        if let Some(FieldValue::Stack(calls)) = event.fields.last() {
            *stacks.entry(calls[0].to_string()).or_default() += 1;
        }
    }
    stacks
}

/// Folded stacks begin with callers that have no probes.
#[test]
fn exports_have_stacks() {
    let _turn = turn();
    let folder = Folder::new("trace-stacks-exported");
    let path = folder.join("stacks.probetrace");
    let trace = attach("trace::stacks::plain", Trace::recorder().stacks());
    second(1);
    trace.snapshot(&path).unwrap();
    let exported = |format| {
        let (mut trace, mut text) = (Read::open(&[&path]).unwrap(), Vec::new());
        export(format, trace.clocks(), trace.items(), &mut text).unwrap();
        String::from_utf8(text).unwrap()
    };
    let lines = exported(Format::Folded);
    assert!(lines.contains("stacks::second;trace::stacks::plain "), "{lines}");
    let chrome = exported(Format::Chrome);
    assert!(chrome.contains("stacks::second\"}}"), "{chrome}");
    let firefox = exported(Format::Firefox);
    assert!(firefox.contains("\"cause\":{"), "{firefox}");
}

/// A tree of calls, whose ways down are all distinct.
#[inline(never)]
fn branch(way: u64, depth: u32) {
    if depth == 0 {
        plain(way);
    } else if way & 1 == 0 {
        branch(way >> 1, depth - 1);
        black_box(way);
    } else {
        branch(way >> 1, depth - 1);
        black_box(way + 1);
    }
    black_box(depth);
}

#[test]
fn hits_without_room_for_a_stack_are_counted() {
    let _turn = turn();
    let folder = Folder::new("trace-stacks-many");
    let path = folder.join("stacks.probetrace");
    let trace = attach("trace::stacks::plain kind=entry", Trace::recorder().stacks());
    // The hits of one stack come after those that have taken all room.
    (0..4096).for_each(|way| branch(way, 12));
    trace.snapshot(&path).unwrap();
    let events = super::events(&path);
    let without = events.iter().filter(|event| event.fields == [FieldValue::LeftOut]).count();
    let mut stacks: Vec<_> = events.iter().map(|event| event.fields[0].to_string()).collect();
    stacks.sort_unstable();
    assert_eq!(stacks.iter().filter(|it| it.ends_with("branch")).count() + without, 4096);
    assert!((2048..4096).contains(&without), "{without}");
    let note = format!("{without} hits were left without a stack: there are too many");
    assert!(trace.to_string().contains(&note), "{trace}");
}

/// A signal handler's hits interrupt others anywhere, and the calls of both.
#[test]
fn handlers_interrupt_walks() {
    static IS_OVER: AtomicBool = AtomicBool::new(false);

    #[probe]
    #[inline(never)]
    fn handled() {
        black_box(0);
    }

    extern "C" fn handler(_: i32) {
        handled();
        black_box(0);
    }

    let _turn = turn();
    let folder = Folder::new("trace-stacks-signals");
    let path = folder.join("stacks.probetrace");
    let trace = attach("trace::stacks::plain, **::handled", Trace::to_file(&path).stacks());
    // SAFETY: the handler calls functions that may interrupt any other.
    unsafe { libc::signal(libc::SIGUSR2, handler as extern "C" fn(i32) as usize) };
    let worker = thread::spawn(|| {
        let mut calls = 0;
        while !IS_OVER.load(Relaxed) {
            // Stacks that are new, and some that are not.
            branch(calls % 1024, 10);
            calls += 1;
        }
        calls
    });
    let id = std::os::unix::thread::JoinHandleExt::as_pthread_t(&worker);
    for _ in 0..5000 {
        // SAFETY: the thread runs until it is joined.
        assert_eq!(unsafe { libc::pthread_kill(id, libc::SIGUSR2) }, 0);
        thread::yield_now();
    }
    IS_OVER.store(true, Relaxed);
    let calls = worker.join().unwrap();
    let totals = trace.finish().unwrap();
    let (mut plain, mut handled) = (0, 0);
    for event in super::events(&path).iter().filter(|event| event.definition.kind == Some(Kind::Entry)) {
        let calls = calls_without_marks(event);
        if event.definition.path.ends_with("::plain") {
            plain += 1;
            assert!(calls.len() > 11 && calls[..11].iter().all(|it| *it == "branch"), "{calls:?}");
        } else {
            handled += 1;
            assert_eq!(calls[..2], ["handler", "(signal)"]);
        }
    }
    assert!(handled > 0 && plain > 0);
    let lost = Read::open(&[&path]).unwrap().totals().unwrap().lost();
    assert!(plain <= calls && lost == totals.lost, "{plain} of {calls}");
}

fn calls_without_marks(event: &TraceEvent) -> Vec<&str> {
    calls(event).into_iter().filter(|it| *it != "…").collect()
}

#[test]
fn rings_in_a_file_have_no_stacks() {
    let _turn = turn();
    let folder = Folder::new("trace-stacks-mapped");
    let path = folder.join("stacks.probetrace");
    let trace = Trace::recorder().in_file(&path).stacks();
    let error = select("trace::stacks::plain").unwrap().attach(trace).unwrap_err().to_string();
    assert!(error.ends_with("its rings lie there, and have no stacks"), "{error}");
}
