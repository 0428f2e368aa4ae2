//! `Perf` without permission for all or some events, and without `/proc`: it counts permitted
//! events and reports the others. Also `Perf` by environment variable.
//! Scenarios run in children, since filters, users and variables belong to a process.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

use std::fs::{self, File};
use std::thread;

use probe_runtime::perf::PerfEvent::{ContextSwitches, Cycles, PageFaults, TaskClock};
use probe_runtime::perf::{FunctionEvents, NoEvents};
use probe_runtime::{Attachment, Error, Perf, init_from_env, probe, select};
use probe_tests::sandbox::{argument, deny};
use probe_tests::scenario::{pass, play, to_play};

#[probe]
#[inline(never)]
fn work() {}

fn attach() -> Attachment<Perf> {
    select("consumers::perf_permits::work").unwrap().attach(Perf::of([PageFaults, TaskClock])).unwrap()
}

fn counted(perf: &Perf) -> (u64, u64) {
    let counts = perf.event_counts();
    let of = |of: fn(&FunctionEvents) -> u64| counts.iter().map(of).sum();
    (of(FunctionEvents::counted), of(FunctionEvents::uncounted))
}

#[test]
fn without_files_it_counts() {
    pass("no-files", &[]);
}

fn no_files() {
    // No file can be opened, `/proc` included.
    deny(libc::SYS_openat, argument(2), 0, 0);
    assert!(File::open("/proc/self/stat").is_err());
    let perf = attach();
    work();
    thread::spawn(work).join().unwrap();
    assert_eq!(counted(&perf), (2, 0));
}

#[test]
fn what_is_not_permitted_is_an_error() {
    pass("denied", &[]);
}

fn denied() {
    let before = attach();
    deny(libc::SYS_perf_event_open, argument(0), 0, 0);
    let set = select("consumers::perf_permits::work").unwrap();
    let Err(Error::Consumer(error)) = set.attach(Perf::new()) else { panic!("it is denied") };
    assert!(error.is::<NoEvents>());
    let text = error.to_string();
    assert!(text.starts_with("no event can be counted here; cycles, instructions, "), "{text}");
    assert!(text.contains(": not permitted: kernel.perf_event_paranoid is "), "{text}");
    assert!(text.contains("or give the program CAP_PERFMON"), "{text}");
    let Err(error) = set.attach(Perf::of([Cycles])) else { panic!("it is denied") };
    assert!(error.to_string().contains("cycles: not permitted"), "{error}");
    // The earlier attachment has a thread without events.
    work();
    assert_eq!(counted(&before), (0, 1));
    assert!(before.to_string().contains("1 thread was without events: not permitted"), "{before}");
}

/// Runs as an unprivileged user, for whom the kernel does not count events in kernel mode.
#[test]
fn without_privileges_what_is_permitted_is_counted() {
    pass("unprivileged", &[]);
}

fn unprivileged() {
    const NOBODY: libc::uid_t = 65534;
    let paranoid: i32 =
        fs::read_to_string("/proc/sys/kernel/perf_event_paranoid").unwrap().trim().parse().unwrap();
    // SAFETY: no pointers.
    let is_nobody = unsafe { libc::geteuid() != 0 || libc::setresuid(NOBODY, NOBODY, NOBODY) == 0 };
    assert!(is_nobody);
    let perf = Perf::of([TaskClock, PageFaults, ContextSwitches]);
    let attached = select("consumers::perf_permits::work").unwrap().attach(perf);
    let perf = match attached {
        Ok(perf) => perf,
        Err(error) => return assert!(paranoid > 2, "{error}"),
    };
    work();
    let counts = perf.event_counts();
    assert_eq!(counts[0].counted(), 1);
    let is_restricted = paranoid > 1;
    assert_eq!(counts.is_user_mode_only(PageFaults), is_restricted, "{perf}");
    assert!(!counts.is_user_mode_only(TaskClock), "its value is the whole time");
    assert_eq!(counts.missing().len(), usize::from(is_restricted));
    assert!(counts.missing().iter().all(|it| it.event() == ContextSwitches));
    let said = perf.to_string();
    assert_eq!(said.contains("\nin user mode only: page-faults"), is_restricted, "{said}");
    assert_eq!(said.contains("not counted: context-switches: not permitted"), is_restricted, "{said}");
}

/// `PROBES` attaches `Perf`, whose report goes to stderr.
#[test]
fn the_environment_asks_for_it() {
    let ask = |value: &str| {
        let output = play("environment", &[("PROBES", value.as_ref())]);
        (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (success, said) =
        ask("consumers::perf_permits::work = perf(events=page-faults+task-clock, budget=1%)");
    if said.contains("left out") {
        return;
    }
    assert!(
        success
            && said.contains(
                "function                       calls  ±      samples  page-faults/call  task-clock/call\n"
            ),
        "{said}"
    );
    // `Perf` samples no call before the budget allows it.
    assert!(said.contains("consumers::perf_permits::work      3  exact        0 "), "{said}");
    assert!(said.contains("of the CPU time; budget: 1 %"), "{said}");
    let (success, said) = ask("consumers::perf_permits::*=perf(events=page-fault)");
    let mistake = "PROBES, column 40: `page-fault` is not an event; there is cycles, ";
    assert!(!success && said.contains(mistake), "{said}");
}

fn environment() {
    let probes = init_from_env().unwrap();
    (0..3).for_each(|_| work());
    drop(probes);
}

/// Plays the scenario that the environment asks for.
#[test]
#[ignore = "other tests play it, in children"]
fn scenario() {
    match to_play().as_str() {
        _ if !has_events() => eprintln!("left out: the kernel has no events for this process"),
        "no-files" => no_files(),
        "denied" => denied(),
        "unprivileged" => unprivileged(),
        "environment" => environment(),
        other => panic!("there is no scenario {other}"),
    }
}

/// Returns whether the kernel lets this process count any event.
fn has_events() -> bool {
    select("consumers::perf_permits::work").unwrap().attach(Perf::of([PageFaults])).is_ok()
}
