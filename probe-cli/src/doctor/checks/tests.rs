use std::fs;
use std::path::PathBuf;

use super::*;
use crate::doctor::Verdict;

/// A machine that consists of some files.
struct Made(PathBuf);

impl Made {
    fn of(name: &str, files: &[(&str, &str)]) -> Self {
        let root = std::env::temp_dir().join(format!("probectl-doctor-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&root);
        for (path, text) in files {
            let path = root.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        Self(root)
    }

    fn machine(&self) -> Machine {
        Machine::below(&self.0)
    }
}

impl Drop for Made {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

const DENIED: &str = "task-clock: not permitted";
const NO_COUNTER: &str = "cycles: this machine has no counter for it";
const NO_TRACING: &str = "`attach`, `-p` of a program without an agent, and `--ptrace` need root \
                          (CAP_SYS_PTRACE), or sysctl kernel.yama.ptrace_scope=0; programs that were \
                          started with PROBE_AGENT=1 or by `probectl run` don't";
const NO_TRACING_EVER: &str = "`attach`, `-p` of a program without an agent, and `--ptrace` need a \
                               boot with another kernel.yama.ptrace_scope; programs that were \
                               started with PROBE_AGENT=1 or by `probectl run` don't";
const SCOPE: &str = "proc/sys/kernel/yama/ptrace_scope";
const STATUS: &str = "proc/self/status";

#[test]
fn an_open_machine_has_nothing_to_say() {
    let made = Made::of(
        "open",
        &[
            (SCOPE, "0\n"),
            (STATUS, "Name:\tx\nTracerPid:\t0\nCapEff:\t0000000000000000\n"),
            ("sys/bus/event_source/devices/uprobe/type", "8\n"),
            ("sys/kernel/tracing/uprobe_events", ""),
            ("proc/sys/user/max_user_namespaces", "1000\n"),
        ],
    );
    let machine = made.machine();
    for check in
        [perf(|_| Ok(())), ptrace(&machine), uprobes(&machine), namespaces(&machine), folder(Some(&made.0))]
    {
        assert_eq!((check.verdict, check.advice), (Verdict::Good, ""), "{check:?}");
    }
}

#[test]
fn a_closed_machine_gets_advice() {
    let made = Made::of(
        "closed",
        &[
            (SCOPE, "2\n"),
            (STATUS, "CapEff:\t0000000000000000\n"),
            ("sys/bus/event_source/devices/uprobe/type", "8\n"),
            ("sys/kernel/debug/tracing/uprobe_events", "p:a b:1\np:c d:2\n"),
            ("proc/sys/user/max_user_namespaces", "0\n"),
        ],
    );
    let machine = made.machine();
    let denied = |event| if event == PerfEvent::TaskClock { Err(DENIED.to_owned()) } else { Ok(()) };
    let checks = [perf(denied), ptrace(&machine), uprobes(&machine), namespaces(&machine), folder(None)];
    let limited = [
        (
            DENIED,
            "`probectl perf` needs a kernel with CONFIG_PERF_EVENTS, perf_event_open(2) in the \
             filter of system calls, and, as root: sysctl kernel.perf_event_paranoid=2, or \
             CAP_PERFMON",
        ),
        ("ptrace_scope is 2: root alone may debug", NO_TRACING),
        (
            "2 set by tracefs",
            "one at a site's bytes keeps that site as it is; `audit` and `list` name it as foreign",
        ),
        ("user.max_user_namespaces is 0", "containers without root need them; probes don't"),
        (
            "XDG_RUNTIME_DIR is not set",
            "log in with a session manager, or export XDG_RUNTIME_DIR=/run/user/$(id -u)",
        ),
    ];
    for (check, (seen, advice)) in checks.iter().zip(limited) {
        let found = (check.verdict, check.seen.as_str(), check.advice);
        assert_eq!(found, (Verdict::Limited, seen, advice));
    }
}

/// Commands that bring an agent trace programs that are no children of theirs.
#[test]
fn tracing_needs_a_right() {
    for (scope, seen, advice) in [
        ("1", "ptrace_scope is 1: parents may debug their children", NO_TRACING),
        ("2", "ptrace_scope is 2: root alone may debug", NO_TRACING),
        ("3", "ptrace_scope is 3: nobody may debug until the next boot", NO_TRACING_EVER),
    ] {
        let of =
            |capabilities| ptrace(&Made::of("scope", &[(SCOPE, scope), (STATUS, capabilities)]).machine());
        let check = of("CapEff:\t0000000000000000\n");
        assert_eq!((check.verdict, check.seen.as_str(), check.advice), (Verdict::Limited, seen, advice));
        let is_good = of("CapEff:\t0000000000080000\n").verdict == Verdict::Good;
        assert_eq!(is_good, scope != "3");
    }
}

#[test]
fn a_machine_may_lack_counters() {
    let check = perf(|event| if event == PerfEvent::Cycles { Err(NO_COUNTER.to_owned()) } else { Ok(()) });
    let advice = "`probectl perf` counts the kernel's own events here, such as task-clock and \
                  page-faults; those of the processor need a machine, or a virtual one, with a PMU";
    assert_eq!((check.verdict, check.seen.as_str(), check.advice), (Verdict::Limited, NO_COUNTER, advice));
}

#[test]
fn capabilities_and_debuggers_count() {
    let all = (STATUS, "TracerPid:\t0\nCapEff:\t000001ffffffffff\n");
    let made = Made::of("root", &[(SCOPE, "2"), all]);
    assert_eq!(ptrace(&made.machine()).verdict, Verdict::Good);
    let made = Made::of("traced", &[(STATUS, "TracerPid:\t77\nCapEff:\t0\n")]);
    assert_eq!(ptrace(&made.machine()).seen, "process 77 debugs this one");
}

#[test]
fn a_kernel_without_all_of_it() {
    let made = Made::of("bare", &[("proc/sys/kernel/osrelease", "6.1.0\n")]);
    let machine = made.machine();
    let checks = [uprobes(&machine), namespaces(&machine)];
    assert_eq!(
        checks.map(|check| (check.verdict, check.seen)),
        [(); 2].map(|()| { (Verdict::Limited, "the kernel has none".to_owned()) })
    );
    assert!(system(&machine).seen.ends_with("kernel 6.1.0"));
}

#[test]
fn text_that_can_not_be_written_is_bad() {
    let denied = Error::SelfTest { path: "aligned", problem: "mprotect: EACCES".to_owned() };
    let checks = patching(&Err(denied));
    let check = &checks[0];
    assert_eq!((check.name, check.verdict), ("self-test", Verdict::Bad));
    assert!(check.seen.contains("EACCES") && check.advice.contains("TextPolicy::Alias"), "{check:?}");
    // Their results are not known, which is no reason to leave them out.
    let others: Vec<_> =
        checks[1..].iter().map(|it| (it.name, it.verdict.name(), it.seen.as_str())).collect();
    let failed = "the self-test has failed";
    assert_eq!(others, [("membarrier", "not known", failed), ("mprotect of text", "not known", failed)]);
    let checks = patching(&probe_runtime::self_test());
    assert!(checks.iter().all(|check| check.verdict != Verdict::Bad), "{checks:?}");
}

#[test]
fn folders_of_sockets() {
    for (path, seen) in [
        (None, "XDG_RUNTIME_DIR is not set"),
        (Some("run"), "XDG_RUNTIME_DIR is the relative path run"),
        (Some("/no/such"), "XDG_RUNTIME_DIR is /no/such, which is no folder"),
    ] {
        assert_eq!(folder(path.map(Path::new)).seen, seen);
    }
}
