//! `doctor`: checks of this machine and this process, with a remedy for each check that fails.

use std::path::{Path, PathBuf};
use std::{env, fs, io};

use probe_patch::{SelfTest, self_test};
use probe_report::{Table, View, perf_failure};
use serde::Serialize;

use crate::output::{Exit, Failure, Output, document};
use crate::proc_files::{status_field, status_mask};

const CAP_SYS_PTRACE: u32 = 19;

pub(super) fn run(is_json: bool) -> Result<Output, Failure> {
    let folder = env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    let (machine, tested) = (Machine::this(), self_test().map_err(|error| error.to_string()));
    let checks = all_checks(&machine, &tested, |event| count(event, &machine), folder.as_deref());
    let mut shown =
        if is_json { Output::text(document("doctor", &(), &checks)?) } else { Output::whole(view(&checks)) };
    if checks.iter().any(|check| check.verdict == Verdict::Bad) {
        shown.exit = Exit::Finding;
    }
    Ok(shown)
}

fn view(checks: &[Check]) -> View<'_> {
    let mut table = Table::new(["check", "result", "seen"]);
    for check in checks {
        table.push(check.name).push(check.verdict.name()).push(check.seen.as_str());
    }
    let advised = checks.iter().filter(|check| !check.advice.is_empty());
    let notes = advised.map(|check| format!("{}: {}", check.name, check.advice));
    View { notes: notes.collect(), ..View::table(table) }
}

/// How a check ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(into = "&str")]
enum Verdict {
    /// It is as it should be.
    Good,
    /// Something works less well, or not for all users.
    Limited,
    /// Probes can't be switched.
    Bad,
    /// An earlier check has failed, so the result is not known.
    Unknown,
}

impl From<Verdict> for &str {
    fn from(verdict: Verdict) -> Self {
        verdict.name()
    }
}

impl Verdict {
    /// Returns the word for it.
    const fn name(self) -> &'static str {
        match self {
            Self::Good => "ok",
            Self::Limited => "limited",
            Self::Bad => "bad",
            Self::Unknown => "not known",
        }
    }
}

/// A check, and its result.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
struct Check {
    /// The subject.
    #[serde(rename = "check")]
    name: &'static str,
    /// How it ended.
    #[serde(rename = "result")]
    verdict: Verdict,
    /// The observation.
    seen: String,
    /// A remedy; empty where none is needed.
    #[serde(skip_serializing_if = "str::is_empty")]
    advice: &'static str,
}

impl Check {
    fn good(name: &'static str, seen: impl Into<String>) -> Self {
        Self { name, verdict: Verdict::Good, seen: seen.into(), advice: "" }
    }

    fn limited(name: &'static str, seen: impl Into<String>, advice: &'static str) -> Self {
        Self { name, verdict: Verdict::Limited, seen: seen.into(), advice }
    }

    fn unknown(name: &'static str, seen: impl Into<String>) -> Self {
        Self { name, verdict: Verdict::Unknown, seen: seen.into(), advice: "" }
    }

    fn bad(name: &'static str, seen: impl Into<String>, advice: &'static str) -> Self {
        Self { name, verdict: Verdict::Bad, seen: seen.into(), advice }
    }
}

/// The system's files, below a root that tests replace.
struct Machine {
    root: PathBuf,
}

impl Machine {
    /// The machine at hand.
    fn this() -> Self {
        Self::below("/")
    }

    /// The files below a folder.
    fn below(root: impl AsRef<Path>) -> Self {
        Self { root: root.as_ref().to_owned() }
    }

    fn path(&self, path: &str) -> PathBuf {
        self.root.join(path.trim_start_matches('/'))
    }

    /// Returns a file's text without the spaces around it; `None` if it can't be read.
    fn text(&self, path: &str) -> Option<String> {
        Some(fs::read_to_string(self.path(path)).ok()?.trim().to_owned())
    }

    /// Returns the number in a file.
    fn number(&self, path: &str) -> Option<i64> {
        self.text(path)?.parse().ok()
    }

    /// Returns whether there is such a file.
    fn has(&self, path: &str) -> bool {
        self.path(path).exists()
    }

    /// Returns the process that debugs this one.
    fn tracer(&self) -> Option<String> {
        let status = self.text("proc/self/status")?;
        status_field(&status, "TracerPid").filter(|pid| *pid != "0").map(str::to_owned)
    }

    fn has_capability(&self, number: u32) -> bool {
        let status = self.text("proc/self/status").unwrap_or_default();
        status_mask(&status, "CapEff") >> number & 1 != 0
    }
}

/// An event that the kernel or the processor counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum PerfEvent {
    TaskClock,
    Cycles,
}

/// Counts an event of this thread for a moment.
///
/// # Errors
/// The reason why it can't be counted.
#[cfg(target_os = "linux")]
fn count(event: PerfEvent, machine: &Machine) -> Result<(), String> {
    use perf_event::Builder;
    use perf_event::events::{Hardware, Software};

    let (name, counter) = match event {
        PerfEvent::TaskClock => ("task-clock", Builder::new().kind(Software::TASK_CLOCK).build()),
        PerfEvent::Cycles => ("cycles", Builder::new().kind(Hardware::CPU_CYCLES).build()),
    };
    let paranoid =
        machine.number("proc/sys/kernel/perf_event_paranoid").and_then(|it| i32::try_from(it).ok());
    let why = |error: io::Error| match error.raw_os_error() {
        Some(number) => perf_failure(number, paranoid),
        None => error.to_string(),
    };
    counter.map(drop).map_err(|error| format!("{name}: {}", why(error)))
}

#[cfg(not(target_os = "linux"))]
fn count(_: PerfEvent, _: &Machine) -> Result<(), String> {
    Err("other systems have no perf_event_open".to_owned())
}

/// Makes all checks. `tested` is the result of [`self_test`]. `counts` tries to count an event, and
/// returns the reason why it can't be counted.
fn all_checks(
    machine: &Machine,
    tested: &Result<SelfTest, String>,
    counts: impl Fn(PerfEvent) -> Result<(), String>,
    runtime_dir: Option<&Path>,
) -> Vec<Check> {
    let mut checks = vec![system(machine)];
    checks.extend(patching(tested));
    checks.extend([
        perf(counts),
        ptrace(machine),
        uprobes(machine),
        namespaces(machine),
        folder(runtime_dir),
    ]);
    checks
}

fn system(machine: &Machine) -> Check {
    let release = machine.text("proc/sys/kernel/osrelease").unwrap_or_else(|| "unknown".to_owned());
    let seen = format!("{} {}, kernel {release}", env::consts::OS, env::consts::ARCH);
    if cfg!(all(target_os = "linux", target_arch = "x86_64")) {
        Check::good("system", seen)
    } else {
        let advice =
            "sites are a flag and a branch here, and files don't show them; x86-64 Linux patches them";
        Check::limited("system", seen, advice)
    }
}

/// Reads the result of the self-test, which patches code of this process.
fn patching(tested: &Result<SelfTest, String>) -> Vec<Check> {
    const BARRIER: &str = "membarrier";
    const WRITING: &str = "mprotect of text";
    match tested {
        Ok(test) if test.patches == 0 => {
            vec![Check::limited(
                "self-test",
                test.to_string(),
                "build probectl for x86-64 Linux to test patching",
            )]
        }
        Ok(test) => {
            let seen = format!("{} patches, all as expected", test.patches);
            let barrier = if test.has_membarrier {
                Check::good(BARRIER, "threads see a change when the call returns")
            } else {
                let advice =
                    "allow membarrier(2): a seccomp filter denies it, or the kernel is older than 4.16";
                Check::limited(BARRIER, "denied: pages' rights are changed in its place", advice)
            };
            let writing = Check::good(WRITING, "code can be opened for writing");
            vec![Check::good("self-test", seen), barrier, writing]
        }
        Err(error) => {
            let advice = "allow programs to change the protection of their code: SELinux's execmod, \
                          PR_SET_MDWE, or a seccomp filter denies it; or ask for `TextPolicy::Alias`";
            let unknown = |name| Check::unknown(name, "the self-test has failed");
            vec![Check::bad("self-test", error.clone(), advice), unknown(BARRIER), unknown(WRITING)]
        }
    }
}

/// Counts two events for a moment: one that needs no counter of the processor, and one that does.
fn perf(counts: impl Fn(PerfEvent) -> Result<(), String>) -> Check {
    const NAME: &str = "perf events";
    if let Err(why) = counts(PerfEvent::TaskClock) {
        let advice = "`probectl perf` needs a kernel with CONFIG_PERF_EVENTS, perf_event_open(2) in \
                      the filter of system calls, and, as root: sysctl kernel.perf_event_paranoid=2, \
                      or CAP_PERFMON";
        return Check::limited(NAME, why, advice);
    }
    if let Err(why) = counts(PerfEvent::Cycles) {
        let advice = "`probectl perf` counts the kernel's own events here, such as task-clock and \
                      page-faults; those of the processor need a machine, or a virtual one, with a \
                      PMU";
        return Check::limited(NAME, why, advice);
    }
    Check::good(NAME, "the processor's and the kernel's are counted")
}

fn ptrace(machine: &Machine) -> Check {
    const NAME: &str = "ptrace";
    if let Some(pid) = machine.tracer() {
        let advice = "a debugger's breakpoints at sites are left alone, and its traps come first";
        return Check::limited(NAME, format!("process {pid} debugs this one"), advice);
    }
    let is_capable = machine.has_capability(CAP_SYS_PTRACE);
    match machine.number("proc/sys/kernel/yama/ptrace_scope") {
        None | Some(0) => Check::good(NAME, "a user's processes may debug each other"),
        Some(scope @ 1..=2) if is_capable => {
            Check::good(NAME, format!("ptrace_scope is {scope}, and this process may debug others"))
        }
        Some(scope @ 1..=2) => {
            let who = if scope == 1 { "parents may debug their children" } else { "root alone may debug" };
            let advice = "`attach`, `-p` of a program without an agent, and `--ptrace` need root \
                          (CAP_SYS_PTRACE), or sysctl kernel.yama.ptrace_scope=0; programs that were \
                          started with PROBE_AGENT=1 or by `probectl run` don't";
            Check::limited(NAME, format!("ptrace_scope is {scope}: {who}"), advice)
        }
        Some(scope) => {
            let advice = "`attach`, `-p` of a program without an agent, and `--ptrace` need a boot \
                          with another kernel.yama.ptrace_scope; programs that were started with \
                          PROBE_AGENT=1 or by `probectl run` don't";
            Check::limited(
                NAME,
                format!("ptrace_scope is {scope}: nobody may debug until the next boot"),
                advice,
            )
        }
    }
}

fn uprobes(machine: &Machine) -> Check {
    const NAME: &str = "uprobes";
    if !machine.has("sys/bus/event_source/devices/uprobe/type") {
        let advice = "other tracers need a kernel with CONFIG_UPROBE_EVENTS; probes don't";
        return Check::limited(NAME, "the kernel has none", advice);
    }
    let events = ["sys/kernel/tracing/uprobe_events", "sys/kernel/debug/tracing/uprobe_events"];
    match events.iter().find_map(|path| machine.text(path)) {
        None => Check::good(NAME, "there may be some: only root sees them"),
        Some(text) if text.is_empty() => Check::good(NAME, "none are set by tracefs"),
        Some(text) => {
            let advice =
                "one at a site's bytes keeps that site as it is; `audit` and `list` name it as foreign";
            Check::limited(NAME, format!("{} set by tracefs", text.lines().count()), advice)
        }
    }
}

fn namespaces(machine: &Machine) -> Check {
    const NAME: &str = "user namespaces";
    let advice = "containers without root need them; probes don't";
    let restricted = "proc/sys/kernel/apparmor_restrict_unprivileged_userns";
    match machine.number("proc/sys/user/max_user_namespaces") {
        None => Check::limited(NAME, "the kernel has none", advice),
        Some(0) => Check::limited(NAME, "user.max_user_namespaces is 0", advice),
        Some(_) if machine.number("proc/sys/kernel/unprivileged_userns_clone") == Some(0) => {
            Check::limited(NAME, "kernel.unprivileged_userns_clone is 0: for root only", advice)
        }
        Some(_) if machine.number(restricted) == Some(1) => {
            Check::limited(NAME, "AppArmor restricts them to programs with a profile", advice)
        }
        Some(_) => Check::good(NAME, "available"),
    }
}

fn folder(runtime_dir: Option<&Path>) -> Check {
    const NAME: &str = "runtime folder";
    let advice = "log in with a session manager, or export XDG_RUNTIME_DIR=/run/user/$(id -u)";
    match runtime_dir {
        None => Check::limited(NAME, "XDG_RUNTIME_DIR is not set", advice),
        Some(path) if !path.is_absolute() => {
            Check::limited(NAME, format!("XDG_RUNTIME_DIR is the relative path {}", path.display()), advice)
        }
        Some(path) if !path.is_dir() => {
            Check::limited(NAME, format!("XDG_RUNTIME_DIR is {}, which is no folder", path.display()), advice)
        }
        Some(path) => Check::good(NAME, path.display().to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A machine that consists of some files.
    struct Made(PathBuf);

    impl Made {
        fn of(name: &str, files: &[(&str, &str)]) -> Self {
            let root = env::temp_dir().join(format!("probectl-doctor-{name}-{}", std::process::id()));
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
        for check in [
            perf(|_| Ok(())),
            ptrace(&machine),
            uprobes(&machine),
            namespaces(&machine),
            folder(Some(&made.0)),
        ] {
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

    /// Commands that inject an agent trace programs that are not their children.
    #[test]
    fn tracing_needs_a_right() {
        for (scope, seen, advice) in [
            ("1", "ptrace_scope is 1: parents may debug their children", NO_TRACING),
            ("2", "ptrace_scope is 2: root alone may debug", NO_TRACING),
            ("3", "ptrace_scope is 3: nobody may debug until the next boot", NO_TRACING_EVER),
        ] {
            let of = |capabilities| {
                ptrace(&Made::of("scope", &[(SCOPE, scope), (STATUS, capabilities)]).machine())
            };
            let check = of("CapEff:\t0000000000000000\n");
            assert_eq!((check.verdict, check.seen.as_str(), check.advice), (Verdict::Limited, seen, advice));
            let is_good = of("CapEff:\t0000000000080000\n").verdict == Verdict::Good;
            assert_eq!(is_good, scope != "3");
        }
    }

    #[test]
    fn a_machine_may_lack_counters() {
        let check =
            perf(|event| if event == PerfEvent::Cycles { Err(NO_COUNTER.to_owned()) } else { Ok(()) });
        let advice = "`probectl perf` counts the kernel's own events here, such as task-clock and \
                      page-faults; those of the processor need a machine, or a virtual one, with a PMU";
        assert_eq!(
            (check.verdict, check.seen.as_str(), check.advice),
            (Verdict::Limited, NO_COUNTER, advice)
        );
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
        let checks = patching(&Err("mprotect: EACCES".to_owned()));
        let check = &checks[0];
        assert_eq!((check.name, check.verdict), ("self-test", Verdict::Bad));
        assert!(check.seen.contains("EACCES") && check.advice.contains("TextPolicy::Alias"), "{check:?}");
        // The other checks are still listed.
        let others: Vec<_> =
            checks[1..].iter().map(|it| (it.name, it.verdict.name(), it.seen.as_str())).collect();
        let failed = "the self-test has failed";
        assert_eq!(others, [("membarrier", "not known", failed), ("mprotect of text", "not known", failed)]);
        let checks = patching(&self_test().map_err(|error| error.to_string()));
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
}
