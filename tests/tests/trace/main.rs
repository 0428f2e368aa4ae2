//! Traces: each hit is written or lost, and readers get right events in the right order, also while
//! threads come and go, rings are small, disks are full, and processes fork and are killed.
//! A process of its own: it forks, and installs a signal handler.
#![cfg(unix)]

mod clocks;
mod environment;
mod faults;
mod live;
mod mapped;
mod nesting;
mod panics;
mod processes;
mod torn;
mod triggers;
mod values;

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
    if let Some(way) = scenario.strip_prefix("mapped ") {
        return mapped::play(way);
    }
    if let Some(way) = scenario.strip_prefix("panics ") {
        return panics::play(way);
    }
    match scenario.strip_prefix("environment ") {
        Some(way) => environment::play(way),
        None if scenario == "clocks" => clocks::record_as_asked(),
        None => processes::hits_for_ever(),
    }
}
