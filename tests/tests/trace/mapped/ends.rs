//! Processes that end without a word: by `abort`, by `_exit`, and as other programs.

use std::env;
use std::os::unix::process::CommandExt;
use std::process::Command;

use probe_runtime::Trace;
use probe_tests::folder::Folder;
use probe_tests::scenario;
use probe_tests::turn::turn;
use probe_trace::Trace as Read;

use super::{attach, counted, numbers};

/// Calls the probe a hundred times, and ends in one of these ways.
pub fn end(way: &str) {
    let trace = attach(
        Trace::recorder().ring_size(1 << 16).total_size(1 << 18).in_file(env::var("TRACE_FILE").unwrap()),
    );
    (1..=100).for_each(|x| _ = counted(x));
    match way {
        // SAFETY: ends the process at once.
        "aborts" => unsafe { libc::abort() },
        // SAFETY: ends the process at once.
        "leaves" => unsafe { libc::_exit(0) },
        "execs" => panic!("{}", Command::new("/bin/true").exec()),
        "finishes" => assert_eq!(trace.finish().unwrap().written, 200),
        "drops" => drop(trace),
        other => panic!("{other}"),
    }
}

#[test]
fn however_a_process_ends_its_events_are_there() {
    let _turn = turn();
    let folder = Folder::new("trace-mapped-ends");
    let path = folder.join("rings.probetrace");
    for way in ["aborts", "leaves", "execs", "finishes", "drops"] {
        let output = scenario::start(&format!("mapped {way}")).env("TRACE_FILE", &path).output().unwrap();
        assert_eq!(output.status.success(), way != "aborts", "{way}: {}", scenario::said(&output));
        assert_eq!(numbers(&path), (1..=100).collect::<Vec<_>>(), "{way}");
        let trace = Read::open(&[&path]).unwrap();
        let has_finished = way == "finishes" || way == "drops";
        assert_eq!(
            trace.totals().map(|totals| (totals.written, totals.lost())),
            has_finished.then_some((200, 0))
        );
        assert_eq!(trace.problems().len(), usize::from(!has_finished), "{:?}", trace.problems());
        // One ring, and the front; the others' room was given back.
        let length = path.metadata().unwrap().len();
        assert_eq!(length < 1 << 17, has_finished, "{way}: {length}");
    }
}
