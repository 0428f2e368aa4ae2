//! Triggers that `PROBES` asks for: each program is a child of this one.

use std::fs;
use std::hint::black_box;
use std::process::Output;
use std::thread;
use std::time::Duration;

use probe_runtime::spec::{Spec, attach_spec};
use probe_runtime::{Error, probe};
use probe_tests::folder::Folder;
use probe_tests::scenario;
use probe_tests::turn::turn;
use probe_trace::TraceEvent;

/// Takes longer than the limit of the tests' triggers.
const SLOW: Duration = Duration::from_millis(20);

#[probe(args(*))]
#[inline(never)]
fn query(number: u64, takes: Duration) {
    fetch(number);
    if !takes.is_zero() {
        thread::sleep(takes);
    }
}

#[probe(args(*))]
#[inline(never)]
fn fetch(number: u64) -> u64 {
    black_box(number)
}

/// Makes calls within a guard.
pub fn play(way: &str) {
    let probes = probe_runtime::init_from_env().unwrap();
    let calls = |from: u64| (from..from + 10).for_each(|number| query(number, Duration::ZERO));
    calls(0);
    query(10, SLOW);
    match way {
        "returns" => drop(probes),
        "exits" => std::process::exit(0),
        "is ended" => {
            // SAFETY: no pointers. The program ends by the signal.
            unsafe { libc::kill(libc::getpid(), libc::SIGTERM) };
            loop {
                thread::park();
            }
        }
        // The snapshot is taken meanwhile, or as the guard drops.
        "goes on" => calls(11),
        // Until the recorder has been armed, and until its snapshot is there.
        "waits" => {
            let file = std::env::current_dir().unwrap().join("run-snapshot-1.probetrace");
            // Not this many that they fill the ring.
            while !file.exists() {
                query(11, Duration::from_micros(200));
            }
            let armed = fs::read(&file).unwrap();
            calls(12);
            assert_eq!(fs::read(&file).unwrap(), armed);
        }
        "is slow until there are two" => {
            let second = std::env::current_dir().unwrap().join("run-snapshot-2.json");
            while !second.exists() {
                query(11, SLOW);
            }
            (0..3).for_each(|_| query(12, SLOW));
        }
        "is slow until it is replaced" => {
            let file = std::env::current_dir().unwrap().join("run-snapshot.probetrace");
            let mut first = None;
            while first.is_none() || fs::read(&file).ok() == first {
                query(11, SLOW);
                first = first.or_else(|| fs::read(&file).ok());
            }
        }
        "forks" => {
            // SAFETY: the child calls what a child of a program with threads may.
            let child = unsafe { libc::fork() };
            if child == 0 {
                query(11, SLOW);
                drop(probes);
                std::process::exit(0);
            }
            let mut status = -1;
            // SAFETY: a place for the result.
            assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
            assert_eq!(status, 0);
        }
        "is attached again" => {
            let text = format!("{TRIGGER}, {RECORDER}");
            for number in 1..=2 {
                let attached = attach_spec(&text).unwrap();
                query(20 + number, SLOW);
                drop(attached);
            }
        }
        other => panic!("{other}"),
    }
}

fn run(way: &str, probes: &str, out: &str, folder: &Folder) -> Output {
    let mut command = scenario::start(&format!("when {way}"));
    command.env("PROBES", probes).env("PROBES_OUT", out).current_dir(&**folder).output().unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

fn events(folder: &Folder, name: &str) -> Vec<TraceEvent> {
    super::events(&folder.join(name))
}

/// The first fields of a function's entries.
fn entries(events: &[TraceEvent], function: &str) -> Vec<u64> {
    let own = events.iter().filter(|event| event.definition.path.ends_with(function));
    own.filter_map(|event| event.fields.first()?.to_string().parse().ok()).collect()
}

const TRIGGER: &str = "when latency(**::when::query) > 15ms then snapshot";
const RECORDER: &str = "**::when::query, **::when::fetch=trace(flight, size=1M)";

#[test]
fn a_slow_call_makes_one_snapshot_that_has_it() {
    for way in ["returns", "exits", "is ended", "goes on"] {
        let folder = Folder::new(&format!("when-{}", way.replace(' ', "-")));
        let output = run(way, &format!("{TRIGGER}, {RECORDER}"), "run.probetrace", &folder);
        assert_eq!(folder.names(), ["run-snapshot-1.probetrace", "run.probetrace"], "{way}: {output:?}");
        let events = events(&folder, "run-snapshot-1.probetrace");
        let (queries, fetches) = (entries(&events, "::query"), entries(&events, "::fetch"));
        assert!(queries.len() >= 11 && queries[..11] == [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10], "{queries:?}");
        assert_eq!(queries[..11], fetches[..11]);
        // The end of the slow call is there, too: four hits of each call, of query and fetch.
        assert!(events.len() >= 44, "{}", events.len());
        let stderr = said(&output);
        let [line] = stderr.lines().filter(|it| it.contains("snapshot")).collect::<Vec<_>>()[..] else {
            panic!("{stderr}")
        };
        assert!(line.starts_with("PROBES: trace::when::query took "), "{line}");
        assert!(
            line.contains(" ms, over 15ms; the snapshot is ") && line.ends_with("run-snapshot-1.probetrace"),
            "{line}"
        );
    }
}

#[test]
fn a_trigger_attaches_more_for_a_while() {
    let folder = Folder::new("when-more");
    let trigger = TRIGGER.replace("snapshot", "attach **::when::* for 50ms, snapshot");
    let probes = format!("**::when::query=trace(flight, size=256M, ring=32M), {trigger}");
    let output = run("waits", &probes, "run.probetrace", &folder);
    assert!(output.status.success(), "{output:?}");
    let events = events(&folder, "run-snapshot-1.probetrace");
    // Before and in the slow call, `fetch` was latent.
    assert_eq!(entries(&events, "::query")[..11], [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
    let fetches = entries(&events, "::fetch");
    assert!(!fetches.is_empty() && fetches.iter().all(|number| *number == 11), "{fetches:?}");
    // And so it was after the snapshot.
    let events = self::events(&folder, "run.probetrace");
    assert!(entries(&events, "::fetch").iter().all(|number| *number == 11));
    assert_eq!(entries(&events, "::query").last(), Some(&21));
}

#[test]
fn who_ends_the_program_waits_for_no_arming() {
    for way in ["returns", "exits", "is ended"] {
        let folder = Folder::new(&format!("when-hours-{}", way.replace(' ', "-")));
        let trigger = TRIGGER.replace("snapshot", "attach **::when::fetch for 1h, snapshot");
        let probes = format!("**::when::query=trace(flight), {trigger}");
        let output = run(way, &probes, "run.probetrace", &folder);
        assert_eq!(folder.names(), ["run-snapshot-1.probetrace", "run.probetrace"], "{output:?}");
        assert_eq!(entries(&events(&folder, "run-snapshot-1.probetrace"), "::query").len(), 11);
    }
}

#[test]
fn snapshots_are_numbered_up_to_a_limit_or_replace_each_other() {
    let options = |options: &str| TRIGGER.replace("snapshot", &format!("snapshot {options} every 1ns"));
    let folder = Folder::new("when-limit");
    let probes = format!("{RECORDER}, {}", options("at most 2 times"));
    let output = run("is slow until there are two", &probes, "run.json", &folder);
    assert_eq!(folder.names(), ["run-snapshot-1.json", "run-snapshot-2.json", "run.json"]);
    let stderr = said(&output);
    let last = stderr.lines().rfind(|line| line.contains("the snapshot is ")).unwrap();
    let [file, end] = ["/run-snapshot-2.json", "; it is the last of 2, as `at most` says"];
    assert!(last.contains(file) && last.ends_with(end), "{last}");
    let folder = Folder::new("when-replace");
    let probes = format!("{RECORDER}, {}", options("in one file"));
    let output = run("is slow until it is replaced", &probes, "run.probetrace", &folder);
    assert_eq!(folder.names(), ["run-snapshot.probetrace", "run.probetrace"]);
    assert_eq!(entries(&events(&folder, "run-snapshot.probetrace"), "::query").last(), Some(&11));
    assert!(said(&output).matches("the snapshot is ").count() > 1);
}

#[test]
fn each_recorder_has_its_snapshot_and_each_trigger_its_number() {
    let folder = Folder::new("when-several");
    let second = TRIGGER.replace("query", "*").replace("15ms", "0.015 s");
    let recorders = "**::when::query=trace(flight, size=1M), **::when::fetch=trace(first, size=1M)";
    let probes = format!("{TRIGGER}, {recorders}, {second}, **::when::query=count");
    run("returns", &probes, "", &folder);
    let files = folder.names();
    let named = |ending: &str| files.iter().filter(|name| name.ends_with(ending)).count();
    assert_eq!(
        [
            "-1-trace-snapshot-1.pftrace", "-1-trace-snapshot-2.pftrace", "-2-trace-snapshot-1.pftrace",
            "-2-trace-snapshot-2.pftrace"
        ]
        .map(named),
        [1; 4],
        "{files:?}"
    );
    assert_eq!(files.len(), 4);
}

#[test]
fn a_text_that_is_attached_again_keeps_the_snapshots_of_the_first_time() {
    let folder = Folder::new("when-again");
    run("is attached again", "**::when::query=count", "", &folder);
    let names = folder.names();
    assert_eq!(names.len(), 2, "{names:?}");
    assert!(
        names[0].ends_with("-snapshot-1.pftrace") && names[1].ends_with("-snapshot-2.pftrace"),
        "{names:?}"
    );
}

#[test]
fn a_forked_child_has_no_trigger() {
    let folder = Folder::new("when-fork");
    let output = run("forks", &format!("{TRIGGER}, {RECORDER}"), "run-%p.probetrace", &folder);
    let names = folder.names();
    let snapshots: Vec<_> = names.iter().filter(|name| name.contains("snapshot")).collect();
    assert_eq!((names.len(), snapshots.len()), (3, 1), "{names:?} {output:?}");
    let [_, child] = names.iter().filter(|name| !name.contains("snapshot")).collect::<Vec<_>>()[..] else {
        panic!()
    };
    assert_eq!(
        entries(&events(&folder, child), "::query").len()
            + entries(&events(&folder, &names[0].replace("-snapshot-1", "")), "::query").len(),
        11 + 12
    );
}

#[test]
fn what_can_not_be_attached_is_named_and_the_rest_is_attached() {
    let folder = Folder::new("when-missing");
    for (trigger, problem) in [
        (TRIGGER.replace("query", "qurey"), "no probe matches `**::when::qurey`; did you mean "),
        (
            TRIGGER.replace("query", "query kind=entry"),
            "no calls can be timed here: trace::when::query is left out: its exit was not selected, or the program does not have it; select entries and exits",
        ),
        (
            TRIGGER.replace("snapshot", "attach nothing::here for 1s, snapshot"),
            "no probe matches `nothing::here`",
        ),
    ] {
        let output = run("returns", &format!("{trigger}, {RECORDER}"), "run.probetrace", &folder);
        let stderr = said(&output);
        assert!(stderr.contains(&format!("PROBES: `{trigger}` is not attached: {problem}")), "{stderr}");
        assert_eq!(folder.names(), ["run.probetrace"]);
    }
    let trigger = TRIGGER.replace("query", "query, **::when::other");
    let output = run("returns", &format!("{trigger}, {RECORDER}"), "run.probetrace", &folder);
    assert!(said(&output).contains("PROBES: no probe matches `**::when::other`"), "{output:?}");
    assert_eq!(folder.names().len(), 2);
}

#[test]
fn a_snapshot_that_can_not_be_written_is_one_line() {
    let folder = Folder::new("when-unwritable");
    fs::write(folder.join("file"), "").unwrap();
    let output = run("returns", &format!("{TRIGGER}, {RECORDER}"), "file/run.probetrace", &folder);
    let stderr = said(&output);
    assert_eq!(stderr.matches("file/run-snapshot-1.probetrace can't be written: ").count(), 1, "{stderr}");
}

#[test]
fn a_malformed_trigger_is_an_error_that_points_at_it() {
    let error = "when latency(a) > 5 then snapshot, **=trace(flight)".parse::<Spec>().unwrap_err();
    assert_eq!(
        error.to_string(),
        "malformed spec, column 19: `5` is no span of time; write `5ms` or `2s`\n  \
         when latency(a) > 5 then snapshot, **=trace(flight)\n                    ^"
    );
    let folder = Folder::new("when-malformed");
    let output = run("returns", "**=trace(flight), when latency(a) > 5ms then snapshots", "", &folder);
    let stderr = said(&output);
    assert!(
        stderr.contains("PROBES, column 46: `snapshots` is no action (did you mean `snapshot`?); there are "),
        "{stderr}"
    );
}

#[test]
fn a_spec_has_triggers() {
    let _turn = turn();
    query(0, Duration::ZERO);
    let text = format!("{RECORDER}, {TRIGGER}");
    let spec: Spec = format!("{TRIGGER} , {RECORDER}").parse().unwrap();
    assert_eq!(spec.to_string(), text);
    let attached = attach_spec(&text).unwrap();
    assert_eq!(attached.len(), 1);
    drop(attached);
    let missing = spec.to_string().replace("latency(**::when::query)", "latency(**::when::qurey)");
    assert!(matches!(attach_spec(&missing), Err(Error::NoMatch { .. })));
    assert!(
        probe_runtime::select("**::when::query")
            .unwrap()
            .probes()
            .iter()
            .all(|it| it.state() == probe_runtime::registry::ProbeState::Latent)
    );
}
