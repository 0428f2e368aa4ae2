//! However `probectl` or the program ends, the program's sites are latent again, and it works.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use probe_tests::whole;

use crate::program::{Folder, Program, Ran, run, signal, spawn, until};
use crate::terminal::{SMALL, Terminal};

const OWN: &str = "live::program::**";
const WORK: &str = "live::program::work";

/// Starts a count, and waits until it is attached.
fn counting(folder: &Folder, program: &Program) -> Child {
    let child = spawn(folder, &["count", "-p", &program.pid(), OWN]);
    program.until(|status| !status.attachments.is_empty());
    child
}

#[test]
fn signals_end_it_with_a_report() {
    let folder = Folder::new("signals");
    let mut program = Program::start(&folder);
    for name in ["-INT", "-TERM", "-HUP"] {
        let child = counting(&folder, &program);
        signal(name, &child);
        let ran = Ran::from(child.wait_with_output().unwrap());
        assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""), "{name}");
        assert!(ran.out.contains("live::program::work"), "{name}: {}", ran.out);
        program.is_as_before();
    }
}

/// Each ends well, and has done its work until then. The watch has a consumer of its condition, and
/// one that its rule has armed.
#[test]
fn signals_end_the_other_commands() {
    let folder = Folder::new("signals-others");
    let mut program = Program::start(&folder);
    let pid = program.pid();
    let trace = folder.0.join("it.probetrace").display().to_string();
    let rule = format!("when rate({WORK}) >= 0 then arm {WORK}=latency at most 1 time");
    for (arguments, attached, parts) in [
        (&["record", "-p", &pid, OWN, "-o", &trace][..], 1, &[" events of 1 thread, and 0 lost; "][..]),
        (
            &["trace", "-p", &pid, OWN],
            1,
            &[" entry   live::program::work\n", " exit    live::program::work  "],
        ),
        (
            &["watch", "-p", &pid, &rule, "--every", "20ms"],
            2,
            &[" rule 1 armed: ", " rule 1 summary: fired 1 "],
        ),
        (&["enable", "-p", &pid, OWN], 1, &["attachment ", "\nlive::program::work  entry"]),
    ] {
        for name in ["-INT", "-TERM", "-HUP"] {
            let child = spawn(&folder, arguments);
            program.until(|status| status.attachments.len() == attached);
            let calls = program.number("calls");
            until(|| program.number("calls") > calls + 50);
            signal(name, &child);
            let ran = Ran::from(child.wait_with_output().unwrap());
            assert_eq!(ran.code, Some(0), "{name}: {ran:?}");
            let said = ran.out + &ran.err;
            assert!(parts.iter().all(|part| said.contains(part)), "{name}: {arguments:?}: {said}");
            program.is_as_before();
        }
    }
    let report = run(&folder, &["report", &trace]);
    assert!(report.code == Some(0) && report.out.contains(WORK), "{report:?}");
}

/// Nothing can be shown any more, neither there nor on stderr.
#[test]
fn a_closed_terminal_ends_it() {
    let folder = Folder::new("closed");
    let mut program = Program::start(&folder);
    let arguments = format!("count -p {} '{OWN}' --every 5ms", program.pid());
    let Some(mut terminal) = Terminal::probectl(&folder, SMALL, &arguments) else { return };
    terminal.until(|screen| screen.contains(WORK));
    let mut client = 0;
    program.until(|status| {
        client = status.attachments.first().map_or(0, |it| it.client);
        client != 0
    });
    // The terminal goes with the process that made it.
    terminal.script.kill().unwrap();
    terminal.script.wait().unwrap();
    program.is_as_before();
    until(|| !Path::new(&format!("/proc/{client}")).exists());
}

#[test]
fn a_signal_that_is_ignored_stays_so() {
    let folder = Folder::new("nohup");
    let mut program = Program::start(&folder);
    let line =
        format!("trap '' HUP; exec {} count -p {} '{OWN}'", env!("CARGO_BIN_EXE_probectl"), program.pid());
    let mut shell = Command::new("sh");
    shell.args(["-c", &line]).env("XDG_RUNTIME_DIR", &folder.0).stdin(Stdio::null());
    let child = shell.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    program.until(|status| !status.attachments.is_empty());
    signal("-HUP", &child);
    // One that ends it comes after the one that does not.
    let calls = program.number("calls");
    until(|| program.number("calls") > calls + 50);
    program.until(|status| !status.attachments.is_empty());
    signal("-TERM", &child);
    let ran = Ran::from(child.wait_with_output().unwrap());
    assert!(ran.code == Some(0) && ran.out.contains("live::program::work"), "{ran:?}");
    program.is_as_before();
}

/// A killed `probectl` can clean up nothing, so the agent does.
#[test]
fn it_is_killed_at_any_moment() {
    let turns = if whole::is_asked_for() { 200 } else { 24 };
    let folder = Folder::new("killed");
    let mut program = Program::start(&folder);
    let [trace, of_rule] = ["it.pftrace", "rule.pftrace"].map(|it| folder.0.join(it).display().to_string());
    let rule =
        format!("when rate({WORK}) > 1 then arm {WORK}=latency, record {WORK} for 10ms to '{of_rule}'");
    let commands = [
        &["count", OWN, "--every", "1ms"][..],
        &["latency", OWN, "--every", "1ms"],
        &["calls", OWN, "--every", "1ms"],
        &["profile", OWN, "--every", "1ms"],
        &["record", OWN, "-o", &trace],
        &["trace", OWN],
        &["watch", &rule, "--every", "10ms"],
        &["enable", OWN],
    ];
    let pid = program.pid();
    for turn in 0..turns {
        let arguments = [commands[turn % commands.len()], &["-p", &pid]].concat();
        let mut child = spawn(&folder, &arguments);
        // In each second round once it is attached, else at any moment before or after.
        if (turn / commands.len()).is_multiple_of(2) {
            program.until(|status| !status.attachments.is_empty());
        }
        thread::sleep(Duration::from_micros(turn as u64 * 7919 % 30_000));
        child.kill().unwrap();
        child.wait().unwrap();
        program.until(|status| status.attachments.is_empty());
        assert_eq!(program.number("wrong"), 0, "turn {turn}");
    }
    program.is_as_before();
}

#[test]
fn the_program_ends_meanwhile() {
    let folder = Folder::new("ended");
    let mut program = Program::start(&folder);
    let child = counting(&folder, &program);
    program.kill();
    let ran = Ran::from(child.wait_with_output().unwrap());
    assert_eq!((ran.code, ran.out.as_str()), (Some(3), ""));
    assert_eq!(ran.err, "error: the program has ended before there was a report; ask for some by --every\n");
    let ran =
        Ran::from(crate::program::probectl(&folder, &["status", "-p", &program.pid()]).output().unwrap());
    assert!(ran.code == Some(3) && ran.err.contains("there is no process"), "{ran:?}");
}

#[test]
fn a_program_that_is_started_here_ends_by_itself() {
    let folder = Folder::new("started");
    let this = crate::program::this().display().to_string();
    // Its standard input is empty, so it ends at once, after its last report.
    let mut command = crate::program::probectl(
        &folder,
        &["count", OWN, "--", &this, "program::scenario", "--exact", "--ignored"],
    );
    let ran = Ran::from(command.env("PROBE_TEST_SCENARIO", "serve").output().unwrap());
    assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""));
    assert!(ran.out.contains("live::program::work"), "{ran:?}");
    let ran =
        Ran::from(crate::program::probectl(&folder, &["count", OWN, "--", "/bin/true"]).output().unwrap());
    assert!(ran.code == Some(3) && ran.err.contains("before it could be asked"), "{ran:?}");
    let ran =
        Ran::from(crate::program::probectl(&folder, &["count", OWN, "--", "/no/such"]).output().unwrap());
    assert_eq!(ran.err, "error: /no/such can't be started: No such file or directory (os error 2)\n");
}
