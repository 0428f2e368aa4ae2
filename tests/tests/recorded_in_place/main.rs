//! Hits that the way in records by itself, for a probe with a trace and no other consumer. Whatever
//! interrupts them or takes their consumer away, each hit is written, lost or suppressed, and what
//! was written reads the same as when the consumer is called.
//!
//! Each file runs in a process of its own: see `probe_tests::processes`. Some handle `SIGTRAP` and
//! `SIGUSR2`.
#![cfg(all(target_arch = "x86_64", target_os = "linux", not(any(probe_portable, probe_off))))]

mod c_sites;
mod changed;
mod detached;
mod forked;
mod stepped;
mod values;

probe_tests::a_process_for_each_file!(c_sites, changed, forked, stepped, values);

use std::hint::black_box;
use std::path::Path;

use probe_runtime::probe;
use probe_trace::{Item, Trace as Read, TraceEvent};

#[probe]
#[inline(never)]
fn bare(x: u64) -> u64 {
    black_box(x) + 1
}

#[probe(args(*))]
#[inline(never)]
fn numbered(x: u64) -> u64 {
    black_box(x) + 2
}

/// Hits of a call of either function.
const HITS: u64 = 2;

fn call_both(x: u64) {
    assert_eq!(bare(black_box(x)) + numbered(black_box(x)), 2 * x + 3);
}

/// A file's events, by a reader that found nothing wrong.
fn events(path: &Path) -> Vec<TraceEvent> {
    let mut trace = Read::open(&[path]).unwrap();
    assert_eq!(trace.problems(), &[] as &[String]);
    events_of(&mut trace)
}

fn events_of(trace: &mut Read) -> Vec<TraceEvent> {
    let event = |item| if let Item::Event(event) = item { Some(event) } else { None };
    trace.items().map(Result::unwrap).filter_map(event).collect()
}
