//! Files that can't be written, and requests that can't be met.

use std::path::Path;

use probe_runtime::{Error, Trace, probe, select};
use probe_tests::folder::Folder;
use probe_tests::turn::turn;

#[probe]
#[inline(never)]
fn step() {}

fn text(error: Result<impl std::fmt::Debug, Error>) -> String {
    error.unwrap_err().to_string()
}

#[test]
fn a_full_disk_loses_events_and_says_so() {
    let _turn = turn();
    if !Path::new("/dev/full").exists() {
        return println!("left out: there is no /dev/full");
    }
    step();
    // The header is too much already.
    let error = text(select("**::faults::step").unwrap().attach(Trace::to_file("/dev/full")));
    assert!(error.starts_with("the trace can't be written to /dev/full: No space left"), "{error}");
    let trace = select("**::faults::step").unwrap().attach(Trace::recorder()).unwrap();
    step();
    let error = text(trace.snapshot("/missing/folder/x.probetrace"));
    assert!(
        error.starts_with("the trace can't be written to /missing/folder/x.probetrace: No such file"),
        "{error}"
    );
    assert_eq!(trace.totals().written, 2, "it goes on");
}

#[test]
fn unusable_sizes_are_refused() {
    let _turn = turn();
    step();
    let attach = |trace: Trace| text(select("**::faults::step").unwrap().attach(trace));
    assert_eq!(
        attach(Trace::recorder().ring_size(100)),
        "a ring of 100 bytes is too small; it has at least 4096"
    );
    assert_eq!(
        attach(Trace::recorder().ring_size(1 << 20).total_size(1000)),
        "a ring of 1048576 bytes does not fit in the 1000 bytes of all rings"
    );
}

#[test]
fn a_trace_to_a_file_has_no_snapshots() {
    let _turn = turn();
    let folder = Folder::new("trace-no-snapshot");
    let path = folder.join("steps.probetrace");
    step();
    let trace = select("**::faults::step").unwrap().attach(Trace::to_file(&path)).unwrap();
    step();
    let other = folder.join("other.probetrace");
    let error = text(trace.snapshot(&other));
    assert!(error.ends_with(&format!("this trace is written to {} already", path.display())), "{error}");
    assert_eq!(trace.finish().unwrap().written, 2);
    assert_eq!(super::events(&path).len(), 2);
}
