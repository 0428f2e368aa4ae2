//! Agents that are brought to programs which run already. Tracing needs root, or
//! `kernel.yama.ptrace_scope` 0; without, these tests say so and leave themselves out.

use std::collections::HashSet;
use std::hint;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use probe_protocol::{Client, ClientError};
use probe_tests::random::Random;
use probe_tests::whole;

use crate::injected_into::{Target, asked, compiled, done};
use crate::preloaded::{differing, with_agent};
use crate::program::{Folder, Program, Ran, name, this, words};

#[test]
fn a_program_of_c_gets_an_agent_and_loses_it() {
    let folder = Folder::new("injected");
    let program = compiled(&folder, &[]);
    let mut target = Target::start(&folder, &mut Command::new(&program));
    let pid = target.pid();
    let before = target.traces();
    let Some(attached) = done(&folder, &["attach", "-p", &pid]) else { return };
    assert!(attached.starts_with(&format!("process {pid}: loaded ")), "{attached}");
    assert!(attached.contains(" which serves ") && attached.contains("one thread was stopped"), "{attached}");
    let again = done(&folder, &["attach", "-p", &pid]).unwrap();
    assert!(again.contains("an agent serves ") && again.ends_with("already\n"), "{again}");
    let counted = done(&folder, &["count", "-p", &pid, "**", "--for", "100ms"]).unwrap();
    let lines = words(&counted);
    assert_eq!(lines[1][..2], ["working", "point"]);
    assert_ne!(lines[1][3], "0", "{counted}");
    assert!(done(&folder, &["enable", "-p", &pid, "--keep", "**=count"]).is_some());
    let detached = done(&folder, &["detach", "-p", &pid]).unwrap();
    assert_eq!(detached, format!("process {pid}: the agent is gone, and all its sites are latent\n"));
    assert_eq!((target.traces(), differing(target.id(), &program)), (before.clone(), 0));
    assert!(matches!(Client::connect(target.id()), Err(ClientError::NoAgent { .. })));

    // Again, for one command. The library is there.
    let ran = asked(&folder, &["count", "-p", &pid, "**", "--for", "100ms"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(
        ran.err.starts_with(&format!("note: process {pid} had no agent: the agent of the library")),
        "{ran:?}"
    );
    assert_eq!((target.traces(), differing(target.id(), &program)), (before.clone(), 0));
    let ran = asked(&folder, &["status", "--no-inject", "-p", &pid]);
    assert_eq!(ran.code, Some(3));
    assert!(ran.err.starts_with(&format!("error: process {pid} can't be asked")), "{ran:?}");

    // A kept attachment keeps the agent.
    assert!(done(&folder, &["enable", "-p", &pid, "--keep", "**=count"]).is_some());
    assert!(done(&folder, &["status", "--no-inject", "-p", &pid]).unwrap().contains("yes"));
    assert!(done(&folder, &["detach", "-n", &name(&program)]).is_some());
    assert_eq!((target.traces(), differing(target.id(), &program)), (before, 0));
    target.is_running();
    assert_eq!(target.end(), "right");
}

/// Threads take the locks of `malloc` and of the loader all the time, and so does a fork. The
/// program has mapped the C library's file a second time.
#[test]
fn a_program_that_takes_all_locks_all_the_time() {
    let folder = Folder::new("injected-mixed");
    let program = compiled(&folder, &[]);
    for _ in 0..if whole::is_asked_for() { 50 } else { 2 } {
        let mut target = Target::start(&folder, Command::new(&program).arg("mixed"));
        let pid = target.pid();
        for _ in 0..3 {
            if done(&folder, &["attach", "-p", &pid]).is_none() {
                return;
            }
            let counted = done(&folder, &["count", "-p", &pid, "**", "--for", "10ms"]).unwrap();
            assert_ne!(words(&counted)[1][3], "0", "{counted}");
            assert!(done(&folder, &["detach", "-p", &pid]).is_some());
        }
        target.is_alone(&program);
        assert_eq!(differing(target.id(), &program), 0);
        assert_eq!(target.end(), "right");
    }
}

#[test]
fn two_commands_at_once_load_one_library() {
    let folder = Folder::new("injected-twice");
    let program = compiled(&folder, &[]);
    for _ in 0..if whole::is_asked_for() { 20 } else { 3 } {
        let mut target = Target::start(&folder, &mut Command::new(&program));
        let pid = target.pid();
        let attaching = [(); 3].map(|()| {
            let mut command = with_agent(&folder, &["attach", "-p", &pid]);
            command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
        });
        for child in attaching {
            let ran: Ran = child.wait_with_output().unwrap().into();
            if ran.err.contains("can't be traced") {
                return println!("left out: {}", ran.err);
            }
            assert_eq!(ran.code, Some(0), "{ran:?}");
        }
        assert_eq!(target.brought().len(), 1);
        assert!(done(&folder, &["detach", "-p", &pid]).is_some());
        assert_eq!(target.brought().len(), 1, "the library stays");
        target.is_alone(&program);
        assert_eq!(target.end(), "right");
    }
}

#[test]
fn a_program_that_forks_all_the_time() {
    let folder = Folder::new("injected-fork");
    let program = compiled(&folder, &[]);
    let mut target = Target::start(&folder, Command::new(&program).arg("fork"));
    let pid = target.pid();
    for _ in 0..5 {
        if done(&folder, &["attach", "-p", &pid]).is_none() {
            return;
        }
        assert!(done(&folder, &["count", "-p", &pid, "**", "--for", "20ms"]).is_some());
        assert!(done(&folder, &["detach", "-p", &pid]).is_some());
    }
    target.is_alone(&program);
    assert_eq!(target.end(), "right");
}

#[test]
fn a_program_in_a_container() {
    let folder = Folder::new("injected-contained");
    let program = compiled(&folder, &[]);
    let tool = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"];
    if !Command::new(tool[0]).args(&tool[1..]).arg("true").stderr(Stdio::null()).status().unwrap().success() {
        println!("left out: only root can have a container");
        return;
    }
    let mut target = Target::under(&folder, &tool, &program);
    let pid = target.pid();
    assert!(done(&folder, &["attach", "-p", &pid]).unwrap().contains("/1.sock"));
    let counted = done(&folder, &["count", "-p", &pid, "**", "--for", "50ms"]).unwrap();
    assert_ne!(words(&counted)[1][3], "0", "{counted}");
    assert!(done(&folder, &["detach", "-p", &pid]).is_some());
    target.is_alone(&program);
    assert_eq!(target.end(), "right");
}

/// A container's filter of system calls refuses some with an error. That of a sandbox may end the
/// program.
#[test]
fn programs_with_filters_of_system_calls() {
    let folder = Folder::new("injected-filtered");
    let program = compiled(&folder, &["-DFILTER=0x50001"]);
    let mut target = Target::start(&folder, &mut Command::new(&program));
    let pid = target.pid();
    let ran = asked(&folder, &["attach", "-p", &pid]);
    if ran.err.contains("can't be traced") || ran.err.contains("which can't be read") {
        return println!("left out: {}", ran.err);
    }
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let counted = done(&folder, &["count", "-p", &pid, "**", "--for", "50ms"]).unwrap();
    assert_ne!(words(&counted)[1][3], "0", "{counted}");
    assert!(done(&folder, &["detach", "-p", &pid]).is_some());
    target.is_alone(&program);
    assert_eq!(target.end(), "right");

    let program = compiled(&folder, &["-DFILTER=0x80000000"]);
    let mut target = Target::start(&folder, &mut Command::new(&program));
    let ran = asked(&folder, &["attach", "-p", &target.pid()]);
    let why = "which might end the program when that makes a call it did not make before";
    assert!(ran.code == Some(3) && ran.err.contains(why), "{ran:?}");
    assert_eq!(target.brought().len(), 0);
    assert_eq!(target.end(), "right");
}

#[test]
fn a_program_that_can_have_none_says_why() {
    let folder = Folder::new("injected-static");
    let program = compiled(&folder, &["-static", "-DSTATIC"]);
    let mut target = Target::start(&folder, &mut Command::new(&program));
    let pid = target.pid();
    let why = |arguments: &[&str]| {
        let ran = asked(&folder, arguments);
        assert_eq!((ran.code, ran.out.as_str()), (Some(3), ""), "{ran:?}");
        ran.err
    };
    let err = why(&["attach", "-p", &pid]);
    if err.contains("can't be traced") {
        return println!("left out: {err}");
    }
    assert!(err.contains("is static"), "{err}");
    let err = why(&["count", "-p", &pid, "**"]);
    assert!(err.starts_with(&format!("error: process {pid} is static")), "{err}");
    assert_eq!(target.end(), "right");
    let mut sleeps = Command::new("sleep").arg("100").spawn().unwrap();
    let err = why(&["attach", "-p", &sleeps.id().to_string()]);
    assert!(err.contains("has no probes; if its plugins will") || err.contains("can't be traced"), "{err}");
    sleeps.kill().unwrap();
    sleeps.wait().unwrap();
}

#[test]
fn a_program_with_a_runtime_of_its_own_gets_its_own_agent() {
    let folder = Folder::new("injected-own");
    let mut program = Program::without_agent(&folder, "serve");
    let pid = program.pid();
    let Some(attached) = done(&folder, &["attach", "-p", &pid]) else { return };
    assert!(attached.contains(&format!("the agent of {} serves ", this().display())), "{attached}");
    // Tasks of tokio, whose threads wait.
    assert_eq!(program.number("requests 10"), 100);
    assert!(done(&folder, &["detach", "-p", &pid]).is_some());
    // On a loaded machine, a task may not run for so long.
    let mut without_hits: Option<HashSet<String>> = None;
    while without_hits.as_ref().is_none_or(|names| !names.is_empty()) {
        let counted = done(&folder, &["count", "-p", &pid, "live::program::**", "--for", "50ms"]).unwrap();
        let words = words(&counted);
        let none = words[1..].iter().filter(|line| line[3] == "0").map(|line| line[..2].join(" "));
        let none = none.collect::<HashSet<_>>();
        without_hits = Some(without_hits.map_or_else(|| none.clone(), |before| &before & &none));
    }
    assert_eq!(program.number("requests 10"), 100);
    assert_eq!((program.number("text"), program.number("wrong")), (0, 0));
}

#[test]
fn agents_come_and_go_beside_toggles() {
    let folder = Folder::new("injected-toggled");
    let mut program = Program::without_agent(&folder, "toggle");
    let pid = program.pid();
    let times = if whole::is_asked_for() { 50 } else { 4 };
    for _ in 0..times {
        if done(&folder, &["attach", "-p", &pid]).is_none() {
            return;
        }
        assert!(done(&folder, &["count", "-p", &pid, "live::program::**", "--for", "5ms"]).is_some());
        assert!(done(&folder, &["detach", "-p", &pid]).is_some());
        assert_eq!(program.number("wrong"), 0);
    }
    let calls = program.number("calls");
    crate::program::until(|| program.number("calls") > calls + 50);
    assert_eq!(program.number("wrong"), 0);
}

/// A killed command has done nothing, or all of it.
#[test]
fn a_command_that_is_killed_stops_nothing() {
    let folder = Folder::new("injected-killed");
    let program = compiled(&folder, &[]);
    let times = if whole::is_asked_for() { 300 } else { 20 };
    let mut random = Random::new(23);
    let mut target = Target::start(&folder, &mut Command::new(&program));
    // The first attach loads the library, and later ones find it. A bit more than each takes.
    let takes = [(); 2].map(|()| {
        let begun = Instant::now();
        done(&folder, &["attach", "-p", &target.pid()])?;
        let took = begun.elapsed();
        done(&folder, &["detach", "-p", &target.pid()])?;
        u64::try_from(took.as_micros()).ok().map(|it| it + it / 8)
    });
    let [Some(first), Some(later)] = takes else { return };
    for time in 0..times {
        // The library is loaded once in a process, so that is done in many.
        if time % 4 == 0 {
            assert_eq!(target.end(), "right", "before {time}");
            target = Target::start(&folder, &mut Command::new(&program));
        }
        let pid = target.pid();
        let mut command = with_agent(&folder, &["attach", "-p", &pid]);
        let mut attaching = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let (begun, after) =
            (Instant::now(), Duration::from_micros(random.below(if time % 4 == 0 { first } else { later })));
        while begun.elapsed() < after {
            hint::spin_loop();
        }
        // It may have ended.
        let _ = attaching.kill();
        attaching.wait().unwrap();
        target.is_running();
        assert!(done(&folder, &["attach", "-p", &pid]).is_some(), "{time}");
        assert!(done(&folder, &["detach", "-p", &pid]).is_some(), "{time}");
        target.is_alone(&program);
        assert_eq!(differing(target.id(), &program), 0, "{time}");
    }
    assert_eq!(target.end(), "right");
}
