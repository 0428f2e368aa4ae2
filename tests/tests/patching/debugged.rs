//! Debuggers, tracers and valgrind, and the `int3` of this crate: one that passes `SIGTRAP` on is
//! no obstacle; one that keeps it is named, and the program survives.
//! Each scenario is a process of its own, which ends after two minutes at the latest.
#![cfg(all(target_arch = "x86_64", target_os = "linux", not(any(probe_portable, probe_off))))]

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use probe_runtime::patch::word::traps;
use probe_runtime::patch::{RefusalReason, Report, TextPolicy};
use probe_runtime::{Count, Error, ProbeSet, point, select};
use probe_tests::scenario;
use probe_tests::text::Text;

#[inline(never)]
fn work(x: u64) -> u64 {
    point!("work");
    x * 3
}

const PASS: &str = "handle SIGTRAP nostop noprint pass";

/// How gdb runs the child: with these commands.
fn under_gdb(commands: &[&str], scenario: &str) -> Option<Output> {
    let mut tool = vec!["gdb", "-q", "-nx", "-batch", "-iex", "set startup-with-shell off"];
    commands.iter().for_each(|command| tool.extend(["-ex", command]));
    tool.push("--args");
    let output = scenario::under(&tool, scenario)?;
    let said = scenario::said(&output);
    if said.contains("ptrace: Operation not permitted") {
        println!("skipped: gdb may not trace here");
        return None;
    }
    Some(output)
}

#[test]
fn a_debugger_that_keeps_the_signal_is_named() {
    // Asked again after a second, on a machine as slow as that.
    let Some(output) = under_gdb(&["run", "continue", "continue"], "kept") else { return };
    let said = scenario::said(&output);
    assert!((1..=2).contains(&said.matches("received signal SIGTRAP").count()), "{said}");
    assert!(said.contains("debugger_must_pass_on_sigtrap"), "{said}");
    assert!(said.contains("done: kept") && said.contains("exited normally"), "{said}");
}

#[test]
fn a_debugger_that_passes_it_on_is_no_obstacle() {
    // Before the handler is there, what gdb passes on would kill the program: it stops once, where
    // this crate asks.
    let Some(output) = under_gdb(&["run", PASS, "continue"], "passed on") else { return };
    let said = scenario::said(&output);
    assert_eq!(said.matches("received signal SIGTRAP").count(), 1, "{said}");
    assert!(said.contains("done: passed on") && said.contains("exited normally"), "{said}");
}

#[test]
fn a_tracer_that_passes_it_on_is_no_obstacle() {
    let tool = ["strace", "-f", "-qq", "-o", "/dev/null"];
    let Some(output) = scenario::under(&tool, "passed on") else { return };
    let said = scenario::said(&output);
    assert!(output.status.success() && said.contains("done: passed on"), "{said}");
}

#[test]
fn valgrind_passes_it_on() {
    let tool = ["valgrind", "-q", "--tool=none", "--smc-check=all"];
    let Some(output) = scenario::under(&tool, "passed on") else { return };
    let said = scenario::said(&output);
    assert!(output.status.success() && said.contains("done: passed on"), "{said}");
}

#[test]
fn a_debugger_may_come_and_go() {
    let mut child = scenario::start("come and go").stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert!(lines.any(|line| line.contains("ready")));
    let Some(said) = attach_gdb(&child) else {
        child.kill().unwrap();
        child.wait().unwrap();
        return;
    };
    assert_eq!(said.matches("received signal SIGTRAP").count(), 2, "{said}");
    assert!(lines.any(|line| line == "done: come and go"), "{said}");
    assert!(child.wait().unwrap().success());
}

/// Attaches gdb, continues three times, and detaches it; returns its output.
fn attach_gdb(child: &Child) -> Option<String> {
    let process = child.id().to_string();
    let mut gdb = Command::new("gdb");
    gdb.args(["-q", "-nx", "-batch", "-p", &process, "-ex", "continue", "-ex", "continue", "-ex", "detach"]);
    let Ok(output) = gdb.output() else {
        println!("skipped: there is no gdb here");
        return None;
    };
    let said = scenario::said(&output);
    if said.contains("ptrace: Operation not permitted") {
        println!("skipped: gdb may not trace here");
        return None;
    }
    Some(said)
}

/// The scenarios of the children.
#[test]
#[ignore = "other tests play it, in children"]
fn scenario() {
    let asked = scenario::to_play();
    match asked.as_str() {
        "kept" => kept(),
        "passed on" => passed_on(),
        "come and go" => come_and_go(),
        other => panic!("no scenario {other}"),
    }
    println!("done: {asked}");
}

fn ways() -> [ProbeSet; 2] {
    let set = || select("patching::debugged::*").unwrap();
    [set().text_policy(TextPolicy::Alias), set().strict(true)]
}

fn tracer() -> u32 {
    let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
    let tracer = status.lines().find_map(|line| line.strip_prefix("TracerPid:")).unwrap();
    tracer.trim().parse().unwrap()
}

fn assert_named(report: &Report) {
    assert_eq!((report.patched(), report.refused()), (0, 1), "{report}");
    let RefusalReason::NoTrap { problem } = report.refusals()[0].reason() else { panic!("{report}") };
    let named = format!("process {} (\"gdb\"), which traces this one, does not pass SIGTRAP on", tracer());
    assert!(problem.starts_with(&named) && problem.contains(PASS), "{problem}");
}

/// Each way is refused.
fn kept() {
    let text = Text::of_this_process();
    for set in ways() {
        let error = set.attach(Count::new()).unwrap_err();
        let Error::Refused(report) = &error else { panic!("{error}") };
        assert_named(report);
        assert_eq!((work(2), text.differences()), (6, vec![]));
    }
    // Operations that need no trap work.
    let hits = select("patching::debugged::*").unwrap().attach(Count::new()).unwrap();
    assert_eq!((work(2), hits.total()), (6, 1));
}

static STOP: AtomicBool = AtomicBool::new(false);

/// Calls `body` while another thread executes the site.
fn executed(body: impl FnOnce()) {
    thread::scope(|scope| {
        scope.spawn(|| {
            while !STOP.load(Ordering::Relaxed) {
                assert_eq!(work(2), 6);
                thread::yield_now();
            }
        });
        body();
        STOP.store(true, Ordering::Relaxed);
    });
}

fn passed_on() {
    executed(|| {
        for set in ways() {
            let hits = set.attach(Count::new()).unwrap();
            let mut rounds = 0;
            while rounds < 20 || traps() == 0 || hits.total() == 0 {
                assert_eq!((hits.pause().patched(), hits.resume().patched()), (1, 1));
                rounds += 1;
            }
            assert_eq!(hits.detach().patched(), 1);
        }
    });
    assert!(traps() > 0);
}

fn come_and_go() {
    executed(|| {
        let [set, _] = ways();
        let hits = set.attach(Count::new()).unwrap();
        println!("ready");
        while tracer() == 0 {
            thread::yield_now();
        }
        let mut refused = 0;
        while tracer() != 0 {
            let report = hits.pause();
            // It may have gone since.
            if report.refused() != 0 && tracer() != 0 {
                assert_named(&report);
            }
            refused += report.refused();
            hits.resume();
        }
        assert!(refused >= 1);
        assert_eq!((hits.pause().patched(), hits.resume().patched()), (1, 1));
        let before = hits.total();
        work(2);
        assert!(hits.total() > before);
    });
}
