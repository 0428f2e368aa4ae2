//! Threads with filters of system calls (seccomp).

use std::time::Duration;

use probe_inject::{CriticalCode, Process, RemoteCall, maps};

use crate::halts::halted;
use crate::target::{CALLS, Target, states, until};

pub fn assert_unsuitable(process: &mut Process, target: &Target, why: &str) {
    assert_unsuitable_at(process, target, &CriticalCode::default(), why);
}

pub fn assert_unsuitable_at(process: &mut Process, target: &Target, critical: &CriticalCode, why: &str) {
    process.set_timeout(Duration::from_millis(300));
    let call = RemoteCall { function: target.functions[0], takes_text: true, ..RemoteCall::default() };
    let error = process.call(&call, critical).unwrap_err().to_string();
    assert!(error.ends_with(&format!("\n  {} {why}", target.child.id())), "{error}");
}

/// A filter that refuses calls with an error ends nobody.
#[test]
fn a_thread_with_a_container_s_filter_is_called() {
    let mut target = Target::start("container");
    let Some(mut process) = target.open() else { return };
    until(|| states(target.child.id()) == ['S']);
    if let Err(error) = process.check_filters() {
        println!("left out: {error}");
        return;
    }
    (0..CALLS).for_each(|number| target.call(&mut process, number));
    drop(process);
    assert_eq!(target.end("container"), format!("{CALLS} right"));
}

#[test]
fn a_thread_whose_filter_may_end_the_program_is_left_alone() {
    let mut target = Target::start("sandbox");
    let Some(mut process) = target.open() else { return };
    let id = target.child.id();
    until(|| states(id) == ['S']);
    let error = process.check_filters().unwrap_err().to_string();
    let has = format!("process {id} has a filter of system calls (seccomp) on thread {id}, which ");
    if error.starts_with(&format!("{has}can't be read")) {
        println!("left out: {error}");
        return;
    }
    assert_eq!(error, format!("{has}might end the program when that makes a call it did not make before"));
    assert_unsuitable(
        &mut process,
        &target,
        "has a filter of system calls (seccomp), which might end the program",
    );
    // Memory takes none of the calls that the filter forbids.
    let before = maps(id).unwrap();
    let last = before.iter().rfind(|it| it.name == "[heap]").unwrap();
    let at = last.end + (1 << 20);
    process.set_timeout(Duration::from_secs(10));
    process.map(at, 1 << 12, true).unwrap();
    process.memory().write(at, b"code").unwrap();
    assert_eq!(process.memory().bytes(at, 4).unwrap(), b"code");
    process.unmap(at, 1 << 12).unwrap();
    assert_eq!(maps(id).unwrap(), before);
    drop(process);
    assert_eq!(target.end("sandbox"), "0 right");
}

#[test]
fn a_thread_that_could_not_return_is_left_alone() {
    let mut target = Target::start("handlers");
    let Some(mut process) = target.open() else { return };
    until(|| states(target.child.id()) == ['S']);
    process.set_timeout(Duration::from_millis(300));
    let call = RemoteCall { function: target.functions[0], takes_text: true, ..RemoteCall::default() };
    let error = process.call(&call, &CriticalCode::default()).unwrap_err().to_string();
    assert!(error.contains("has a filter of system calls (seccomp), which might end the program"), "{error}");
    drop(process);
    assert_eq!(target.end("handlers"), "0 right");
}

/// The kernel continues a call by another one, which the program's filter forbids.
#[test]
fn a_sandbox_outlives_stops() {
    let mut target = Target::start("restart");
    let Some(mut process) = target.open() else { return };
    halted(&mut process, 50);
    let said = process.check_filters();
    let is_deadly = said.as_ref().is_err_and(|it| it.to_string().contains("might end the program"));
    assert!(is_deadly || said.is_err_and(|it| it.to_string().contains("can't be read")));
    process.set_timeout(Duration::from_millis(300));
    let call = RemoteCall { function: target.functions[0], takes_text: true, ..RemoteCall::default() };
    assert!(process.call(&call, &CriticalCode::default()).is_err());
    drop(process);
    assert_eq!(target.end("restart"), "0 right");
}
