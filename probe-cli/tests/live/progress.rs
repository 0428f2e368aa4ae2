//! A line on stderr, if that is a terminal, while something takes longer than a second.

use std::fs::{self, File};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::process::Command;

use probe_tests::lease::Lease;
use probe_trace::layout::event;
use rustix::fs::{FlockOperation, flock};

use crate::injected_into::{Target, compiled, done};
use crate::made;
use crate::preloaded::with_agent;
use crate::program::{Folder, PROBECTL, Program, out, run};
use crate::terminal::{LARGE, SMALL, Terminal};

/// Erases the line.
pub const ERASED: &str = "\r\x1b[K";

/// Returns the lines that replaced each other, and all that was written after the last one.
fn shown<'a>(written: &'a str, what: &str) -> (Vec<&'a str>, &'a str) {
    let mut lines: Vec<_> = written.split(ERASED).collect();
    let rest = lines.pop().unwrap();
    lines.retain(|it| it.starts_with(what));
    (lines, rest)
}

#[test]
fn a_recording_tells_how_much_of_its_time_is_over() {
    let folder = Folder::new("progress-record");
    let mut program = Program::start(&folder);
    let path = folder.0.join("run.probetrace");
    let arguments = format!("record -p {} 'live::program::**' --for 3s -o {}", program.pid(), path.display());
    let Some(terminal) = Terminal::probectl(&folder, (200, 24), &arguments) else { return };
    let ran = terminal.ran();
    let what = format!("recording to {}: ", path.display());
    let (lines, rest) = shown(&ran.out, &what);
    let of = |line: &str| {
        let (percent, seconds) = line.strip_prefix(&what).unwrap().split_once(" %, ").unwrap();
        let seconds: u64 = seconds.strip_suffix(" s").unwrap().parse().unwrap();
        (percent.parse::<u64>().unwrap(), seconds)
    };
    let parts: Vec<_> = lines.iter().map(|line| of(line)).collect();
    assert!(parts.len() >= 2 && parts.is_sorted(), "{ran:?}");
    // The first one comes after a second. A part is that of a moment before, on a loaded machine.
    assert!(parts[0].0 > 0 && parts[0].1 >= 1, "{ran:?}");
    assert!(parts.iter().all(|(percent, seconds)| percent * 3 <= (seconds + 1) * 100), "{ran:?}");
    assert!(rest.contains(" events of ") && !rest.contains("recording to"), "{ran:?}");

    // Into a pipe, nothing of it.
    let path = path.display().to_string();
    let ran = run(&folder, &["record", "-p", &program.pid(), "**", "--for", "1200ms", "-o", &path]);
    assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""), "{ran:?}");
    program.is_as_before();
}

/// A line that is longer than the terminal would not be erased as a whole.
#[test]
fn it_takes_one_line() {
    let folder = Folder::new("progress-narrow");
    let mut program = Program::start(&folder);
    let arguments = format!(
        "record -p {} 'live::program::**' --for 1500ms -o {}.probetrace",
        program.pid(),
        folder.0.join("a".repeat(90)).display()
    );
    let Some(terminal) = Terminal::probectl(&folder, SMALL, &arguments) else { return };
    let ran = terminal.ran();
    let (lines, _) = shown(&ran.out, "…");
    assert!(!lines.is_empty(), "{ran:?}");
    for line in lines {
        assert!(line.chars().count() == 79 && line.ends_with(" s"), "{line:?}");
    }
    program.is_as_before();
}

/// Sends a signal to the program.
fn signal(name: &str, program: &Program) {
    assert!(Command::new("kill").args([name, &program.pid()]).status().unwrap().success());
}

/// A stopped program gives no answer.
#[test]
fn a_program_that_does_not_answer_is_waited_for() {
    let folder = Folder::new("progress-answer");
    let mut program = Program::start(&folder);
    signal("-STOP", &program);
    let arguments = format!("count -p {} 'live::program::**' --for 100ms", program.pid());
    let Some(terminal) = Terminal::probectl(&folder, SMALL, &arguments) else { return };
    let what = format!("waiting for an answer of process {}: ", program.pid());
    terminal.until(|screen| screen.starts_with(&what));
    signal("-CONT", &program);
    let ran = terminal.ran();
    let (lines, rest) = shown(&ran.out, &what);
    assert!(!lines.is_empty() && ran.code == Some(0), "{ran:?}");
    assert!(rest.starts_with("probe") && !rest.contains("waiting"), "{ran:?}");
    program.is_as_before();
}

/// Another command has the turn to bring one.
#[test]
fn an_agent_may_take_a_while() {
    let folder = Folder::new("progress-agent");
    for command in ["attach", "count 'live::program::**' --for 100ms"] {
        let program = Program::without_agent(&folder, "serve");
        // Whether anybody may trace here.
        let asked = with_agent(&folder, &["status", "-p", &program.pid()]).output().unwrap();
        if String::from_utf8_lossy(&asked.stderr).contains("can't be traced") {
            return println!("left out: nobody may trace here");
        }
        let other = File::open(format!("/proc/{}/mem", program.pid())).unwrap();
        flock(&other, FlockOperation::NonBlockingLockExclusive).unwrap();
        // Any user can have an abstract name, so none keeps a command away.
        let name = SocketAddr::from_abstract_name(format!("latent-probes/inject/{}", program.pid()));
        let _name = UnixListener::bind_addr(&name.unwrap()).unwrap();
        let line = format!("exec {} {command} -p {}", PROBECTL.join(" "), program.pid());
        let Some(terminal) = Terminal::start(&folder, SMALL, &line) else { return };
        let what = format!("bringing an agent to process {}: ", program.pid());
        terminal.until(|screen| screen.starts_with(&what));
        drop(other);
        let ran = terminal.ran();
        let (lines, rest) = shown(&ran.out, &what);
        assert!(!lines.is_empty() && ran.code == Some(0), "{ran:?}");
        assert!(rest.contains("serves") && !rest.contains("bringing"), "{ran:?}");
    }
}

/// Another command has the turn here, too.
#[test]
fn a_program_is_waited_for_to_count_from_outside() {
    let folder = Folder::new("progress-outside");
    let program = compiled(&folder, &["-static", "-DSTATIC"]);
    let mut target = Target::start(&folder, &mut Command::new(&program));
    let pid = target.pid();
    if done(&folder, &["enable", "--ptrace", "--keep", "-p", &pid, "**"]).is_none() {
        return;
    }
    let what = format!("waiting for process {pid}: ");
    for command in ["status", "disable"] {
        let other = File::open(format!("/proc/{pid}/mem")).unwrap();
        flock(&other, FlockOperation::NonBlockingLockExclusive).unwrap();
        let arguments = format!("{command} --ptrace -p {pid}");
        let Some(terminal) = Terminal::probectl(&folder, SMALL, &arguments) else { return };
        terminal.until(|screen| screen.starts_with(&what));
        drop(other);
        let ran = terminal.ran();
        let (lines, rest) = shown(&ran.out, &what);
        assert!(!lines.is_empty() && ran.code == Some(0), "{ran:?}");
        assert!(rest.contains("working") && !rest.contains("waiting"), "{ran:?}");
    }
    assert_eq!(target.end(), "right");
}

/// A program that is stopped gives no report: neither one of many, nor the last one.
#[test]
fn a_report_is_waited_for() {
    let folder = Folder::new("progress-last");
    let mut program = Program::start(&folder);
    let what = format!("waiting for an answer of process {}: ", program.pid());
    for every in ["1s", "1000s"] {
        let arguments = format!("count -p {} 'live::program::**' --every {every}", program.pid());
        let Some(mut terminal) = Terminal::probectl(&folder, SMALL, &arguments) else { return };
        terminal.until(|screen| screen.contains("live::program::work"));
        signal("-STOP", &program);
        if every == "1000s" {
            terminal.press("\x03");
        }
        terminal.until(|screen| screen.contains(&what));
        signal("-CONT", &program);
        if every == "1s" {
            terminal.until(|screen| !screen.contains(&what) && screen.contains("live::program::work"));
            terminal.press("\x03");
        }
        let ran = terminal.ran();
        let (lines, rest) = shown(&ran.out, &what);
        assert!(!lines.is_empty() && ran.code == Some(0), "{ran:?}");
        assert!(rest.contains("live::program::work") && !rest.contains("waiting"), "{ran:?}");
        program.is_as_before();
    }
}

/// A program that serves no socket yet: it waits for somebody to open a pipe.
#[test]
fn an_agent_of_a_started_program_is_waited_for() {
    let folder = Folder::new("progress-started");
    let pipe = folder.0.join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let arguments = format!("count '**' -- sh -c ': > {}'", pipe.display());
    let Some(terminal) = Terminal::probectl(&folder, SMALL, &arguments) else { return };
    let what = "waiting for the agent of sh: ";
    terminal.until(|screen| screen.contains(what));
    drop(File::open(&pipe).unwrap());
    let ran = terminal.ran();
    let (lines, rest) = shown(&ran.out, what);
    assert!(!lines.is_empty() && ran.code == Some(3), "{ran:?}");
    assert!(rest.contains("error: ") && !rest.contains("waiting"), "{ran:?}");
}

/// Returns a trace of one call.
fn trace() -> Vec<u8> {
    let mut file = made::File::new();
    file.definitions(&[made::definition(0, 1, 0, "a::f", &[]), made::definition(1, 2, 0, "a::f", &[])]);
    file.sub_buffer(0, 0, &[], &[event::word(0, 0, 5), event::word(1, 0, 6)]);
    file.reading(1 << 30);
    file.0
}

/// Opening a file takes a while.
#[test]
fn files_that_are_read_slowly() {
    let folder = Folder::new("progress-read");
    let program = compiled(&folder, &[]);
    let [first, other, report] =
        ["first.probetrace", "other.probetrace", "report.json"].map(|name| folder.0.join(name));
    [&first, &other].iter().for_each(|it| fs::write(it, trace()).unwrap());
    let [slow, text] = [&first, &other].map(|it| it.display().to_string());
    fs::write(&report, out(&folder, &["--json", "report", &text])).unwrap();
    let file = program.display();
    for (path, arguments, part) in [
        (&program, format!("list {file}"), "working"),
        (&program, format!("audit {file}"), "0 findings"),
        (&first, format!("report {slow}"), "a::f"),
        (&first, format!("convert {slow} {slow}.json"), ""),
        (&first, format!("diff {slow} {text}"), "a::f"),
        (&report, format!("diff {} {text}", report.display()), "a::f"),
    ] {
        let lease = match Lease::take(path) {
            Ok(lease) => lease,
            Err(error) => return println!("left out: no file can be slow here: {error}"),
        };
        let Some(terminal) = Terminal::probectl(&folder, LARGE, &arguments) else { return };
        let what = format!("reading {}: ", path.display());
        terminal.until(|screen| screen.starts_with(&what));
        drop(lease);
        let ran = terminal.ran();
        let (lines, rest) = shown(&ran.out, &what);
        assert!(!lines.is_empty() && ran.code == Some(0), "{ran:?}");
        assert!(rest.contains(part) && !rest.contains("reading"), "{ran:?}");
    }
}
