//! Backtraces from inside a consumer: through the cold block's step over the red zone, whatever the
//! number of fields, from leaf functions and from functions with frames, by the unwinder and by
//! gdb. A process of its own: gdb runs it again as its child, and its `outer` is the root of each
//! backtrace.
#![cfg(not(probe_portable))]

use std::backtrace::Backtrace;
use std::env;
use std::hint::black_box;
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use probe_runtime::{Consumer, Event, point, probe, select};
use probe_tests::processes;

/// Keeps a backtrace of each hit.
#[derive(Default)]
struct Traces(Mutex<Vec<(String, String)>>);

impl Consumer for Traces {
    fn hit(&self, event: &Event<'_>) {
        let name = event.path().rsplit("::").next().unwrap().to_owned();
        self.0.lock().unwrap().push((name, Backtrace::force_capture().to_string()));
    }
}

/// Functions with one point each: `leaf` calls nothing and has no frame, `framed` has an array and
/// a call.
macro_rules! functions {
    ($($leaf:ident, $framed:ident: $point:literal / $inner:literal $(, $field:ident)*;)*) => { $(
        #[inline(never)]
        fn $leaf(x: u64) -> u64 {
            $(let $field = x.wrapping_mul(3);)*
            point!($point $(, $field)*);
            x.rotate_left(7)
        }

        #[inline(never)]
        fn $framed(x: u64) -> u64 {
            let mut array = [x; 9];
            black_box(&mut array);
            $(let $field = array[1];)*
            point!($inner $(, $field)*);
            array[usize::try_from(x % 9).unwrap()] + $leaf(x)
        }
    )* };
}

functions! {
    leaf_none, framed_none: "in-leaf-none" / "in-framed-none";
    leaf_one, framed_one: "in-leaf-one" / "in-framed-one", a;
    leaf_two, framed_two: "in-leaf-two" / "in-framed-two", a, b;
    leaf_five, framed_five: "in-leaf-five" / "in-framed-five", a, b, c, d, e;
}

#[probe]
#[inline(never)]
fn attributed(x: u64) -> u64 {
    x.rotate_left(7)
}

#[inline(never)]
fn outer(x: u64) -> u64 {
    black_box([framed_none, framed_one, framed_two, framed_five, attributed].into_iter().map(|f| f(x)).sum())
}

/// This program's functions that a backtrace names, innermost first.
fn frames(trace: &str) -> Vec<&str> {
    let names = trace.lines().filter_map(|line| line.trim_start().split_once(": "));
    names.filter_map(|(_, name)| name.strip_prefix("sites::backtrace::")).collect()
}

fn expected() -> Vec<(String, Vec<String>)> {
    let mut expected = Vec::new();
    let mut add = |point: String, functions: &[&str]| {
        expected.push((point, functions.iter().map(|name| (*name).to_owned()).collect()));
    };
    for fields in ["none", "one", "two", "five"] {
        let (leaf, framed) = (&format!("leaf_{fields}"), &format!("framed_{fields}"));
        add(format!("in-framed-{fields}"), &[framed, "outer"]);
        add(format!("in-leaf-{fields}"), &[leaf, framed, "outer"]);
    }
    // The exit's site stands in the drop of a guard.
    add("attributed".to_owned(), &["attributed", "outer"]);
    add("attributed".to_owned(), &["attributed", "outer"]);
    expected
}

#[test]
fn every_frame_is_there_in_order() {
    let traces = select("sites::backtrace::*").unwrap().attach(Traces::default()).unwrap();
    outer(black_box(5));
    let traces = traces.0.lock().unwrap();
    let found: Vec<_> = (traces.iter())
        .map(|(point, trace)| {
            let known = |name: &&str| {
                ["leaf_", "framed_", "outer", "attributed"].iter().any(|prefix| name.starts_with(prefix))
                    && !name.contains("{closure")
                    && !name.contains("drop")
            };
            let frames = frames(trace).into_iter().filter(known).map(str::to_owned).collect();
            (point.clone(), frames)
        })
        .collect();
    assert_eq!(found, expected());
    for (point, trace) in traces.iter() {
        assert!(trace.contains("<sites::backtrace::Traces as probe_runtime::"), "{point}:\n{trace}");
        assert!(frames(trace).contains(&"every_frame_is_there_in_order"), "{point}:\n{trace}");
        assert!(trace.contains("thread_start"), "{point}: it ends at the thread's beginning:\n{trace}");
    }
}

/// The place at which gdb stops.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn backtrace_stops_here(hits: &AtomicU64) {
    hits.fetch_add(1, Ordering::Relaxed);
}

struct Stops(AtomicU64);

impl Consumer for Stops {
    fn hit(&self, _event: &Event<'_>) {
        backtrace_stops_here(&self.0);
    }
}

#[test]
#[ignore = "another test plays it, under a debugger"]
fn under_gdb() {
    let stops = select("sites::backtrace::*").unwrap().attach(Stops(AtomicU64::new(0))).unwrap();
    outer(black_box(5));
    assert_eq!(stops.0.load(Ordering::Relaxed), 10);
}

/// Removes the hashes at the ends of symbols, which gdb shows where there is no debug information.
fn without_hashes(text: &str) -> String {
    let mut parts = text.split("::h");
    let mut names = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let is_hash = |hash: &str| hash.bytes().all(|byte| byte.is_ascii_hexdigit());
        match part.split_at_checked(16).filter(|(hash, _)| is_hash(hash)) {
            Some((_, rest)) => names.push_str(rest),
            None => names.extend(["::h", part]),
        }
    }
    names
}

#[test]
fn gdb_shows_the_same() {
    if Command::new("gdb").arg("--version").output().is_err() {
        println!("skipped: there is no gdb here");
        return;
    }
    let program = env::current_exe().unwrap();
    let output = Command::new("gdb")
        .args(["-batch", "-nx", "-ex", "set breakpoint pending on", "-ex", "set print frame-arguments none"])
        .args(["-ex", "break backtrace_stops_here", "-ex", "run"])
        .args(["-ex", "bt", "-ex", "continue"].repeat(10))
        .arg("--args")
        .arg(program)
        .args(["--exact", &processes::test("under_gdb"), "--ignored", "--test-threads=1"])
        .output()
        .unwrap();
    let text = without_hashes(&String::from_utf8_lossy(&output.stdout));
    if text.contains("ptrace: Operation not permitted") || text.contains("not being run") {
        return;
    }
    let stops: Vec<_> = text.split("#0 ").skip(1).collect();
    assert_eq!(stops.len(), 10, "{text}\n{}", String::from_utf8_lossy(&output.stderr));
    for (stop, (point, functions)) in stops.iter().zip(expected()) {
        let mut rest = *stop;
        for function in functions {
            let name = format!("sites::backtrace::{function} (");
            let at = rest.find(&name).unwrap_or_else(|| panic!("{point}: no {name} in\n{stop}"));
            rest = &rest[at + name.len()..];
        }
        assert!(rest.contains("sites::backtrace::under_gdb ("), "{point}:\n{stop}");
        assert!(!stop.contains("Backtrace stopped") && !stop.contains("??"), "{point}:\n{stop}");
    }
}
