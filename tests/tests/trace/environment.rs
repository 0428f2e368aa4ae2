//! Traces that `PROBES` asks for: each program is a child of this one.

use std::fs;
use std::hint::black_box;
use std::process::{Command, Output};

use probe_runtime::probe;
use probe_tests::folder::Folder;
use probe_tests::scenario;
use probe_trace::{Item, Trace as Read};

use crate::live::ends;

#[probe(args(*))]
#[inline(never)]
fn asked(number: u64) -> u64 {
    black_box(number)
}

/// Calls the probe in one of these ways, within a guard.
pub fn play(way: &str) {
    let probes = probe_runtime::init_from_env().unwrap();
    (0..1000).for_each(|number| _ = asked(number));
    match way {
        "returns" => drop(probes),
        "exits" => std::process::exit(0),
        "reports twice" => {
            probes.report();
            (1000..3000).for_each(|number| _ = asked(number));
        }
        "forks" => {
            // SAFETY: this process has no other thread but those of the runtime.
            let child = unsafe { libc::fork() };
            asked(if child == 0 { 1 } else { 2 });
            if child != 0 {
                let mut status = -1;
                // SAFETY: a place for the result.
                assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
            }
            std::process::exit(0);
        }
        other => panic!("{other}"),
    }
}

fn run(way: &str, probes: &str, out: &str, folder: &Folder) -> Output {
    let mut command: Command = scenario::start(&format!("environment {way}"));
    command.env("PROBES", probes).env("PROBES_OUT", out).current_dir(&**folder);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    output
}

/// The numbers that the entries of a trace have.
fn numbers(folder: &Folder, name: &str) -> Vec<String> {
    let mut trace = Read::open(&[folder.join(name)]).unwrap();
    assert_eq!(trace.problems(), &[] as &[String]);
    let number = |item| match item {
        Item::Event(event) => event.fields.first().map(ToString::to_string),
        _ => None,
    };
    trace.items().filter_map(|item| number(item.unwrap())).collect()
}

fn up_to(end: u64) -> Vec<String> {
    (0..end).map(|number| number.to_string()).collect()
}

const ALL: &str = "**::environment::asked=trace";
const FLIGHT: &str = "**::environment::asked=trace(flight, size=64K)";

#[test]
fn each_format_has_the_calls_and_the_trace_stands_beside() {
    for ending in ["json", "firefox.json", "folded", "pftrace", "probetrace"] {
        for way in ["returns", "exits"] {
            let folder = Folder::new(&format!("trace-environment-{ending}-{way}"));
            let output = run(way, ALL, &format!("run.{ending}"), &folder);
            let mut expected = vec![format!("run.{ending}"), "run.probetrace".to_owned()];
            expected.sort();
            expected.dedup();
            if ending == "pftrace" {
                // It was written while the program ran.
                assert_eq!(folder.names(), ["run.pftrace"], "{output:?}");
                assert_eq!(ends(&folder.join("run.pftrace")), 1000);
                continue;
            }
            assert_eq!(folder.names(), expected, "{output:?}");
            assert_eq!(numbers(&folder, "run.probetrace"), up_to(1000));
            if ending == "json" {
                let text = fs::read_to_string(folder.join("run.json")).unwrap();
                let events: serde_json::Value = serde_json::from_str(&text).unwrap();
                let begun = events.as_array().unwrap().iter().filter(|event| event["ph"] == "B").count();
                assert_eq!(begun, 1000);
            }
            if ending == "firefox.json" {
                let text = fs::read_to_string(folder.join("run.firefox.json")).unwrap();
                let profile: serde_json::Value = serde_json::from_str(&text).unwrap();
                assert_eq!(profile["threads"][0]["markers"]["length"], 1000);
            }
        }
    }
}

#[test]
fn a_trace_for_perfetto_makes_no_other_format() {
    let folder = Folder::new("trace-environment-other");
    let output = run("returns", &format!("{ALL}(file=mine.pftrace)"), "run.json", &folder);
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(stderr.contains("mine.pftrace is written for Perfetto while the program runs"), "{stderr}");
    assert_eq!(folder.names(), ["mine.pftrace"]);
    assert_eq!(ends(&folder.join("mine.pftrace")), 1000);
}

#[test]
fn a_recorder_leaves_its_report_and_nothing_else() {
    let folder = Folder::new("trace-environment-flight");
    run("returns", FLIGHT, "flight.probetrace", &folder);
    assert_eq!(folder.names(), ["flight.probetrace"]);
    let numbers = numbers(&folder, "flight.probetrace");
    // A ring of 4 KiB has some of the latest calls, and the last one.
    assert!((10..1000).contains(&numbers.len()), "{numbers:?}");
    assert_eq!(numbers[..], up_to(1000)[1000 - numbers.len()..]);
    run("returns", FLIGHT, "flight.pftrace", &folder);
    assert_eq!(folder.names(), ["flight.pftrace", "flight.probetrace"]);
    assert!(fs::metadata(folder.join("flight.pftrace")).unwrap().len() > 1000);
}

#[test]
fn losses_are_one_line_on_stderr() {
    let folder = Folder::new("trace-environment-losses");
    let first = FLIGHT.replace("flight", "first");
    let output = run("returns", &first, "first.pftrace", &folder);
    let stderr = String::from_utf8(output.stderr).unwrap();
    let [line] = stderr.lines().filter(|line| line.contains("lost")).collect::<Vec<_>>().try_into().unwrap();
    let line = line.strip_prefix("PROBES, consumer 1 (trace): ").unwrap();
    let numbers: Vec<u64> = line.split(' ').filter_map(|word| word.parse().ok()).collect();
    assert_eq!(numbers.iter().sum::<u64>(), 2000, "{line}");
    assert!(line.ends_with(" written; the trace shows each gap"), "{line}");
}

#[test]
fn a_report_while_the_program_runs_has_the_trace_so_far() {
    let folder = Folder::new("trace-environment-twice");
    run("reports twice", ALL, "twice.probetrace", &folder);
    assert_eq!(numbers(&folder, "twice.probetrace"), up_to(3000));
}

#[test]
fn a_text_report_says_where_the_trace_is() {
    let folder = Folder::new("trace-environment-text");
    let output = run("returns", ALL, "", &folder);
    let stderr = String::from_utf8(output.stderr).unwrap();
    let [name] = folder.names().try_into().unwrap();
    assert!(
        stderr.contains("2000 events of 1 thread, and 0 lost; the trace is ") && stderr.contains(&name),
        "{name}: {stderr}"
    );
    assert_eq!(numbers(&folder, &name), up_to(1000));
}

#[test]
fn a_forked_child_reports_a_recorder_to_its_own_file_and_no_trace_of_its_parents() {
    let folder = Folder::new("trace-environment-fork");
    run("forks", FLIGHT, "run-%p.probetrace", &folder);
    let mut last: Vec<_> = folder.names().iter().map(|name| numbers(&folder, name).pop().unwrap()).collect();
    last.sort();
    assert_eq!(last, ["1", "2"]);
    let folder = Folder::new("trace-environment-fork-file");
    let output = run("forks", ALL, "run-%p.probetrace", &folder);
    assert_eq!(folder.names().len(), 1, "{output:?}");
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(stderr.contains("ends in a forked child; `flight` goes on there"), "{stderr}");
}

#[test]
fn a_file_that_can_not_be_created_is_named_and_the_program_runs() {
    let folder = Folder::new("trace-environment-missing");
    let output = run("returns", ALL, "/proc/none/x.pftrace", &folder);
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(stderr.contains("is not attached: ") && stderr.contains("/proc/none/x.pftrace"), "{stderr}");
}
