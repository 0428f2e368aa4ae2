//! Counting in programs that run no code of ours, and get none. Tracing needs rights: see
//! [`injected`](crate::injected).

use std::process::{Command, Stdio};
use std::time::Instant;

use probe_tests::random::Random;
use probe_tests::whole;
use serde_json::Value;

use crate::injected_into::{Target, asked, compiled, done};
use crate::preloaded::{differing, with_agent};
use crate::program::{Folder, Program, Ran, this, until, words};

/// Returns the number of executable mappings of no file.
fn code_of_no_file(target: &Target) -> usize {
    let maps = probe_inject::maps(target.id()).unwrap();
    // Calls from outside have one, which stays.
    maps.iter().filter(|it| it.is_anonymous() && it.is_executable).count()
}

fn hits(document: &str) -> u64 {
    let document: Value = serde_json::from_str(document).unwrap();
    document["rows"].as_array().unwrap().iter().map(|it| it["hits"].as_u64().unwrap()).sum()
}

#[test]
fn a_static_program_is_counted() {
    let folder = Folder::new("outside-static");
    let program = compiled(&folder, &["-static", "-DSTATIC"]);
    let mut target = Target::start(&folder, &mut Command::new(&program));
    let pid = target.pid();
    let Some(counted) = done(&folder, &["count", "--ptrace", "-p", &pid, "**", "--for", "200ms"]) else {
        return;
    };
    let lines = words(&counted);
    assert_eq!(lines[0], ["probe", "kind", "sites", "hits"]);
    assert_eq!(lines[1][..2], ["working", "point"]);
    assert_ne!(lines[1][3], "0", "{counted}");
    assert_eq!((code_of_no_file(&target), differing(target.id(), &program)), (0, 0));
    let ran = asked(&folder, &["count", "--ptrace", "-p", &pid, "nothing::**"]);
    assert_eq!(ran.code, Some(4), "{ran:?}");

    // For longer than one command.
    assert!(done(&folder, &["enable", "--ptrace", "--keep", "-p", &pid, "working"]).is_some());
    let again = asked(&folder, &["count", "--ptrace", "-p", &pid, "**"]);
    assert!(again.code == Some(3) && again.err.contains("are counted from outside already"), "{again:?}");
    let counted = done(&folder, &["--json", "disable", "--ptrace", "-p", &pid]).unwrap();
    assert_ne!(hits(&counted), 0, "{counted}");
    assert_eq!((code_of_no_file(&target), differing(target.id(), &program)), (0, 0));
    let again = asked(&folder, &["disable", "--ptrace", "-p", &pid]);
    assert!(again.code == Some(3) && again.err.contains("nothing of process"), "{again:?}");
    target.is_running();
    assert_eq!(target.end(), "right");
}

#[test]
fn programs_of_other_kinds_are_counted() {
    let folder = Folder::new("outside-kinds");
    for (flags, arguments) in
        [(&["-no-pie"][..], &[][..]), (&["-pie"], &["fork"]), (&["-static-pie", "-DSTATIC"], &[])]
    {
        let program = compiled(&folder, flags);
        let mut target = Target::start(&folder, Command::new(&program).args(arguments));
        let pid = target.pid();
        for _ in 0..3 {
            let found = done(&folder, &["--json", "count", "--ptrace", "-p", &pid, "**", "--for", "50ms"]);
            let Some(counted) = found else { return };
            // A program that only forks works in its children.
            assert!(hits(&counted) != 0 || !arguments.is_empty(), "{flags:?}: {counted}");
        }
        assert_eq!(differing(target.id(), &program), 0, "{flags:?}");
        target.is_running();
        assert_eq!(target.end(), "right", "{flags:?}");
    }
}

#[test]
fn a_command_that_is_killed_leaves_whole_sites() {
    let folder = Folder::new("outside-killed");
    let program = compiled(&folder, &["-static", "-DSTATIC"]);
    let mut target = Target::start(&folder, &mut Command::new(&program));
    let pid = target.pid();
    let begun = Instant::now();
    if done(&folder, &["count", "--ptrace", "-p", &pid, "**", "--for", "1ms"]).is_none() {
        return;
    }
    let whole = begun.elapsed();
    let mut random = Random::new(18);
    let rounds = if whole::is_asked_for() { 300 } else { 20 };
    for _ in 0..rounds {
        let mut command = with_agent(&folder, &["count", "--ptrace", "-p", &pid, "**", "--for", "1ms"]);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let after = whole.mul_f64(random.below(1200) as f64 / 1000.0);
        let begun = Instant::now();
        until(|| begun.elapsed() >= after);
        child.kill().unwrap();
        child.wait().unwrap();
        target.is_running();
        // Whatever it has begun can be ended.
        let ended = asked(&folder, &["disable", "--ptrace", "-p", &pid]);
        assert!(ended.code == Some(0) || ended.err.contains("nothing of process"), "{ended:?}");
        assert_eq!(differing(target.id(), &program), 0);
    }
    until(|| code_of_no_file(&target) <= 1);
    assert_eq!(target.end(), "right");
}

#[test]
fn a_program_with_an_agent_is_left_to_it() {
    let folder = Folder::new("outside-agent");
    let mut program = Program::start(&folder);
    let ran: Ran = asked(&folder, &["count", "--ptrace", "-p", &program.pid(), "**", "--for", "1ms"]);
    assert!(ran.code == Some(3) && ran.err.contains("has an agent, which switches its sites"), "{ran:?}");
    program.is_as_before();
    let without = Program::without_agent(&folder, "serve");
    let found = done(
        &folder,
        &["--json", "count", "--ptrace", "-p", &without.pid(), "live::program::work", "--for", "100ms"],
    );
    if let Some(counted) = found {
        assert_ne!(hits(&counted), 0, "{counted}");
        assert_eq!(differing(without.child.id(), &this()), 0);
    }
}
