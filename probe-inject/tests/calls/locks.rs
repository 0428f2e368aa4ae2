//! Threads whose stacks have addresses of code with locks, and threads that wait for locks.

use std::time::Duration;

use libc::c_void;
use probe_inject::{CriticalCode, InjectError, RemoteCall, maps};

use crate::filters::{assert_unsuitable, assert_unsuitable_at};
use crate::target::{CALLS, Target, called_at, states, until};

/// A number that an earlier call has left on a stack is not a return address, and the frame of a
/// handler that has returned does not count. In a function that holds a lock, the number is one.
#[test]
fn a_stale_return_address_does_not_count() {
    for mode in ["stale", "handled", "locked"] {
        let mut target = Target::start(mode);
        let Some(mut process) = target.open() else { return };
        let locked = target.return_address - 1..target.return_address + 1;
        let critical = CriticalCode { lock_holders: vec![locked], ..CriticalCode::default() };
        let calls = if mode == "locked" { 0 } else { CALLS };
        (0..calls).for_each(|number| called_at(&mut process, target.functions[0], number, &critical));
        if mode == "locked" {
            assert_unsuitable_at(
                &mut process,
                &target,
                &critical,
                "may hold a lock of the loader, or of malloc",
            );
        }
        drop(process);
        assert_eq!(target.end(mode), format!("{calls} right"));
    }
}

/// A thread waits for a lock of the program's, by a function of the C library that has none itself.
#[test]
fn a_thread_that_waits_for_a_lock() {
    let functions: [(_, *const c_void); 2] =
        [("futex", libc::syscall as *const _), ("mutex", libc::pthread_mutex_lock as *const _)];
    for (mode, function) in functions {
        let mut target = Target::start(mode);
        let Some(mut process) = target.open() else { return };
        until(|| states(target.child.id()) == ['S']);
        // The C library is the same, at another address.
        let parts = |pid| maps(pid).unwrap().into_iter().filter(|it| it.name.contains("/libc.so"));
        let base = |pid| parts(pid).next().unwrap().start;
        let at = function.addr() as u64 - base(std::process::id()) + base(target.child.id());
        let code: Vec<_> = parts(target.child.id()).map(|it| it.start..it.end).collect();
        let mut critical = CriticalCode { libraries: code, ..CriticalCode::default() };
        let why = "waits for a lock that may be one of the C library";
        assert_unsuitable_at(&mut process, &target, &critical, why);
        // The function has fewer bytes, and what follows does not wait.
        critical.lock_waiters.push(at..at + 0x400);
        process.set_timeout(Duration::from_secs(100));
        (0..CALLS).for_each(|number| called_at(&mut process, target.functions[0], number, &critical));
        drop(process);
        assert_eq!(target.end(mode), format!("{CALLS} right"));
    }
}

/// The reason is that of the thread, after any number of looks.
#[test]
fn a_thread_that_is_left_alone_says_the_true_reason() {
    let refused =
        "has a filter of system calls (seccomp), which refuses the one by which it would get memory";
    let limited = "waits in a system call with a limit in time, whose rest only the kernel knows";
    let restarted = "waits in a system call that a stop has interrupted before, and only the kernel knows which one, and until when";
    let filtered = [("memory", [refused; 2]), ("long-memory", [refused; 2])];
    for (mode, reasons) in [("long", [limited, restarted])].into_iter().chain(filtered) {
        let mut target = Target::start(mode);
        let Some(mut process) = target.open() else { return };
        until(|| states(target.child.id()) == ['S']);
        if let Err(error) = process.check_filters() {
            println!("left out: {error}");
            return;
        }
        reasons.into_iter().for_each(|why| assert_unsuitable(&mut process, &target, why));
        if mode != "long" {
            // No thread gets rid of a filter, so nobody waits for that.
            process.set_timeout(Duration::from_secs(1_000));
            let call =
                RemoteCall { function: target.functions[0], takes_text: true, ..RemoteCall::default() };
            let error = process.call(&call, &CriticalCode::default()).unwrap_err();
            assert!(matches!(error, InjectError::Refused { .. }), "{error}");
        }
        drop(process);
        assert_eq!(target.end(mode), "0 right");
    }
}
