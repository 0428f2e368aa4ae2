//! Traces: each hit is written or lost, and readers get right events in the right order, also while
//! threads come and go, rings are small, disks are full, and processes fork and are killed.
//! Some fork, or install signal handlers.
//!
//! Each file runs in a process of its own: see `probe_tests::processes`.
#![cfg(unix)]

mod armed;
mod clocks;
mod ended;
mod environment;
mod faults;
mod limited;
mod live;
mod mapped;
mod nesting;
mod panics;
mod processes;
mod replaced;
mod stacks;
mod stressed;
mod threads;
mod torn;
mod triggers;
mod values;
mod when;
mod written_and_read;

probe_tests::a_process_for_each_file!(
    stressed, written_and_read, live, mapped, torn, nesting, triggers, threads, stacks
);

use std::path::Path;

use probe_trace::{Item, Trace as Read, TraceEvent};

/// A file's items, by a reader that found nothing wrong.
fn items(path: &Path) -> Vec<Item> {
    let mut trace = Read::open(&[path]).unwrap();
    assert_eq!(trace.problems(), &[] as &[String]);
    trace.items().map(Result::unwrap).collect()
}

/// The file's events.
fn events(path: &Path) -> Vec<TraceEvent> {
    let event = |item| if let Item::Event(event) = item { Some(event) } else { None };
    items(path).into_iter().filter_map(event).collect()
}

/// Plays a part in a child.
#[test]
#[ignore = "no test: others play it, in children"]
fn scenario() {
    let scenario = probe_tests::scenario::to_play();
    match scenario.split_once(' ') {
        Some(("ended", way)) => ended::play(way),
        Some(("environment", way)) => environment::play(way),
        Some(("mapped", way)) => mapped::play(way),
        Some(("panics", way)) => panics::play(way),
        Some(("when", way)) => when::play(way),
        None if scenario == "clocks" => clocks::record_as_asked(),
        Some(("stressed", way)) => stressed::play(way),
        _ => processes::hits_for_ever(),
    }
}
