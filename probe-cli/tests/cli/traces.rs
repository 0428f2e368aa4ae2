//! `convert`, `report` and `diff` of traces that are made here, so that all times are known.

use std::fs;

use probe_trace::layout::{block, event};
use serde_json::Value;

use crate::made::{File, definition};
use crate::ran::{Folder, fails, out, run, run_in};

const ENTRY: u8 = 1;
const EXIT: u8 = 2;

/// Makes a trace of one thread: calls of `app::outer`, each of `length` nanoseconds with a call of
/// `app::inner` for the half of it.
fn trace(lengths: impl IntoIterator<Item = u32>) -> File {
    let mut file = File::new();
    file.block(block::PROGRAM, 0, b"app");
    file.definitions(&[
        definition(0, ENTRY, 0, "app::outer", &[]),
        definition(1, EXIT, 0, "app::outer", &[]),
        definition(2, ENTRY, 0, "app::inner", &[]),
        definition(3, EXIT, 0, "app::inner", &[]),
    ]);
    let mut records = Vec::new();
    // A word of zeros would be the end.
    let mut at = 1000;
    for length in lengths {
        let times = [(0, 0), (2, length / 4), (3, length / 4 * 3), (1, length)];
        records.extend(times.map(|(probe, time)| event::word(probe, 0, at + time)));
        at += length + 100;
    }
    file.sub_buffer(0, 0, &[], &records);
    file.reading(1 << 30);
    file.words(block::UNSEEN, 0, &[0, 0]);
    file
}

#[test]
fn a_row_for_each_function() {
    let folder = Folder::new("report");
    let path = folder.file("run.probetrace", trace((1..=100).map(|n| n * 400)).0);
    assert_eq!(
        out(&["report", &path]),
        "function    calls     self    total     mean      p50      p99      max\n\
         app::inner    100  1.01 ms  1.01 ms  10.1 µs  10.0 µs  19.8 µs  20.0 µs\n\
         app::outer    100  1.01 ms  2.02 ms  20.2 µs  20.0 µs  39.6 µs  40.0 µs\n"
    );
    let one = out(&["report", "--top", "1", &path]);
    assert!(one.lines().count() == 3 && one.ends_with("\nand 1 more function\n"), "{one}");
    let json: Value = serde_json::from_str(&out(&["report", "--json", &path])).unwrap();
    let row = &json["rows"][1];
    assert_eq!(
        (&row["function"], &row["calls"], &row["total_ns"]),
        (&"app::outer".into(), &100.into(), &2_020_000.into())
    );
    assert_eq!((&row["self_ns"], &row["mean_ns"]), (&1_010_000.into(), &20200.0.into()));
    assert!(row["error_ns"].as_f64().unwrap() > 0.0);
}

#[test]
fn processes_are_merged() {
    let folder = Folder::new("merged");
    let one = folder.file("one.probetrace", trace([400; 10]).0);
    let other = folder.file("other.probetrace", trace([800; 30]).0);
    let text = out(&["report", &one, &other]);
    assert!(text.contains("app::outer     40  14.0 µs  28.0 µs  700 ns  800 ns  800 ns  800 ns\n"), "{text}");
}

/// A recursion's time counts once; a call that the trace cuts off has no time of a call.
#[test]
fn recursions_and_calls_that_do_not_end() {
    let folder = Folder::new("cut");
    let mut file = File::new();
    file.definitions(&[definition(0, ENTRY, 0, "a::f", &[]), definition(1, EXIT, 0, "a::f", &[])]);
    let records = [(0, 0), (0, 100), (1, 200), (1, 400), (0, 500), (0, 600), (1, 700)];
    file.sub_buffer(0, 0, &[], &records.map(|(probe, time)| event::word(probe, 0, 1000 + time)));
    file.reading(1 << 30);
    let path = folder.file("cut.probetrace", file.0);
    let ran = run(&["report", &path]);
    assert_eq!(ran.code, 0);
    assert!(
        ran.out.ends_with("\na::f          3  600 ns  600 ns  200 ns  100 ns  400 ns  400 ns\n"),
        "{}",
        ran.out
    );
    assert!(ran.err.contains("note: 1 call has not ended in the trace"), "{}", ran.err);
}

#[test]
fn names_in_a_trace_are_cleaned() {
    let folder = Folder::new("names");
    let mut file = File::new();
    let path = "a\x1b[31m::\u{202e}f\n";
    file.definitions(&[definition(0, ENTRY, 0, path, &[]), definition(1, EXIT, 0, path, &[])]);
    file.sub_buffer(0, 0, &[], &[event::word(0, 0, 5), event::word(1, 0, 6)]);
    let trace = folder.file("it.probetrace", file.0);
    let ran = run(&["report", &trace]);
    assert!(ran.out.contains("a\\u{1b}[31m::\\u{202e}f\\n"), "{}", ran.out);
    let ran = run(&["report", "--json", &trace]);
    let json: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(json["rows"][0]["function"], path);
    assert!(!ran.out.contains(['\u{1b}', '\u{202e}']), "{}", ran.out);
}

#[test]
fn traces_become_files_of_other_tools() {
    let folder = Folder::new("convert");
    folder.file("run.probetrace", trace([400; 3]).0);
    let convert = |name: &str| {
        let ran = run_in(&folder.0, &["convert", "run.probetrace", name]);
        assert_eq!((ran.code, ran.out.as_str(), ran.err.as_str()), (0, "", ""), "{name}");
        fs::read(folder.0.join(name)).unwrap()
    };
    assert!(convert("run.pftrace").len() > 100);
    let chrome: Value = serde_json::from_slice(&convert("run.json")).unwrap();
    assert!(chrome.as_array().is_some_and(|events| events.len() >= 6), "{chrome}");
    assert_eq!(
        String::from_utf8(convert("run.folded")).unwrap(),
        "app;thread 101;app::outer 600\napp;thread 101;app::outer;app::inner 600\n"
    );
    let names: Vec<_> = fs::read_dir(&folder.0).unwrap().map(|it| it.unwrap().file_name()).collect();
    assert_eq!(names.len(), 4, "nothing is left beside them: {names:?}");
}

#[test]
fn conversions_that_fail_leave_the_earlier_file() {
    let folder = Folder::new("kept");
    let trace = folder.file("run.probetrace", trace([400]).0);
    let text = folder.file("text", "no trace, but long enough to have a magic number");
    let kept = folder.file("kept.json", "mine");
    assert_eq!(
        fails(3, &["convert", &text, &kept]),
        format!("error: {text} is no trace of latent probes: it does not begin with `probetrc`\n")
    );
    let unknown = folder.0.join("out.svg").display().to_string();
    assert!(fails(2, &["convert", &trace, &unknown]).contains("use `.pftrace`"));
    let nowhere = folder.0.join("no/such/out.json").display().to_string();
    assert!(fails(3, &["convert", &trace, &nowhere]).contains("can't be written: No such file"));
    assert_eq!(fs::read_to_string(kept).unwrap(), "mine");
}

/// A trace cannot choose a file: a link that waits beside the output is not followed.
#[cfg(unix)]
#[test]
fn only_the_output_is_written() {
    let folder = Folder::new("link");
    let trace = folder.file("run.probetrace", trace([400]).0);
    let other = folder.file("other", "untouched");
    let link = folder.0.join("out.folded");
    std::os::unix::fs::symlink(&other, &link).unwrap();
    assert_eq!(out(&["convert", &trace, &link.display().to_string()]), "");
    assert_eq!(fs::read_to_string(other).unwrap(), "untouched");
    assert!(fs::read_to_string(link).unwrap().starts_with("app;"));
}

#[test]
fn slower_functions_are_found() {
    let folder = Folder::new("diff");
    let wave = |n: u32| 4 * (n % 7);
    let before = folder.file("before.probetrace", trace((0..300).map(|n| 400 + wave(n))).0);
    let after = folder.file("after.probetrace", trace((0..300).map(|n| 800 + wave(n))).0);
    let ran = run(&["diff", &before, &after]);
    let lines: Vec<Vec<&str>> = ran.out.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
    assert_eq!(lines[0].join(" "), "function calls before after mean before after change error");
    assert_eq!(lines[1][..3], ["app::inner", "300", "300"]);
    assert_eq!(lines[2][..9], ["app::outer", "300", "300", "412", "ns", "812", "ns", "+97.1", "%"]);
    let ran = run(&["diff", &before, &after, "--fail", "10%"]);
    assert_eq!(ran.code, 1);
    let found = "2 functions are slower by more than 10 %\n  \
        app::inner: mean 206 ns ▸ 406 ns, p50 206 ns ▸ 407 ns\n  \
        app::outer: mean 412 ns ▸ 812 ns, p50 413 ns ▸ 815 ns\n";
    assert!(ran.out.ends_with(found), "{}", ran.out);
    for arguments in [[&before, &after, "100%"], [&before, &before, "0%"], [&after, &before, "0%"]] {
        let ran = run(&["diff", arguments[0], arguments[1], "--fail", arguments[2]]);
        assert!(ran.code == 0 && ran.out.contains("0 functions are slower"), "{ran:?}");
    }
    // A report says the same as its trace.
    let report = folder.file("before.json", out(&["report", "--json", &before]));
    let of_traces = out(&["diff", "--json", &before, &after]);
    let of_report = out(&["diff", "--json", &report, &after]);
    assert_eq!(of_report.replace("before.json", "before.probetrace"), of_traces);
    let json: Value = serde_json::from_str(&of_traces).unwrap();
    assert_eq!(json["rows"][1]["calls"], serde_json::json!([300, 300]));
    // One call in 500 lasts far longer, so the mean has a large error.
    let rare = |n: u32| if n % 500 == 250 { 500_000 } else { 400 + wave(n) };
    let before = folder.file("plain.probetrace", trace((0..2000).map(|n| 400 + wave(n))).0);
    let after = folder.file("rare.probetrace", trace((0..2000).map(rare)).0);
    let report = folder.file("plain.json", out(&["report", "--json", &before]));
    for before in [before, report] {
        let ran = run(&["diff", &before, &after, "--fail", "20%"]);
        let found = "  app::outer: calls over 4.25 µs in 4 of 63 parts of the run, before in 0 of 63\n";
        assert!(ran.code == 1 && ran.out.contains(found), "{ran:?}");
    }
}

#[test]
fn comparisons_that_can_not_be_made_are_explained() {
    let folder = Folder::new("undiff");
    let few = folder.file("few.probetrace", trace([400; 3]).0);
    let ran = run(&["diff", &few, &few, "--fail", "0%"]);
    assert_eq!(ran.code, 0);
    assert!(ran.err.contains("too few calls for an error, so --fail leaves them out: `app::"), "{}", ran.err);
    let other = folder.file("other.json", "{\"schema\":1,\"command\":\"list\",\"rows\":[]}");
    let text = fails(3, &["diff", &other, &few]);
    assert!(
        text.contains("other.json is no report: ") && text.contains("`probectl --json report`"),
        "{text}"
    );
    let wrong = folder.file("wrong.json", "{\"schema\":9,\"command\":\"report\",\"lost\":{\"hits\":0,\"without_entry\":0,\"undefined\":0},\"rows\":[]}");
    assert!(fails(3, &["diff", &few, &wrong]).contains("it is a `report` of schema 9"));
}
