//! However `probectl` or the program ends, the program's sites are latent again, and it works.

use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use probe_tests::whole;

use crate::program::{Folder, Program, Ran, signal, spawn, until};

const OWN: &str = "live::program::**";

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
    let child = spawn(&folder, &["enable", "-p", &program.pid(), OWN]);
    program.until(|status| !status.attachments.is_empty());
    signal("-INT", &child);
    let ran = Ran::from(child.wait_with_output().unwrap());
    assert!(ran.out.starts_with("attachment ") && ran.out.contains("probe  "), "{ran:?}");
    program.is_as_before();
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
    let turns = if whole::is_asked_for() { 200 } else { 20 };
    let folder = Folder::new("killed");
    let mut program = Program::start(&folder);
    for turn in 0..turns {
        let commands = ["count", "latency", "calls", "profile"];
        let every = ["--every", "1ms"];
        let pid = program.pid();
        let mut arguments = vec![commands[turn % commands.len()], "-p", &pid, OWN];
        arguments.extend(every);
        let mut child = spawn(&folder, &arguments);
        // In half of the turns once it is attached, else at any moment before or after.
        if turn % 2 == 0 {
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
    // Its standard input is empty, so it ends at once, or shortly after it was asked.
    let mut command = crate::program::probectl(
        &folder,
        &["count", OWN, "--", &this, "program::scenario", "--exact", "--ignored"],
    );
    let ran = Ran::from(command.env("PROBE_TEST_SCENARIO", "serve").output().unwrap());
    assert!(ran.err.contains("has ended"), "{ran:?}");
    let ran =
        Ran::from(crate::program::probectl(&folder, &["count", OWN, "--", "/bin/true"]).output().unwrap());
    assert!(ran.code == Some(3) && ran.err.contains("before it could be asked"), "{ran:?}");
    let ran =
        Ran::from(crate::program::probectl(&folder, &["count", OWN, "--", "/no/such"]).output().unwrap());
    assert_eq!(ran.err, "error: /no/such can't be started: No such file or directory (os error 2)\n");
}
