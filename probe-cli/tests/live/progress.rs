//! A line on stderr, if that is a terminal, while something takes longer than a second.

use std::fs::File;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::process::Command;

use rustix::fs::{FlockOperation, flock};

use crate::preloaded::with_agent;
use crate::program::{Folder, PROBECTL, Program, run};
use crate::terminal::{SMALL, Terminal};

/// Erases the line.
const ERASED: &str = "\r\x1b[K";

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
    // The first one comes after a second.
    assert!(parts[0].0 >= 30 && parts[0].1 >= 1, "{ran:?}");
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
