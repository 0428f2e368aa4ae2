//! Calls in programs that check themselves. These tests trace their children, which needs root, or
//! `kernel.yama.ptrace_scope` 0 or 1; without, they say so and leave themselves out.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

mod filters;
mod halts;
mod locks;
mod target;

use std::fs;
use std::io::Write;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use probe_inject::{CriticalCode, InjectError, MemoryFile, Process, RemoteCall, maps};

use crate::filters::assert_unsuitable;
use crate::target::{CALLS, Target, called, code, line, states, until};

/// Calls a function many times, and checks that the program noticed nothing else.
fn calls(mode: &str) {
    let mut target = Target::start(mode);
    let Some(mut process) = target.open() else { return };
    let text = code(target.child.id());
    target.call(&mut process, 0);
    let mapped = maps(target.child.id()).unwrap().len();
    (1..CALLS).for_each(|number| target.call(&mut process, number));
    if mode != "threads" {
        assert_eq!(maps(target.child.id()).unwrap().len(), mapped, "one region, and nothing else");
    }
    assert_eq!(code(target.child.id()), text);
    assert_eq!(states(target.child.id()).iter().filter(|it| matches!(it, 'T' | 't')).count(), 0);
    assert_eq!(target.end(mode), format!("{CALLS} right"), "{mode}");
}

#[test]
fn a_thread_that_reads() {
    calls("read");
}

#[test]
fn a_thread_that_runs_with_all_its_registers() {
    calls("spin");
}

#[test]
fn a_thread_that_waits_for_events_or_signals() {
    calls("sigwait");
    calls("poll");
    calls("epoll");
}

#[test]
fn a_thread_that_waits_for_events_with_a_limit() {
    calls("limited");
}

#[test]
fn a_thread_that_waits_until_a_time() {
    calls("until");
}

#[test]
fn a_thread_that_sleeps() {
    calls("sleep");
}

#[test]
fn a_thread_that_gets_signals_all_the_time() {
    calls("signals");
}

#[test]
fn many_threads_of_which_some_begin_and_end() {
    calls("threads");
}

#[test]
fn a_function_that_returns_nothing_is_explained() {
    let target = Target::start("read");
    let Some(mut process) = target.open() else { return };
    let [_, refuses, reason, _] = target.functions;
    let call = RemoteCall { function: refuses, explains: reason, ..RemoteCall::default() };
    let returned = process.call(&call, &CriticalCode::default()).unwrap();
    assert_eq!((returned.value, returned.text.as_str()), (0, "it refuses"));
    assert!(process.stops() >= 3, "for memory, for its rights, and for the call");
}

#[test]
fn a_file_exists_during_the_call() {
    let target = Target::start("read");
    let Some(mut process) = target.open() else { return };
    let pid = target.child.id();
    let all = maps(pid).unwrap();
    // `access` of the C library, by its own address and the distance in this process.
    let own = maps(std::process::id()).unwrap();
    let base = |maps: &[probe_inject::Mapping]| {
        maps.iter().find(|it| it.name.contains("/libc.so")).map(|it| it.start).unwrap()
    };
    let function = libc::access as *const () as u64 - base(&own) + base(&all);
    let descriptors = || fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count();
    let before = descriptors();
    let bytes = vec![7; 100_000];
    let file = MemoryFile { name: "a file", bytes: &bytes };
    let call = RemoteCall { function, arguments: [0, 4, 0], file: Some(file), ..RemoteCall::default() };
    let returned = process.call(&call, &CriticalCode::default()).unwrap();
    assert_eq!((returned.value, descriptors()), (0, before), "it can be read, and is closed");
}

#[test]
fn a_process_that_is_traced_or_stopped_says_so() {
    let target = Target::start("read");
    if target.open().is_none() {
        return;
    }
    let pid = target.child.id();
    let strace = Command::new("strace").args(["-p", &pid.to_string()]).stderr(Stdio::null()).spawn();
    if let Ok(mut strace) = strace {
        until(|| matches!(Process::open(pid), Err(InjectError::Traced { .. })));
        let error = Process::open(pid).unwrap_err().to_string();
        let by = strace.id();
        assert_eq!(
            error,
            format!(
                "process {pid} is traced by process {by} (strace) already, and can have one tracer; end that first"
            )
        );
        strace.kill().unwrap();
        strace.wait().unwrap();
        until(|| Process::open(pid).is_ok());
    } else {
        println!("left out: there is no strace");
    }
    let signal = |name: &str| Command::new("kill").args([name, &pid.to_string()]).status().unwrap();
    signal("-STOP");
    until(|| states(pid) == ['T']);
    let error = Process::open(pid).unwrap_err().to_string();
    assert_eq!(error, format!("process {pid} is stopped by a signal; let it go on first (kill -CONT)"));
    signal("-CONT");
    until(|| states(pid) == ['S']);
    let mut process = target.open().unwrap();
    signal("-STOP");
    until(|| states(pid) == ['T']);
    process.set_timeout(Duration::from_millis(50));
    let call = RemoteCall { function: target.functions[0], takes_text: true, ..RemoteCall::default() };
    let error = process.call(&call, &CriticalCode::default()).unwrap_err().to_string();
    assert!(error.ends_with(&format!("\n  {pid} is stopped")), "{error}");
    assert_eq!(states(pid), ['T'], "it stays stopped");
    signal("-CONT");
    process.set_timeout(Duration::from_secs(10));
    target.call(&mut process, 5);
}

#[test]
fn a_handler_that_waits_is_left_alone() {
    let mut target = Target::start("handler");
    let Some(mut process) = target.open() else { return };
    let pid = target.child.id();
    // A handler that interrupts the program's own output would write it twice.
    until(|| states(pid) == ['S']);
    assert!(Command::new("kill").args(["-ALRM", &pid.to_string()]).status().unwrap().success());
    assert_eq!(line(&mut target.stdout), "handles");
    until(|| states(pid) == ['S']);
    process.set_timeout(Duration::from_millis(300));
    let call = RemoteCall { function: target.functions[0], takes_text: true, ..RemoteCall::default() };
    let error = process.call(&call, &CriticalCode::default()).unwrap_err().to_string();
    assert!(error.ends_with(&format!("\n  {pid} is in the handler of a signal")), "{error}");
    target.stdin.as_mut().unwrap().write_all(b"x").unwrap();
    process.set_timeout(Duration::from_secs(100));
    target.call(&mut process, 0);
    assert_eq!(target.end("handler"), "1 right");
}

#[test]
fn a_thread_on_a_stack_of_its_own_is_left_alone() {
    let mut target = Target::start("coroutine");
    let Some(mut process) = target.open() else { return };
    until(|| states(target.child.id()) == ['S']);
    assert_unsuitable(&mut process, &target, "runs on a stack that is not its thread's");
    drop(process);
    assert_eq!(target.end("coroutine"), "0 right");
}

/// The first one asks for a call that does not end, and the others wait for it, and for each other.
#[test]
fn callers_wait_for_each_other() {
    let mut target = Target::start("read");
    let Some(mut process) = target.open() else { return };
    process.set_timeout(Duration::from_millis(50));
    let reads = RemoteCall { function: target.functions[3], ..RemoteCall::default() };
    for _ in 0..2 {
        let error = process.call(&reads, &CriticalCode::default()).unwrap_err().to_string();
        let asked = format!("thread {0} of process {0} was asked", target.child.id());
        assert!(error.starts_with(&asked), "{error}");
    }
    let (id, has_called) = (target.child.id(), AtomicBool::new(false));
    thread::scope(|scope| {
        let function = target.functions[0];
        let has_called = &has_called;
        let other = scope.spawn(move || {
            let mut process = Process::open(id).unwrap();
            assert!(has_called.load(Ordering::SeqCst), "it had to wait");
            called(&mut process, function, 7);
        });
        process.set_timeout(Duration::from_secs(100));
        target.stdin.as_mut().unwrap().write_all(b"x").unwrap();
        called(&mut process, function, 5);
        has_called.store(true, Ordering::SeqCst);
        drop(process);
        other.join().unwrap();
    });
    assert_eq!(target.end("read"), "3 right");
}

#[test]
fn a_process_whose_first_thread_has_ended_says_so() {
    let mut target = Target::start("first");
    if target.open().is_none() {
        return;
    }
    let pid = target.child.id();
    target.stdin.as_mut().unwrap().write_all(b"x").unwrap();
    until(|| states(pid).contains(&'Z'));
    let error = Process::open(pid).unwrap_err().to_string();
    let said = "goes on in other threads, but its first one has ended, so nobody may see its memory";
    assert_eq!(error, format!("process {pid} {said}"));
    assert_eq!(target.end("first"), "0 right");
}

#[test]
fn other_processes_say_what_they_are() {
    let error = |pid| Process::open(pid).unwrap_err().to_string();
    assert_eq!(error(0), "there is no process 0");
    assert_eq!(error(u32::MAX), format!("there is no process {}", u32::MAX));
    assert_eq!(error(std::process::id()), format!("process {} is this one", std::process::id()));
    if fs::read_to_string("/proc/2/comm").is_ok_and(|it| it.starts_with("kthreadd")) {
        assert_eq!(error(2), "process 2 is a thread of the kernel");
    }
    let mut child = Command::new("true").spawn().unwrap();
    until(|| states(child.id()) == ['Z']);
    let ended = format!("process {} has ended, and its parent has not noticed yet", child.id());
    assert_eq!(error(child.id()), ended);
    child.wait().unwrap();
    let target = Target::start("vfork");
    if target.open().is_none() {
        return;
    }
    let parent = target.child.id();
    let mut of_parent = String::new();
    until(|| {
        of_parent = fs::read_to_string(format!("/proc/{parent}/task/{parent}/children")).unwrap();
        !of_parent.is_empty()
    });
    let of_vfork: u32 = of_parent.trim().parse().unwrap();
    let shares = "uses its parent's memory until it becomes another program (vfork); try again";
    assert_eq!(error(of_vfork), format!("process {of_vfork} {shares}"));
}
