//! Counting in programs that run no code of ours, and get none. Tracing needs rights: see
//! [`injected`](crate::injected).

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use probe_inject::{Mapping, Memory};
use probe_tests::random::Random;
use probe_tests::whole;
use serde_json::Value;

use crate::injected_into::{Target, asked, compiled, compiled_by, done, left_out};
use crate::preloaded::{differing, with_agent};
use crate::program::{Folder, Program, Ran, until, words};

/// Returns the executable mappings of no file.
pub fn code_of_no_file(pid: u32) -> Vec<Mapping> {
    let mut maps = probe_inject::maps(pid).unwrap();
    maps.retain(|it| it.is_anonymous() && it.is_executable);
    maps
}

/// Returns the hits of all rows.
pub fn hits(document: &str) -> u64 {
    let document: Value = serde_json::from_str(document).unwrap();
    document["rows"].as_array().unwrap().iter().map(|it| it["hits"].as_u64().unwrap()).sum()
}

/// Counts until it is interrupted.
pub fn counting(folder: &Folder, arguments: &[&str]) -> Child {
    let mut command = with_agent(folder, arguments);
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// Counts until it is interrupted, and waits for a condition. `None` if nobody may trace here,
/// which is said.
#[track_caller]
pub fn counting_until(folder: &Folder, arguments: &[&str], is_so: impl Fn() -> bool) -> Option<Child> {
    let mut counting = counting(folder, arguments);
    until(|| is_so() || counting.try_wait().unwrap().is_some());
    if counting.try_wait().unwrap().is_none() {
        return Some(counting);
    }
    left_out(&counting.wait_with_output().unwrap().into());
    None
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
    assert_eq!((code_of_no_file(target.id()), differing(target.id(), &program)), (vec![], 0));
    let ran = asked(&folder, &["count", "--ptrace", "-p", &pid, "nothing::**"]);
    assert_eq!(ran.code, Some(4), "{ran:?}");

    // For longer than one command.
    assert!(done(&folder, &["enable", "--ptrace", "--keep", "-p", &pid, "working"]).is_some());
    let counted = done(&folder, &["--json", "status", "--ptrace", "-p", &pid]).unwrap();
    assert!(counted.contains("\"command\":\"status\""), "{counted}");
    let again = asked(&folder, &["count", "--ptrace", "-p", &pid, "**"]);
    assert!(again.code == Some(3) && again.err.contains("are counted from outside already"), "{again:?}");
    let counted = done(&folder, &["--json", "disable", "--ptrace", "-p", &pid]).unwrap();
    assert_ne!(hits(&counted), 0, "{counted}");
    assert_eq!((code_of_no_file(target.id()), differing(target.id(), &program)), (vec![], 0));
    let again = asked(&folder, &["disable", "--ptrace", "-p", &pid]);
    assert!(again.code == Some(3) && again.err.contains("nothing of process"), "{again:?}");
    target.is_running();
    assert_eq!(target.end(), "right");
}

/// Counts hits three times. The program is as before then.
fn is_counted(folder: &Folder, target: &mut Target, program: &Path, works: bool) -> Option<()> {
    let pid = target.pid();
    for _ in 0..3 {
        let counted = done(folder, &["--json", "count", "--ptrace", "-p", &pid, "**", "--for", "50ms"])?;
        // A program that only forks works in its children.
        assert!(hits(&counted) != 0 || !works, "{}: {counted}", program.display());
    }
    assert_eq!(differing(target.id(), program), 0, "{}", program.display());
    target.is_running();
    assert_eq!(target.end(), "right", "{}", program.display());
    Some(())
}

#[test]
fn programs_of_other_kinds_are_counted() {
    let folder = Folder::new("outside-kinds");
    let kinds: [(&[&str], &[&str]); _] =
        [(&["-no-pie"], &[]), (&["-pie"], &["fork"]), (&["-static-pie", "-DSTATIC"], &[])];
    for (flags, arguments) in kinds {
        let program = compiled(&folder, flags);
        let mut target = Target::start(&folder, Command::new(&program).args(arguments));
        if is_counted(&folder, &mut target, &program, arguments.is_empty()).is_none() {
            return;
        }
    }
    // A sandbox ends a program that makes a system call which none of this takes.
    let program = compiled(&folder, &["-DFILTER=0x80000000"]);
    let mut target = Target::start(&folder, &mut Command::new(&program));
    let ran = asked(&folder, &["count", "--ptrace", "-p", &target.pid(), "**", "--for", "1ms"]);
    if !ran.err.contains("only root can read it") {
        is_counted(&folder, &mut target, &program, true);
    }
    if Command::new("musl-gcc").arg("--version").output().is_ok() {
        for flags in [&["-static", "-DSTATIC"][..], &["-DSTATIC"]] {
            let program = compiled_by("musl-gcc", &folder, flags);
            let mut target = Target::start(&folder, &mut Command::new(&program));
            is_counted(&folder, &mut target, &program, true);
        }
    }
    let tool = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"];
    if Command::new(tool[0]).args(&tool[1..]).arg("true").stderr(Stdio::null()).status().unwrap().success() {
        let program = compiled(&folder, &[]);
        let mut target = Target::under(&folder, &tool, &program);
        is_counted(&folder, &mut target, &program, true);
    }
}

#[test]
fn a_program_under_a_tracer_says_so() {
    let folder = Folder::new("outside-traced");
    let program = compiled(&folder, &[]);
    let tool = ["strace", "-f", "-q", "-o", "/dev/null", "-e", "trace=none"];
    if !Command::new(tool[0]).args(&tool[1..]).arg("true").status().is_ok_and(|it| it.success()) {
        return println!("left out: there is no strace, or it may not trace");
    }
    let mut target = Target::under(&folder, &tool, &program);
    let ran = asked(&folder, &["count", "--ptrace", "-p", &target.pid(), "**", "--for", "1ms"]);
    assert!(ran.code == Some(3) && ran.err.contains("(strace) already, and can have one tracer"), "{ran:?}");
    assert_eq!(target.end(), "right");
}

/// A program that ends, or becomes another one, takes its counters with it.
#[test]
fn a_program_ends_meanwhile() {
    let folder = Folder::new("outside-ends");
    let program = compiled(&folder, &["-static", "-DSTATIC"]);
    let mut target = Target::start(&folder, &mut Command::new(&program));
    let pid = target.pid();
    let command = ["count", "--ptrace", "-p", &pid, "**", "--every", "5ms"];
    for is_last in [false, true] {
        let mut counting = counting(&folder, &command);
        let mut out = BufReader::new(counting.stdout.take().unwrap());
        let mut line = String::new();
        out.read_line(&mut line).unwrap();
        if line.is_empty() {
            return left_out(&counting.wait_with_output().unwrap().into());
        }
        if is_last {
            assert_eq!(target.end(), "right");
        } else {
            target.execs();
        }
        let mut rest = String::new();
        out.read_to_string(&mut rest).unwrap();
        let ran: Ran = counting.wait_with_output().unwrap().into();
        let note = format!("note: process {pid} has ended; this is the last report before\n");
        assert_eq!((ran.code, ran.err), (Some(0), note), "{rest}");
        if !is_last {
            assert_eq!(differing(target.id(), &program), 0);
            assert!(done(&folder, &["count", "--ptrace", "-p", &pid, "**", "--for", "1ms"]).is_some());
        }
    }
}

/// `probectl count | head -1`.
#[test]
fn nobody_reads_any_further() {
    let folder = Folder::new("outside-closed");
    let program = compiled(&folder, &["-static", "-DSTATIC"]);
    let mut target = Target::start(&folder, &mut Command::new(&program));
    let mut counting = counting(&folder, &["count", "--ptrace", "-p", &target.pid(), "**", "--every", "5ms"]);
    let mut line = String::new();
    BufReader::new(counting.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let ran: Ran = counting.wait_with_output().unwrap().into();
    if line.is_empty() {
        return left_out(&ran);
    }
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert_eq!((code_of_no_file(target.id()), differing(target.id(), &program)), (vec![], 0));
    assert_eq!(target.end(), "right");
}

/// A child keeps the active sites, and a copy of the counters.
#[test]
fn a_child_goes_on_with_active_sites() {
    let folder = Folder::new("outside-child");
    let program = compiled(&folder, &["-static", "-DSTATIC"]);
    let mut target = Target::start(&folder, &mut Command::new(&program));
    let pid = target.pid();
    if done(&folder, &["enable", "--ptrace", "--keep", "-p", &pid, "**"]).is_none() {
        return;
    }
    let child = target.forks();
    assert!(done(&folder, &["disable", "--ptrace", "-p", &pid]).is_some());
    assert_eq!((differing(target.id(), &program), differing(child, &program)), (0, 5));
    assert!(done(&folder, &["disable", "--ptrace", "-p", &child.to_string()]).is_some());
    assert_eq!(differing(child, &program), 0);
    assert_eq!(target.end(), "right");
}

#[test]
fn mistakes_are_told() {
    let folder = Folder::new("outside-mistakes");
    let pid = std::process::id().to_string();
    let said = |arguments: &[&str]| {
        let ran = asked(&folder, arguments);
        assert_eq!((ran.code, ran.out.as_str()), (Some(2), ""), "{ran:?}");
        ran.err
    };
    assert!(said(&["count", "--ptrace", "**", "-n", "name"]).contains("give `-p PID`"));
    assert!(said(&["count", "--ptrace", "**", "--", "true"]).contains("give `-p PID`"));
    assert!(said(&["count", "--ptrace", "-p", &pid, "a::b[x > 1]"]).contains("a::b[x > 1]"));
    assert!(said(&["enable", "--ptrace", "-p", &pid, "**"]).contains("needs --keep"));
    assert!(said(&["enable", "--ptrace", "--keep", "-p", &pid, "**=latency"]).contains("**=latency"));
    assert!(said(&["disable", "--ptrace", "-p", &pid, "1"]).contains("no numbers of attachments"));
    // No process has that one.
    let gone = u32::MAX.to_string();
    for command in [&["count", "**"][..], &["enable", "**", "--keep"], &["status"], &["disable"]] {
        let ran = asked(&folder, &[command, &["--ptrace", "-p", &gone]].concat());
        assert_eq!((ran.code, ran.err), (Some(3), format!("error: there is no process {gone}\n")));
    }
}

#[test]
fn a_command_that_is_killed_leaves_whole_sites() {
    let folder = Folder::new("outside-killed");
    // Counters of many pages.
    let program = compiled(&folder, &["-static", "-DSTATIC", "-DMANY"]);
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
        // Another command ends all that this one has begun.
        let ended = asked(&folder, &["disable", "--ptrace", "-p", &pid]);
        assert!(ended.code == Some(0) || ended.err.contains("nothing of process"), "{ended:?}");
        assert_eq!(differing(target.id(), &program), 0);
    }
    // One that was killed between two steps has left zeros that are nobody's, and no more.
    assert!(code_of_no_file(target.id()).len() <= rounds);
    let memory = Memory::open(target.id()).unwrap();
    for it in code_of_no_file(target.id()) {
        let length = usize::try_from(it.end - it.start).unwrap();
        assert_eq!(memory.bytes(it.start, length).unwrap(), vec![0; length]);
    }
    assert_eq!(target.end(), "right");
}

/// One command at a time has a program open. The next one waits, also for one that is killed then.
#[test]
fn commands_take_turns() {
    let folder = Folder::new("outside-turns");
    let program = compiled(&folder, &[]);
    let mut target = Target::start(&folder, &mut Command::new(&program));
    let pid = target.pid();
    let active = || differing(target.id(), &program) != 0;
    let count = ["count", "--ptrace", "-p", &pid, "**"];
    let Some(mut holder) = counting_until(&folder, &count, active) else { return };
    let waiting = counting(&folder, &["status", "--ptrace", "-p", &pid]);
    let memory = PathBuf::from(format!("/proc/{pid}/mem"));
    until(|| {
        let open = fs::read_dir(format!("/proc/{}/fd", waiting.id())).unwrap().flatten();
        open.filter_map(|it| fs::read_link(it.path()).ok()).any(|it| it == memory)
    });
    holder.kill().unwrap();
    holder.wait().unwrap();
    let ran: Ran = waiting.wait_with_output().unwrap().into();
    assert!(ran.code == Some(0) && words(&ran.out)[1][..2] == ["working", "point"], "{ran:?}");
    assert!(done(&folder, &["disable", "--ptrace", "-p", &pid]).is_some());

    // Two at once.
    let enable = ["enable", "--ptrace", "--keep", "-p", &pid, "**"];
    let both = [(); 2].map(|()| counting(&folder, &enable));
    let mut ran = both.map(|it| Ran::from(it.wait_with_output().unwrap()));
    ran.sort_by_key(|it| it.code);
    assert_eq!([ran[0].code, ran[1].code], [Some(0), Some(3)], "{ran:?}");
    assert!(ran[1].err.contains("are counted from outside already"), "{ran:?}");
    assert!(done(&folder, &["disable", "--ptrace", "-p", &pid]).is_some());
    assert_eq!((code_of_no_file(target.id()), differing(target.id(), &program)), (vec![], 0));
    target.is_running();
    assert_eq!(target.end(), "right");
}

#[test]
fn a_program_with_an_agent_is_left_to_it() {
    let folder = Folder::new("outside-agent");
    let refused = |pid: &str, why: &str| {
        let ran: Ran = asked(&folder, &["count", "--ptrace", "-p", pid, "**", "--for", "1ms"]);
        let is_so = ran.code == Some(3) && ran.err.contains(why);
        assert!(is_so || ran.err.contains("can't be traced"), "{ran:?}");
    };
    let mut program = Program::start(&folder);
    refused(&program.pid(), "has an agent, which switches its sites; leave out --ptrace");
    program.is_as_before();
    let without = Program::without_agent(&folder, "serve");
    refused(&without.pid(), "has a runtime of its own, whose agent can be started; leave out --ptrace");

    // A runtime that has no agent, as its note says.
    let note = "-DNOTE=__asm__(\".pushsection .note.latent_owner,\\\"a\\\",@note\\n.long 12,4,1\\n\
                .asciz \\\"LatentOwner\\\"\\n.long 0\\n.popsection\")";
    let program = compiled(&folder, &[note]);
    let mut target = Target::start(&folder, &mut Command::new(&program));
    let ran = asked(&folder, &["count", "--ptrace", "-p", &target.pid(), "**", "--for", "1ms"]);
    let note = "has a runtime of its own, which can't attach to these sites meanwhile";
    assert!(ran.err.contains(note) || ran.err.contains("can't be traced"), "{ran:?}");
    assert_eq!(target.end(), "right");
}
