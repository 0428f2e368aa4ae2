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

const PARANOID: &str = "proc/sys/kernel/perf_event_paranoid";
const SCOPE: &str = "proc/sys/kernel/yama/ptrace_scope";
const STATUS: &str = "proc/self/status";

#[test]
fn an_open_machine_has_nothing_to_say() {
    let made = Made::of(
        "open",
        &[
            (PARANOID, "1\n"),
            (SCOPE, "0\n"),
            (STATUS, "Name:\tx\nTracerPid:\t0\nCapEff:\t0000000000000000\n"),
            ("sys/bus/event_source/devices/uprobe/type", "8\n"),
            ("sys/kernel/tracing/uprobe_events", ""),
            ("proc/sys/user/max_user_namespaces", "1000\n"),
        ],
    );
    let machine = made.machine();
    for check in
        [perf(&machine), ptrace(&machine), uprobes(&machine), namespaces(&machine), folder(Some(&made.0))]
    {
        assert_eq!((check.verdict, check.advice), (Verdict::Good, ""), "{check:?}");
    }
}

#[test]
fn a_closed_machine_gets_advice() {
    let made = Made::of(
        "closed",
        &[
            (PARANOID, "4\n"),
            (SCOPE, "2\n"),
            (STATUS, "CapEff:\t0000000000000000\n"),
            ("sys/bus/event_source/devices/uprobe/type", "8\n"),
            ("sys/kernel/debug/tracing/uprobe_events", "p:a b:1\np:c d:2\n"),
            ("proc/sys/user/max_user_namespaces", "0\n"),
        ],
    );
    let machine = made.machine();
    let seen: Vec<_> = [perf(&machine), ptrace(&machine), uprobes(&machine), namespaces(&machine)]
        .map(|check| (check.verdict, check.seen))
        .into();
    let limited = |seen: &str| (Verdict::Limited, seen.to_owned());
    assert_eq!(
        seen,
        [
            limited("perf_event_paranoid is 4: none for users"),
            limited("ptrace_scope is 2"),
            limited("2 set by tracefs"),
            limited("user.max_user_namespaces is 0"),
        ]
    );
}

#[test]
fn capabilities_and_debuggers_count() {
    let all = (STATUS, "TracerPid:\t0\nCapEff:\t000001ffffffffff\n");
    let made = Made::of("root", &[(PARANOID, "4"), (SCOPE, "2"), all]);
    let machine = made.machine();
    assert_eq!([perf(&machine), ptrace(&machine)].map(|check| check.verdict), [Verdict::Good; 2]);
    let made = Made::of("traced", &[(STATUS, "TracerPid:\t77\nCapEff:\t0\n")]);
    assert_eq!(ptrace(&made.machine()).seen, "process 77 debugs this one");
}

#[test]
fn a_kernel_without_all_of_it() {
    let made = Made::of("bare", &[("proc/sys/kernel/osrelease", "6.1.0\n")]);
    let machine = made.machine();
    let checks = [perf(&machine), uprobes(&machine), namespaces(&machine)];
    assert_eq!(
        checks.map(|check| (check.verdict, check.seen)),
        [(); 3].map(|()| { (Verdict::Limited, "the kernel has none".to_owned()) })
    );
    assert!(system(&machine).seen.ends_with("kernel 6.1.0"));
}

#[test]
fn text_that_can_not_be_written_is_bad() {
    let denied = Error::SelfTest { path: "aligned", problem: "mprotect: EACCES".to_owned() };
    let [check] = &patching(&Err(denied))[..] else { panic!("one check") };
    assert_eq!(check.verdict, Verdict::Bad);
    assert!(check.seen.contains("EACCES") && check.advice.contains("TextPolicy::Alias"), "{check:?}");
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
