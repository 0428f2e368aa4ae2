//! The checks, from what everything needs to what few do.

use std::path::Path;

use probe_runtime::{Error, PerfEvent, SelfTest};

use super::check::Check;
use super::machine::Machine;

const CAP_SYS_PTRACE: u32 = 19;

/// Makes all checks. `tested` is the result of [`probe_runtime::self_test`], and `counts` tries
/// an event, and says why it can't be counted.
pub fn checks(
    machine: &Machine,
    tested: &Result<SelfTest, Error>,
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
    let seen = format!("{} {}, kernel {release}", std::env::consts::OS, std::env::consts::ARCH);
    if cfg!(all(target_os = "linux", target_arch = "x86_64")) {
        Check::good("system", seen)
    } else {
        let advice =
            "sites are a flag and a branch here, and files don't show them; x86-64 Linux patches them";
        Check::limited("system", seen, advice)
    }
}

/// Reads the result of the self-test, which patches code of this process.
fn patching(tested: &Result<SelfTest, Error>) -> Vec<Check> {
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
            vec![Check::bad("self-test", error.to_string(), advice), unknown(BARRIER), unknown(WRITING)]
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
mod tests;
