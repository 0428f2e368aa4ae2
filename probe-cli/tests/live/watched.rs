//! `probectl watch`: rules on a running program. Afterwards the program is as before.

use std::fs;
use std::io::{BufRead, BufReader, Lines};
use std::process::{Child, ChildStdout, Command, Stdio};

use serde_json::Value;

use crate::program::{Folder, Program, probectl, run, signal, spawn, until};

const WORK: &str = "live::program::work";

/// A watch, and its log.
pub struct Watch {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
    /// The events so far.
    seen: Vec<Value>,
}

impl Watch {
    /// Watches a program by rules, in windows of 50 ms.
    pub fn start(folder: &Folder, program: &Program, rules: &[String]) -> Self {
        Self::with(folder, program, rules, &[])
    }

    fn with(folder: &Folder, program: &Program, rules: &[String], more: &[&str]) -> Self {
        let watch = ["--json", "watch", "-p", &program.pid(), "--every", "50ms"];
        Self::run(probectl(folder, &watch), folder, rules, more)
    }

    /// Watches a process that has the user's folder of sockets of this test.
    pub fn of(folder: &Folder, pid: u32, every: &str, rules: &[String]) -> Self {
        let pid = pid.to_string();
        Self::run(probectl(folder, &["--json", "watch", "-p", &pid, "--every", every]), folder, rules, &[])
    }

    fn run(mut command: Command, folder: &Folder, rules: &[String], more: &[&str]) -> Self {
        command.args(more).args(rules).current_dir(&folder.0);
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, lines, seen: Vec::new() }
    }

    /// Waits for an event, and returns it.
    #[track_caller]
    pub fn event(&mut self, name: &str) -> Value {
        self.one_of(&[name])
    }

    /// Waits for the first of these events, and returns it.
    #[track_caller]
    pub fn one_of(&mut self, names: &[&str]) -> Value {
        let found = self.find(|event| names.iter().any(|name| event["event"] == *name));
        found.unwrap_or_else(|| panic!("no {names:?}: {:#?}", self.seen))
    }

    fn find(&mut self, is_it: impl Fn(&Value) -> bool) -> Option<Value> {
        for line in self.lines.by_ref() {
            let event: Value = serde_json::from_str(&line.unwrap()).unwrap();
            self.seen.push(event.clone());
            if is_it(&event) {
                return Some(event);
            }
        }
        None
    }

    /// Stops it as Ctrl-C does. Returns the events since the start.
    #[track_caller]
    pub fn stop(mut self) -> Vec<Value> {
        signal("-INT", &self.child);
        self.ended()
    }

    /// Waits for its end.
    #[track_caller]
    pub fn ended(&mut self) -> Vec<Value> {
        assert!(self.find(|_| false).is_none());
        assert_eq!(self.child.wait().unwrap().code(), Some(0), "{:#?}", self.seen);
        std::mem::take(&mut self.seen)
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn names(events: &[Value]) -> Vec<&str> {
    events.iter().map(|it| it["event"].as_str().unwrap()).collect()
}

/// Returns the number of events of each of these names.
pub fn counts<const N: usize>(events: &[Value], of: [&str; N]) -> [usize; N] {
    of.map(|name| names(events).iter().filter(|it| **it == name).count())
}

/// Returns the traces in a folder.
fn traces(folder: &Folder) -> Vec<String> {
    let files = fs::read_dir(&folder.0).unwrap().map(|it| it.unwrap().file_name().into_string().unwrap());
    let mut files: Vec<_> = files.filter(|it| it.contains("trace")).collect();
    files.sort();
    files
}

#[test]
fn a_rule_fires_acts_and_ends() {
    let folder = Folder::new("watch");
    let mut program = Program::start(&folder);
    let rule = format!(
        "when rate({WORK}) > 1 && p50({WORK}) < 1s then arm {WORK}=latency, record {WORK} for 100ms to it.probetrace at \
         most 1 time"
    );
    let mut watch = Watch::start(&folder, &program, std::slice::from_ref(&rule));
    let fired = watch.event("fired");
    assert_eq!((&fired["rule"], &fired["firing"]), (&1.into(), &1.into()));
    let values = fired["values"].as_array().unwrap();
    assert_eq!((&values[0]["unit"], &values[1]["unit"]), (&"/s".into(), &"ns".into()));
    assert!(values[0]["value"].as_f64().unwrap() > 1.0, "{fired}");
    let armed = watch.event("armed");
    assert_eq!(armed["text"], format!("{WORK}=latency"));
    program.until(|status| status.attachments.iter().any(|it| it.spec == format!("{WORK}=latency")));
    let recorded = watch.event("recorded")["text"].as_str().unwrap().to_owned();
    assert!(recorded.starts_with("it.probetrace: ") && recorded.contains("events of 1 thread"), "{recorded}");
    let report = run(&folder, &["report", &folder.0.join("it.probetrace").display().to_string()]);
    assert!(report.code == Some(0) && report.out.contains(WORK), "{report:?}");
    let events = watch.stop();
    assert_eq!(names(&events)[..3], ["watching", "waiting", "fired"]);
    assert_eq!(events[1]["text"], rule);
    let last = events.last().unwrap();
    assert_eq!((&last["event"], &last["firings"]), (&"summary".into(), &1.into()));
    assert!(names(&events).contains(&"disarmed"));
    program.is_as_before();
}

#[test]
fn firings_have_files_of_their_own_and_one_text_has_one_attachment() {
    let folder = Folder::new("watch-files");
    let mut program = Program::start(&folder);
    let rules = [
        format!("when count({WORK}) >= 10 then arm {WORK}=latency, record {WORK} for 50ms at most 2 times"),
        format!("when rate({WORK}) > 1 then arm {WORK}=latency"),
    ];
    fs::write(folder.0.join("rule-1.pftrace"), "mine").unwrap();
    let mut watch = Watch::start(&folder, &program, &rules);
    for _ in 0..2 {
        watch.event("recorded");
        watch.find(|it| it["event"] == "ended" && it["rule"] == 1).unwrap();
    }
    // The other rule still holds it.
    program.until(|status| {
        let armed = status.attachments.iter().filter(|it| it.spec == format!("{WORK}=latency"));
        armed.count() == 1
    });
    assert_eq!(traces(&folder), ["rule-1-2.pftrace", "rule-1-3.pftrace", "rule-1.pftrace"]);
    assert_eq!(fs::read(folder.0.join("rule-1.pftrace")).unwrap(), b"mine");
    let events = watch.stop();
    assert_eq!(counts(&events, ["armed", "disarmed", "failed"]), [1, 1, 0], "{events:#?}");
    program.is_as_before();
}

#[test]
fn snapshots_are_of_a_recorder() {
    let folder = Folder::new("watch-snapshot");
    let mut program = Program::start(&folder);
    let rules = [
        format!("when count({WORK}) >= 50 then snapshot {WORK} to a.probetrace at most 1 time"),
        format!("when count({WORK}) >= 50 then snapshot at most 1 time"),
    ];
    let mut watch = Watch::start(&folder, &program, &rules);
    assert_eq!(watch.event("snapshot")["text"], "a.probetrace");
    let failed = watch.event("failed");
    assert!(failed["text"].as_str().unwrap().contains("has no flight recorder"), "{failed}");
    watch.stop();
    let report = run(&folder, &["report", &folder.0.join("a.probetrace").display().to_string()]);
    assert!(report.code == Some(0) && report.out.contains(WORK), "{report:?}");
    assert_eq!(traces(&folder), ["a.probetrace"]);
    program.is_as_before();
}

#[test]
fn commands_run_apart_from_the_log() {
    let folder = Folder::new("watch-run");
    let mut program = Program::start(&folder);
    let rules = [
        format!(
            "when rate({WORK}) > 1 then run 'echo noise; echo noise >&2; env > env; echo $$ > group; exec sleep 1000'"
        ),
        format!("when rate({WORK}) > 1 then run 'exit 7'"),
    ];
    let mut watch = Watch::start(&folder, &program, &rules);
    let failed = watch.event("failed");
    assert_eq!(failed["text"], "`exit 7` has failed: exit status: 7");
    let read = |name: &str| fs::read_to_string(folder.0.join(name)).unwrap_or_default();
    until(|| read("group").ends_with('\n'));
    let events = watch.stop();
    let left = events.iter().find(|it| it["event"] == "left").unwrap();
    assert!(left["text"].as_str().unwrap().ends_with("sleep 1000` goes on"), "{left}");
    // The group is its own, so Ctrl-C at the terminal does not reach it.
    let group = read("group").trim().to_owned();
    let stat = fs::read_to_string(format!("/proc/{group}/stat")).unwrap();
    assert_eq!(stat.rsplit_once(") ").unwrap().1.split(' ').nth(2), Some(group.as_str()));
    assert!(Command::new("kill").arg(&group).status().unwrap().success());
    let env = read("env");
    let variable = |name: &str| env.lines().find_map(|it| it.strip_prefix(name)).unwrap().to_owned();
    assert_eq!((variable("PROBE_RULE_NUMBER="), variable("PROBE_FIRING=")), ("1".to_owned(), "1".to_owned()));
    assert_eq!(variable("PROBE_PID="), program.pid());
    assert_eq!(variable("PROBE_RULE="), rules[0]);
    assert!(variable("PROBE_VALUES=").starts_with(&format!("rate({WORK})=")), "{env}");
    program.is_as_before();
}

#[test]
fn a_consumer_that_does_not_fit_is_tried_again() {
    let folder = Folder::new("watch-refused");
    let mut program = Program::start(&folder);
    let rules = [
        format!("when max(bytes of {WORK}) > 5 then arm {WORK}=count"),
        "when max(half of live::program::half) >= 0 then arm live::program::half=count".to_owned(),
    ];
    let mut watch = Watch::start(&folder, &program, &rules);
    let fired = watch.event("fired");
    assert_eq!(fired["rule"], 2);
    assert_eq!(fired["values"][0]["figure"], "max(half of live::program::half)");
    let failures = |watch: &Watch| {
        watch
            .seen
            .iter()
            .filter(|it| it["event"] == "failed" && it["text"].as_str().unwrap().contains("bytes"))
            .count()
    };
    while failures(&watch) < 3 {
        watch.event("failed");
    }
    let events = watch.stop();
    let summary = events.iter().find(|it| it["event"] == "summary" && it["rule"] == 1).unwrap();
    assert_eq!(summary["windows"], summary["unknown"]);
    program.is_as_before();
}

#[test]
fn the_end_of_the_program_ends_the_watch() {
    let folder = Folder::new("watch-end");
    let mut program = Program::start(&folder);
    let rule =
        format!("when rate({WORK}) > 1 then arm {WORK}=latency, record {WORK} for 1h to it.probetrace");
    let mut watch = Watch::start(&folder, &program, &[rule]);
    watch.event("recording");
    let trace = folder.0.join("it.probetrace");
    until(|| run(&folder, &["report", &trace.display().to_string()]).out.contains(WORK));
    program.kill();
    let events = watch.ended();
    let left: Vec<_> =
        events.iter().filter(|it| it["event"] == "left").map(|it| it["text"].as_str().unwrap()).collect();
    assert_eq!(left, ["it.probetrace has the events until about now", &format!("{WORK}=latency was armed")]);
    assert_eq!(events.last().unwrap()["event"], "summary");
    // Nothing has finished the file.
    let [trace, json] = [trace, folder.0.join("it.json")].map(|it| it.display().to_string());
    let report = run(&folder, &["report", &trace]);
    assert!(report.code == Some(0) && report.out.contains(WORK), "{report:?}");
    assert!(report.err.contains("did not finish the trace"), "{report:?}");
    let converted = run(&folder, &["convert", &trace, &json]);
    assert!(converted.code == Some(0), "{converted:?}");
    assert!(fs::read_to_string(&json).unwrap().contains(WORK));
}

#[test]
fn a_watch_ends_after_its_time() {
    let folder = Folder::new("watch-time");
    let mut program = Program::start(&folder);
    let rule = format!("when count({WORK}) >= 1000000000 then arm {WORK}=latency");
    let events = Watch::with(&folder, &program, &[rule], &["--for", "300ms"]).ended();
    assert_eq!(names(&events), ["watching", "waiting", "summary"]);
    assert_eq!((&events[2]["firings"], &events[2]["unknown"]), (&0.into(), &0.into()));
    program.is_as_before();
}

#[test]
fn a_refused_recording_leaves_nothing() {
    let folder = Folder::new("watch-unrecorded");
    let mut program = Program::start(&folder);
    let rule = format!(
        "when count({WORK}) >= 10 then record {WORK}[bytes > 1] for 10ms, record {WORK} for 10ms to none/it.pftrace at \
         most 2 times"
    );
    let mut watch = Watch::start(&folder, &program, &[rule]);
    for _ in 0..2 {
        let failed = [(); 2].map(|()| watch.event("failed")["text"].as_str().unwrap().to_owned());
        assert!(failed[0].starts_with(&format!("record {WORK}[bytes > 1]: ")), "{failed:?}");
        assert!(failed[1].starts_with("none/it.pftrace can't be written: "), "{failed:?}");
        // The rule continues.
        watch.event("ended");
    }
    watch.stop();
    assert!(traces(&folder).is_empty());
    program.is_as_before();
}

#[test]
fn mistakes_are_errors_at_once() {
    let folder = Folder::new("watch-mistakes");
    let mut program = Program::start(&folder);
    let pid = program.pid();
    let file = folder.0.join("a.rules").display().to_string();
    fs::write(&file, "# slow\nwhen rate(f) > 5ms then snapshot\n").unwrap();
    fs::write(folder.0.join("none.rules"), "# none\n").unwrap();
    let none = folder.0.join("none.rules").display().to_string();
    for (arguments, message) in [
        (
            &["when rate(f) > 5ms then snapshot"][..],
            "error: rule, column 16: `5ms` is no number of hits a second",
        ),
        (&["-f", &file], &format!("error: {file}:2, column 16: `5ms` is no number")),
        (&["-f", &none], &format!("error: {none} has no rule")),
        (
            &["when rate(f) > 5 then arm f=cuont"],
            "error: `f=cuont`: malformed spec, column 3: `cuont` is not a consumer",
        ),
        (&["when rate(f) > 5 then disarm f=count"], "error: rule, column 23: no rule arms `f=count`"),
        (
            &["when rate(f) > 5 then record f for 1s to it.txt"],
            "error: rule, column 42: `it.txt` tells no format",
        ),
        (&["when rate(f) > 5 then snapshot to it"], "error: rule, column 35: `it` tells no format"),
        (&[], "error: the following required arguments were not provided"),
        (
            &["when rate(f) > 5 then snapshot", "--every", "1ms"],
            "error: invalid value '1ms' for '--every <TIME>'",
        ),
    ] {
        let ran = run(&folder, &[&["watch", "-p", &pid], arguments].concat());
        assert!(ran.code == Some(2) && ran.err.starts_with(message), "{arguments:?}: {ran:?}");
    }
    program.is_as_before();
}

#[test]
fn the_log_is_text_without_json() {
    let folder = Folder::new("watch-text");
    let mut program = Program::start(&folder);
    let rule = format!("when rate({WORK}) > 1 then arm {WORK}=count at most 1 time");
    let mut child = spawn(&folder, &["watch", "-p", &program.pid(), &rule, "--every", "20ms"]);
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    let mut said = String::new();
    let armed = format!("  rule 1 armed: {WORK}=count");
    while !said.ends_with(&armed) {
        said.push('\n');
        said.push_str(&lines.next().unwrap());
    }
    signal("-INT", &child);
    lines.for_each(|line| said.push_str(&line));
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert!(
        said.contains("  watching: process ") && said.contains("  rule 1 fired: 1 of 1: rate("),
        "{said}"
    );
    assert!(said.contains("  rule 1 summary: fired 1 time; not known in 0 of "), "{said}");
    program.is_as_before();
}
