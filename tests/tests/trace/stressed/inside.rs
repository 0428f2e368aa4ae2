//! Hits that no ring has: those inside of other hits, and those of threads without a ring. Each is
//! counted, however the trace ends, and once in each process.
#![cfg(target_os = "linux")]

use std::fmt;
use std::path::Path;
use std::thread;

use probe_runtime::{Attachment, Trace, point, probe, select};
use probe_tests::folder::Folder;
use probe_tests::scenario::in_a_child;
use probe_tests::turn::turn;
use probe_trace::Trace as Read;

#[probe]
#[inline(never)]
fn formatted() {}

/// A value whose own code hits a probe while it is recorded.
struct Hits;

impl fmt::Display for Hits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatted();
        f.write_str("hits")
    }
}

/// One hit, with two inside of it.
fn hit() {
    point!("holds", value = %Hits);
}

fn attach(trace: Trace) -> Attachment<Trace> {
    hit();
    formatted();
    select("**::inside::formatted, **::inside::holds").unwrap().attach(trace).unwrap()
}

/// The hits that a file has, and those inside of others.
fn totals(path: &Path) -> (u64, u64) {
    let totals = Read::open(&[path]).unwrap().totals().unwrap();
    assert_eq!(totals.lost(), totals.nested);
    (totals.written, totals.nested)
}

#[test]
fn a_trace_that_is_dropped_has_them() {
    let _turn = turn();
    let folder = Folder::new("trace-inside");
    let path = folder.join("it.probetrace");
    for make in [|path: &Path| Trace::to_file(path), |path: &Path| Trace::first().in_file(path)] {
        let trace = attach(make(&path));
        (0..3).for_each(|_| hit());
        assert_eq!((trace.suppressed(), trace.totals().lost), (6, 6));
        drop(trace);
        assert_eq!(totals(&path), (3, 6));
    }
}

#[test]
fn a_child_has_its_own() {
    let _turn = turn();
    let folder = Folder::new("trace-inside-child");
    let path = folder.join("it.probetrace");
    let mut trace = Some(attach(Trace::recorder().in_file(&path)));
    (0..3).for_each(|_| hit());
    let status = in_a_child(|| {
        (0..2).for_each(|_| hit());
        let name = folder.join(format!("it-{}.probetrace", std::process::id()));
        let found = trace.take().unwrap().finish().unwrap();
        assert_eq!((found.written, found.lost), (2, 4));
        assert_eq!(totals(&name), (2, 4));
    });
    assert_eq!(status, 0);
    let found = trace.unwrap().finish().unwrap();
    assert_eq!((found.written, found.lost), (3, 6));
    assert_eq!(totals(&path), (3, 6));
}

#[test]
fn a_child_has_its_own_hits_without_a_ring() {
    let _turn = turn();
    let folder = Folder::new("trace-ringless-child");
    let path = folder.join("it.probetrace");
    let mut trace = Some(attach(Trace::first().ring_size(4096).total_size(4096).in_file(&path)));
    let elsewhere = |times: u64| {
        thread::scope(|scope| _ = scope.spawn(|| (0..times).for_each(|_| formatted())));
    };
    // This thread has the only ring.
    formatted();
    elsewhere(3);
    let status = in_a_child(|| {
        let trace = trace.take().unwrap();
        assert_eq!((trace.totals().written, trace.totals().lost), (0, 0));
        // Before the child has a file.
        elsewhere(5);
        assert_eq!((trace.totals().written, trace.totals().lost), (0, 10));
        formatted();
        let found = trace.finish().unwrap();
        assert_eq!((found.written, found.lost), (2, 10));
    });
    assert_eq!(status, 0);
    let found = trace.unwrap().finish().unwrap();
    assert_eq!((found.written, found.lost), (2, 6));
}
