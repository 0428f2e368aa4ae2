//! Every format mentions missing parts of a report.

use std::fs;
use std::thread;

use probe_runtime::probe;

use crate::folder::Folder;
use crate::stderr;

#[test]
fn what_is_missing_is_said_with_every_format() {
    let probes = "environment_out::work kind=entry=count, environment_out::*=profile(budget=50%)";
    let note = "the consumer is called no more: left behind in the parent of this forked process, with the thread \
                that the consumer needs";
    let folder = Folder::new("missing");
    for (out, said) in
        [("@/%p-%c.json", format!("PROBES, consumer 2 (profile): {note}\n")), ("@/%p-%c.txt", String::new())]
    {
        let output = folder.run("fork", probes, out);
        assert!(output.status.success(), "{output:?}");
        assert_eq!(stderr(&output), said, "{out}: the child's, once");
    }
    let noted = |name: &String| fs::read_to_string(folder.0.join(name)).unwrap().contains(note);
    let noted: Vec<_> = folder.names().into_iter().filter(noted).collect();
    assert_eq!(noted.len(), 2, "the child's profile, as text and as JSON: {noted:?}");
}

/// Calls of a thread that may be under way at a time, and be measured.
const MEASURED: u64 = 8192;

#[probe]
#[inline(never)]
fn deep(calls: u64) -> u64 {
    if calls == 1 { 1 } else { 1 + deep(calls - 1) }
}

/// One more than that, on a stack that has room for them.
pub(crate) fn too_deep() {
    let calls = thread::Builder::new().stack_size(64 << 20).spawn(|| deep(MEASURED + 1)).unwrap();
    assert_eq!(calls.join().unwrap(), MEASURED + 1);
}

const LOST: &str = "1 call was not measured: too many under way, or no memory";
const LEFT_OUT: &str =
    "environment_out::inner is left out: its exit was not selected, or the program does not have it";

#[test]
fn calls_and_functions_are_missing_from_a_file() {
    let probes = |consumer: &str| {
        format!("environment_out::missing::deep, environment_out::inner kind=entry={consumer}")
    };
    let folder = Folder::new("calls");
    let run = |scenario: &str, consumer: &str, out: &str| {
        let output = folder.run(scenario, &probes(consumer), out);
        assert!(output.status.success(), "{output:?}");
        stderr(&output)
    };
    let said = run("too deep", "latency", "@/report.csv");
    assert_eq!(said, format!("PROBES, consumer 1 (latency): {LOST}; {LEFT_OUT}\n"));
    for (consumer, name, ending) in [
        ("call-tree", "call-tree", "csv"),
        ("call-tree", "call-tree", "svg"),
        ("call-tree", "call-tree", "folded"),
        ("profile(budget=50%)", "profile", "csv"),
    ] {
        let said = run("return", consumer, &format!("@/report.{ending}"));
        assert_eq!(said, format!("PROBES, consumer 1 ({name}): {LEFT_OUT}\n"), "{ending}");
    }
    // Text ends with it, and JSON has a place for it.
    for out in ["@/report.txt", "@/report.json"] {
        assert_eq!(run("too deep", "latency", out), "", "{out}");
    }
    let text = fs::read_to_string(folder.0.join("report.txt")).unwrap();
    assert!(text.ends_with(&format!("\n{LOST}\n{LEFT_OUT}\n")), "{text}");
    // Each file has its line.
    let two =
        format!("{}, environment_out::inner kind=exit, environment_out::work=call-tree", probes("latency"));
    let output = folder.run("too deep", &two, "@/%n.csv");
    assert_eq!(
        stderr(&output),
        format!(
            "PROBES, consumer 1 (latency): {LOST}; {LEFT_OUT}\n\
             PROBES, consumer 2 (call-tree): environment_out::inner is left out: its entry was not selected, or the program does not have it\n"
        )
    );
}
