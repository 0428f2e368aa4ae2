//! `trace`: lines as hits come.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read};

use serde_json::Value;

use crate::program::{Folder, Program, Ran, signal, spawn, until, words};

const OWN: &str = "live::program::**";

/// Stops a `trace` after some lines. Returns its lines, and its last messages.
fn traced(folder: &Folder, arguments: &[&str]) -> (String, Ran) {
    let mut child = spawn(folder, arguments);
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let mut lines = String::new();
    for _ in 0..1_000 {
        out.read_line(&mut lines).unwrap();
    }
    signal("-INT", &child);
    out.read_to_string(&mut lines).unwrap();
    (lines, child.wait_with_output().unwrap().into())
}

#[test]
fn lines_come_while_the_program_runs() {
    let folder = Folder::new("trace");
    let mut program = Program::start(&folder);
    let (lines, ran) = traced(&folder, &["trace", "-p", &program.pid(), OWN]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let count = lines.lines().count();
    assert_eq!(ran.err, format!("note: {count} hits, and 0 lost\n"));
    // Sites are switched one after the other, at the beginning, at the end, and around a pause. The
    // exits of calls that began before have no time.
    let lines = words(&lines);
    let is_whole = |call: &&[Vec<&str>]| {
        call.iter().map(|line| line[3]).eq(["entry", "point", "exit"]) && call[2].len() == 7
    };
    let calls: Vec<_> = lines.windows(3).filter(is_whole).collect();
    assert!(calls.len() >= 50, "{lines:?}");
    for call in calls {
        let [entry, half, exit] = call else { panic!("{call:?}") };
        assert_eq!(entry[entry.len() - 2..], ["entry", "live::program::work"]);
        assert_eq!(half[half.len() - 3..half.len() - 1], ["point", "live::program::half"]);
        assert!(half[half.len() - 1].starts_with("half="), "{half:?}");
        let [.., kind, path, time, unit] = exit[..] else { panic!("{exit:?}") };
        assert_eq!([kind, path], ["exit", "live::program::work"]);
        assert!(time.parse::<f64>().is_ok() && unit.ends_with('s'), "{exit:?}");
    }
    program.is_as_before();
}

#[test]
fn each_line_is_an_object() {
    let folder = Folder::new("trace-json");
    let mut program = Program::start(&folder);
    let (out, ran) = traced(&folder, &["--json", "trace", "-p", &program.pid(), OWN]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let rows: Vec<Value> = out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(rows.len() >= 200, "{}", rows.len());
    let points = rows.iter().filter(|row| row["kind"] == "point").collect::<Vec<_>>();
    assert!(points.iter().all(|row| row["probe"] == "live::program::half" && row["fields"]["half"].is_u64()));
    let times: Vec<_> = rows.iter().map(|row| row["time_ns"].as_u64().unwrap()).collect();
    assert!(times.is_sorted());
    // Sites are switched one after the other, so calls at the beginning and at the end may lack
    // some. From the end of a thread's first whole call to that of its last one, each call has all.
    let threads: BTreeSet<_> = rows.iter().map(|row| row["tid"].as_u64()).collect();
    for thread in threads {
        let of_thread: Vec<_> = rows.iter().filter(|row| row["tid"].as_u64() == thread).collect();
        let is_end = |row: &&&Value| row["kind"] == "exit" && row["duration_ns"].is_u64();
        let [first, last] =
            [of_thread.iter().position(|row| is_end(&row)), of_thread.iter().rposition(|row| is_end(&row))];
        let (Some(first), Some(last)) = (first, last) else { continue };
        let whole = &of_thread[first + 1..=last];
        let points = whole.iter().filter(|row| row["kind"] == "point").count();
        assert_eq!(points, whole.iter().filter(is_end).count(), "thread {thread:?}");
    }
    assert_eq!(rows[0]["pid"], program.child.id());
    program.is_as_before();
}

/// While it is stopped, as by Ctrl-Z, the program's file has a limit; lines continue later.
#[test]
fn it_is_stopped_for_a_while() {
    let folder = Folder::new("trace-stopped");
    let mut program = Program::start(&folder);
    let mut child = spawn(&folder, &["trace", "-p", &program.pid(), OWN]);
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let mut lines = String::new();
    out.read_line(&mut lines).unwrap();
    signal("-STOP", &child);
    let spec = format!("{OWN}=trace(limit=64M)");
    program.until(|status| status.attachments.iter().any(|it| it.spec == spec));
    let calls = program.number("calls");
    until(|| program.number("calls") > calls + 1000);
    signal("-CONT", &child);
    // More than the pipe and its reader may hold of before.
    for _ in 0..10_000 {
        out.read_line(&mut lines).unwrap();
    }
    signal("-INT", &child);
    out.read_to_string(&mut lines).unwrap();
    let ran = Ran::from(child.wait_with_output().unwrap());
    let count = lines.lines().count();
    assert_eq!((ran.code, ran.err), (Some(0), format!("note: {count} hits, and 0 lost\n")));
    program.is_as_before();
}

/// The rest is lost with the program, and the lines so far are not.
#[test]
fn the_program_is_killed() {
    let folder = Folder::new("trace-killed");
    let mut program = Program::start(&folder);
    let mut child = spawn(&folder, &["trace", "-p", &program.pid(), OWN]);
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    out.read_line(&mut line).unwrap();
    program.kill();
    out.read_to_string(&mut line).unwrap();
    let ran = Ran::from(child.wait_with_output().unwrap());
    assert!(
        ran.err.starts_with("note: the program has ended; hits shortly before may be missing\n"),
        "{ran:?}"
    );
}

/// Nobody reads further: it ends, and the program's text is as before.
#[test]
fn a_reader_ends_first() {
    let folder = Folder::new("trace-head");
    let mut program = Program::start(&folder);
    let mut child = spawn(&folder, &["trace", "-p", &program.pid(), OWN]);
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
    program.until(|status| status.attachments.is_empty());
    program.is_as_before();
}
