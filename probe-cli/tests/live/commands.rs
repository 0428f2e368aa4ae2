//! Each command on a running program. Afterwards the program is as before.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use probe_tests::perfetto::callstacks;
use serde_json::Value;

use crate::program::{Folder, Program, Ran, out, run, signal, spawn, until, words};

const OWN: &str = "live::program::**";
const WORK: &str = "live::program::work";
const HALF: &str = "live::program::half";

#[test]
fn a_program_and_its_file_list_the_same() {
    let folder = Folder::new("list");
    let mut program = Program::start(&folder);
    let file = crate::program::this().display().to_string();
    let of_program = out(&folder, &["list", &program.pid()]);
    assert_eq!(of_program, out(&folder, &["list", &file]));
    let lines = words(&of_program);
    assert_eq!(lines[0], ["probe", "kind", "sites", "place", "fields", "group"]);
    assert_eq!(lines[1][..2], ["live::program::half", "point"]);
    let json =
        |of: &str| -> Value { serde_json::from_str(&out(&folder, &["--json", "list", of, OWN])).unwrap() };
    assert_eq!(json(&program.pid())["rows"], json(&file)["rows"]);
    let objects = out(&folder, &["list", "--objects", &program.pid()]);
    let sites = of_program.lines().last().unwrap().strip_prefix("24 probes, ").unwrap();
    let sites = sites.strip_suffix(" sites").unwrap();
    assert_eq!(words(&objects)[1], [&file, "loaded", "24", sites, "0", "-"]);
    let ran = run(&folder, &["list", &program.pid(), "zzz"]);
    assert!(ran.code == Some(4) && ran.err.starts_with("error: no probe matches `zzz`"), "{ran:?}");
    program.is_as_before();
}

/// A measurement of nothing ends with 4, and says why, once.
#[test]
fn a_measurement_of_nothing_is_one() {
    let folder = Folder::new("nothing");
    let mut program = Program::start(&folder);
    let pid = program.pid();
    let nothing = "no probe matches `zzz`";
    for arguments in [&["count"][..], &["latency"], &["aggregate", "count by(thread)"], &["calls"]] {
        let ran = run(&folder, &[arguments, &["-p", &pid, "zzz", "--for", "1ms"]].concat());
        assert_eq!(ran.code, Some(4), "{ran:?}");
        assert_eq!(ran.out.matches(nothing).count() + ran.err.matches(nothing).count(), 1, "{ran:?}");
        let ran = run(&folder, &[arguments, &["--json", "-p", &pid, "zzz", "--for", "1ms"]].concat());
        assert!(ran.code == Some(4) && ran.err.starts_with(&format!("note: {nothing}")), "{ran:?}");
    }
    let why = "points have no calls; select functions, or count or trace";
    for command in ["latency", "calls", "profile", "perf"] {
        let ran = run(&folder, &[command, "-p", &pid, HALF, "--for", "1ms"]);
        assert_eq!((ran.code, &*ran.err), (Some(4), ""), "{command}");
        assert_eq!(ran.out.matches(&format!("{HALF} is left out: {why} it\n")).count(), 1, "{}", ran.out);
        let ran = run(&folder, &[command, "--json", "-p", &pid, HALF, "--for", "1ms"]);
        let note = format!("note: `{HALF}` matches points only: {why} them\n");
        assert_eq!((ran.code, ran.err), (Some(4), note), "{command}");
        let document: Value = serde_json::from_str(&ran.out).unwrap();
        assert_eq!(document["left_out"][0]["function"], HALF, "{document}");
    }
    assert_eq!(run(&folder, &["count", "-p", &pid, WORK, "--for", "1ms"]).code, Some(0));
    let ran = run(&folder, &["enable", "-p", &pid, "**=call_tree"]);
    assert!(ran.code == Some(2) && ran.err.contains("did you mean `call-tree`?"), "{ran:?}");
    assert_eq!(out(&folder, &["list", "-p", &pid, OWN]), out(&folder, &["list", &pid, OWN]));
    assert_eq!(run(&folder, &["list", "-p", &pid, "zzz"]).code, Some(4));
    assert_eq!(run(&folder, &["list", "-p", &pid, "a", "b"]).code, Some(2));
    program.is_as_before();
}

#[test]
fn hits_and_times_are_measured() {
    let folder = Folder::new("measure");
    let mut program = Program::start(&folder);
    let pid = program.pid();
    let counted = program.measured(&folder, &["count", "-p", &pid, OWN]);
    let lines = words(&counted);
    assert_eq!(lines[0], ["probe", "kind", "sites", "hits"]);
    assert_eq!(lines.len(), 4);
    assert!(lines[1..].iter().all(|line| line[3].parse::<u64>().unwrap() > 0), "{counted}");
    program.is_as_before();
    for (command, heading) in [("latency", "function"), ("calls", "total"), ("profile", "function")] {
        let text = program.measured(&folder, &[command, "-p", &pid, OWN]);
        assert!(text.starts_with(heading) || text.trim_start().starts_with(heading), "{command}: {text}");
        assert!(text.contains("live::program::work"), "{command}: {text}");
        program.is_as_before();
    }
    let ran = run(&folder, &["perf", "-p", &pid, OWN, "--for", "50ms"]);
    if ran.code == Some(0) {
        assert!(ran.out.contains(WORK) && ran.err.is_empty(), "{ran:?}");
    } else {
        // The kernel permits none of the events to this user, or there are none in this machine.
        assert_eq!((ran.code, ran.out.as_str()), (Some(3), ""), "{ran:?}");
        assert!(ran.err.starts_with("error: no event can be counted here; cycles, "), "{ran:?}");
    }
    program.is_as_before();
    let document = out(&folder, &["--json", "count", "-p", &pid, OWN, "--for", "50ms"]);
    let json: Value = serde_json::from_str(&document).unwrap();
    assert_eq!((&json["consumer"], json["rows"].as_array().unwrap().len()), (&"count".into(), 3));
    // Into a pipe, each interval has a report of its own.
    let mut child = spawn(&folder, &["count", "-p", &pid, OWN, "--every", "1ms"]);
    let mut headings = BufReader::new(child.stdout.take().unwrap()).lines();
    for _ in 0..2 {
        assert!(headings.any(|line| line.unwrap().starts_with("probe  ")));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    program.is_as_before();
}

#[test]
fn traces_are_recorded_and_read() {
    let folder = Folder::new("record");
    let mut program = Program::start(&folder);
    let pid = program.pid();
    let path = |name: &str| folder.0.join(name).display().to_string();
    let (trace, perfetto) = (path("it.probetrace"), path("it.pftrace"));
    let said = program.measured(&folder, &["record", "-p", &pid, OWN, "-o", &trace]);
    assert!(said.contains("events of 1 thread") && said.ends_with("the trace is it.probetrace\n"), "{said}");
    let report = run(&folder, &["report", &trace]);
    assert!(report.code == Some(0) && report.out.contains("live::program::work"), "{report:?}");
    program.measured(&folder, &["record", "-p", &pid, OWN, "--stack", "-o", &perfetto]);
    let callers: BTreeSet<_> =
        callstacks(Path::new(&perfetto)).into_iter().filter_map(|mut stack| stack.pop()).collect();
    assert_eq!(callers, ["live::program::scenario::{{closure}}".to_owned()].into());
    let ran = run(&folder, &["record", "-p", &pid, OWN, "-o", &path("it.svg")]);
    assert!(ran.code == Some(2) && ran.err.contains("use `.pftrace` or `.probetrace`"), "{ran:?}");
    program.is_as_before();
    let ran = run(&folder, &["snapshot", "-p", &pid, "-o", &path("no.pftrace")]);
    assert!(ran.code == Some(3) && ran.err.contains("has no flight recorder; begin one"), "{ran:?}");
    out(&folder, &["enable", "--keep", "-p", &pid, "**=trace(flight)"]);
    let calls = program.number("calls");
    until(|| program.number("calls") > calls + 50);
    let snapshot = path("snap.probetrace");
    out(&folder, &["snapshot", "-p", &pid, "-o", &snapshot]);
    let report = run(&folder, &["report", &snapshot]);
    assert!(report.out.contains("live::program::work"), "{report:?}");
    assert_eq!(run(&folder, &["disable", "-p", &pid]).err, "note: 1 attachment detached\n");
    program.is_as_before();
}

#[test]
fn the_status_tells_the_programs_own_rules() {
    let folder = Folder::new("status-rules");
    let program =
        Program::with_rules(&folder, "when rate(**::work) > 1 then arm **::work=count at most 1 time");
    program.until(|status| status.rules.as_ref().is_some_and(|it| it.firings == 1));
    let file = folder.0.join("a.rules").display().to_string();
    let status = out(&folder, &["status", "-p", &program.pid()]);
    assert!(status.contains(&format!("\n1 rule of {file}, 1 firing\n")), "{status}");
    let json: Value =
        serde_json::from_str(&out(&folder, &["--json", "status", "-p", &program.pid()])).unwrap();
    assert_eq!(json["rules"], serde_json::json!({"file": file, "rules": 1, "firings": 1}));
}

#[test]
fn attachments_can_be_kept() {
    let folder = Folder::new("keep");
    let mut program = Program::start(&folder);
    let pid = program.pid();
    let said = out(&folder, &["enable", "-p", &pid, "--keep", "**::work, group=live kind=point"]);
    let lines = words(&said);
    assert_eq!(lines[0][2..].join(" "), "count on 3 probes, 3 sites active, 0 refused");
    let json: Value = serde_json::from_str(&out(&folder, &["--json", "status", "-p", &pid])).unwrap();
    assert_eq!((&json["probes"], &json["rows"][0]["kept"]), (&24.into(), &true.into()));
    let status = out(&folder, &["status", "-p", &pid]);
    assert!(status.contains("24 probes") && status.contains("gone    yes"), "{status}");
    assert!(out(&folder, &["list", &pid, OWN]).lines().nth(1).unwrap().ends_with("active"));
    // Two at once.
    let counted = program.measured(&folder, &["count", "-p", &pid, OWN]);
    assert!(counted.contains("live::program::work"), "{counted}");
    let ran = run(&folder, &["disable", "-p", &pid]);
    assert!(ran.code == Some(0) && ran.out.starts_with("probe  "), "{ran:?}");
    program.is_as_before();
    let ran = run(&folder, &["disable", "-p", &pid, "77"]);
    assert!(ran.code == Some(3) && ran.err.starts_with("error: "), "{ran:?}");
    // One that is not there takes nothing from one that is.
    for flag in [&[][..], &["--json"]] {
        let kept = out(&folder, &["--json", "enable", "-p", &pid, "--keep", WORK]);
        let number = serde_json::from_str::<Value>(&kept).unwrap()["attachment"].to_string();
        let ran = run(&folder, &[flag, &["disable", "-p", &pid, &number, "77"]].concat());
        assert_eq!((ran.code, ran.err.as_str()), (Some(3), "error: there is no attachment 77\n"));
        assert!(ran.out.contains(WORK), "{ran:?}");
        if !flag.is_empty() {
            let found: Value = serde_json::from_str(&ran.out).unwrap();
            assert_eq!(
                (found["rows"].as_array().unwrap().len(), found["rows"][0]["attachment"].to_string()),
                (1, number)
            );
        }
        program.is_as_before();
    }
}

/// Ends a command that counts one probe. Returns its hits.
#[track_caller]
fn hits(counting: Child) -> u64 {
    signal("-INT", &counting);
    let ran = Ran::from(counting.wait_with_output().unwrap());
    assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""));
    let counted: Value = serde_json::from_str(&ran.out).unwrap();
    counted["rows"][0]["hits"].as_u64().unwrap()
}

#[test]
fn two_commands_count_side_by_side_and_one_is_killed() {
    let folder = Folder::new("two");
    let mut program = Program::start(&folder);
    let arguments = ["--json", "count", "-p", &program.pid(), "live::program::work kind=entry"];
    let [mut killed, other] = [(); 2].map(|()| spawn(&folder, &arguments));
    program.until(|status| status.attachments.len() == 2);
    let before = program.number("calls");
    killed.kill().unwrap();
    killed.wait().unwrap();
    program.until(|status| status.attachments.len() == 1);
    let calls = program.number("calls");
    until(|| program.number("calls") > calls + 50);
    let after = program.number("calls");
    let hits = hits(other);
    let end = program.number("calls");
    // Each call between the two looks was counted; the call at each look may have been, too.
    assert!((after - before..=end + 1).contains(&(hits + 1)), "{before} {after} {end}: {hits}");
    program.is_as_before();
}

#[test]
fn a_debugger_stops_the_program_meanwhile() {
    if Command::new("gdb").arg("--version").output().is_err() {
        println!("skipped: there is no `gdb`");
        return;
    }
    let folder = Folder::new("debugger");
    let mut program = Program::start(&folder);
    let pid = program.pid();
    let counts = spawn(&folder, &["--json", "count", "-p", &pid, "live::program::work kind=entry"]);
    program.until(|status| status.attachments.len() == 1);
    let [stopped, go] = ["stopped", "go"].map(|name| folder.0.join(name));
    let waits =
        format!("shell touch {}; while [ ! -e {} ]; do sleep 0.01; done", stopped.display(), go.display());
    let mut gdb = Command::new("gdb");
    gdb.args([
        "-batch", "-nx", "-iex", "set debuginfod enabled off", "-p", &pid, "-ex", &waits, "-ex", "detach",
    ]);
    let mut gdb = gdb.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    until(|| stopped.exists() || gdb.try_wait().unwrap().is_some());
    if !stopped.exists() {
        signal("-INT", &counts);
        let _ = (counts.wait_with_output(), gdb.wait());
        println!("skipped: gdb may not trace here");
        return;
    }
    // Another command waits for the program, and is answered once it continues.
    let status = spawn(&folder, &["status", "-p", &pid]);
    fs::write(&go, "").unwrap();
    assert!(gdb.wait().unwrap().success());
    let ran = Ran::from(status.wait_with_output().unwrap());
    assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""), "{}", ran.out);
    let calls = program.number("calls");
    until(|| program.number("calls") > calls + 50);
    let hits = hits(counts);
    assert!(hits >= 50, "{hits}");
    program.is_as_before();
}

#[test]
fn each_command_writes_a_document() {
    let folder = Folder::new("documents");
    let mut program = Program::start(&folder);
    let pid = program.pid();
    let [trace, chrome, flight] = ["a.probetrace", "a.json", "flight.probetrace"].map(|name| {
        let path = folder.0.join(name);
        path.to_str().unwrap().to_owned()
    });
    let document = |arguments: &[&str]| -> Value {
        let ran = run(&folder, &[&["--json"], arguments].concat());
        assert_eq!(ran.code, Some(0), "{arguments:?}: {ran:?}");
        serde_json::from_str(&ran.out).unwrap_or_else(|error| panic!("{arguments:?}: {error}: {}", ran.out))
    };
    for command in ["count", "latency", "calls", "profile", "perf"] {
        let found = document(&[command, "-p", &pid, "live::program::work", "--for", "20ms"]);
        assert_eq!(found["schema"], 1, "{command}: {found}");
    }
    let found = document(&["aggregate", "-p", &pid, "sum(half)", "live::program::half", "--for", "20ms"]);
    assert_eq!(found["schema"], 1, "{found}");
    let found = document(&["record", "-p", &pid, OWN, "--for", "20ms", "-o", &trace]);
    assert_eq!((&found["command"], &found["out"]), (&"record".into(), &trace.as_str().into()));
    let found = document(&["convert", &trace, &chrome]);
    assert_eq!((&found["command"], &found["out"]), (&"convert".into(), &chrome.as_str().into()));
    let kept = document(&["enable", "-p", &pid, "--keep", "live::**=trace(flight)"]);
    assert_eq!((&kept["schema"], &kept["command"]), (&1.into(), &"enable".into()));
    assert_eq!((&kept["pid"], &kept["kept"]), (&program.child.id().into(), &true.into()));
    let row = &kept["rows"][0];
    assert_eq!((&row["consumer"], &row["selector"]), (&"trace".into(), &"live::**".into()));
    assert_eq!((&row["refused"], &row["report"]), (&0.into(), &Value::Null));
    let found = document(&["snapshot", "-p", &pid, "-o", &flight]);
    assert_eq!((&found["command"], &found["out"]), (&"snapshot".into(), &flight.as_str().into()));
    let status = document(&["status", "-p", &pid]);
    assert_eq!((&status["schema"], &status["rows"][0]["attachment"]), (&1.into(), &kept["attachment"]));
    let second = document(&["enable", "-p", &pid, "--keep", "live::program::work=count, **::half=count"]);
    let sites = |at: usize| (&second["rows"][at]["probes"], &second["rows"][at]["active"]);
    assert_eq!((sites(0), sites(1)), ((&2.into(), &2.into()), (&1.into(), &1.into())));
    let found = document(&["disable", "-p", &pid]);
    assert_eq!((&found["schema"], &found["command"]), (&1.into(), &"disable".into()));
    let rows = found["rows"].as_array().unwrap();
    let numbers: Vec<_> = rows.iter().map(|it| &it["attachment"]).collect();
    assert_eq!(numbers, [&kept["attachment"], &second["attachment"]]);
    assert_eq!(rows[0]["consumers"], serde_json::json!([{"consumer": "trace", "report": null}]));
    let hits: Vec<_> = rows[1]["consumers"].as_array().unwrap().iter().map(|it| &it["report"]).collect();
    assert_eq!((hits.len(), &hits[0]["consumer"]), (2, &"count".into()));
    assert_eq!((&hits[0]["rows"][0]["probe"], &hits[1]["rows"][0]["probe"]), (&WORK.into(), &HALF.into()));
    assert_eq!(document(&["disable", "-p", &pid])["rows"], serde_json::json!([]));
    assert_eq!(document(&["attach", "-p", &pid])["command"], "attach");
    let found = document(&["detach", "-p", &pid]);
    assert_eq!((&found["command"], &found["pid"]), (&"detach".into(), &program.child.id().into()));
    assert_eq!((program.number("text"), program.number("wrong")), (0, 0));
}

/// The document has the reports, so it comes at the end. The program may end before.
#[test]
fn what_is_enabled_for_a_while_is_one_document() {
    let folder = Folder::new("enabled");
    let mut program = Program::start(&folder);
    let pid = program.pid();
    let arguments = ["--json", "enable", "-p", &pid, "live::program::work kind=entry=count, **::half=count"];
    let found: Value = serde_json::from_str(&program.measured(&folder, &arguments)).unwrap();
    assert_eq!((&found["command"], &found["kept"]), (&"enable".into(), &false.into()));
    let hits = |row: usize| found["rows"][row]["report"]["rows"][0]["hits"].as_u64().unwrap();
    assert!(hits(0) >= 50 && hits(1) >= 50, "{found}");
    program.is_as_before();
    let child = spawn(&folder, &arguments);
    program.until(|status| !status.attachments.is_empty());
    program.kill();
    let ran = Ran::from(child.wait_with_output().unwrap());
    assert_eq!((ran.code, &*ran.err), (Some(0), "note: the program has ended, and there are no reports\n"));
    let found: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!((&found["rows"][0]["consumer"], &found["rows"][0]["report"]), (&"count".into(), &Value::Null));
}
