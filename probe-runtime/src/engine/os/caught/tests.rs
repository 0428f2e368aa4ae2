//! Tests that concern the whole process run it in a child.

use std::env;
use std::os::unix::process::ExitStatusExt;
use std::process::Command;

use super::*;

const INT: Signal = Signal(libc::SIGINT);
const USR1: Signal = Signal(libc::SIGUSR1);
const SCENARIO: &str = "PROBE_UNIT_SCENARIO";

/// Returns the signal that ends a child that plays this scenario.
fn end_of(scenario: &str) -> Option<libc::c_int> {
    let mut command = Command::new(env::current_exe().unwrap());
    command
        .args(["--exact", "os::caught::tests::scenario", "--ignored", "--nocapture"])
        .env(SCENARIO, scenario);
    let output = command.output().unwrap();
    output.status.signal().or_else(|| panic!("{output:?}"))
}

#[test]
#[ignore = "other tests play it, in children"]
fn scenario() {
    let asked = env::var(SCENARIO).expect("other tests play it, and say what");
    // SAFETY: no pointers.
    unsafe { libc::alarm(60) };
    // A shell's background job ignores the signal, and so do its children.
    set(INT.0, libc::SIG_DFL);
    let caught = Caught::new().unwrap();
    assert_eq!(caught.install(&[INT], &[USR1]), []);
    match asked.as_str() {
        "in turn" => {
            [INT, USR1, USR1].into_iter().for_each(raise);
            caught.stop();
            let woken = [(); 4].map(|()| caught.wait(Some(Instant::now())));
            assert_eq!(woken, [Woken::Signal(USR1), Woken::Signal(INT), Woken::Stopped, Woken::TimedOut]);
            Caught::end(INT);
        }
        "left" => {
            raise(INT);
            block(INT);
            // If the drop sent the signal to this thread, it would stay blocked for ever.
            drop(caught);
        }
        "nobody listens" => {
            drop(caught);
            set(INT.0, handler());
            assert!(!note(INT) && noted().is_none());
            raise(INT);
        }
        other => panic!("{other}"),
    }
    loop {
        std::thread::park();
    }
}

fn raise(signal: Signal) {
    // SAFETY: no pointers.
    assert_eq!(unsafe { libc::raise(signal.0) }, 0);
}

fn block(signal: Signal) {
    // SAFETY: a set of one signal.
    unsafe {
        let mut only = MaybeUninit::uninit();
        libc::sigemptyset(only.as_mut_ptr());
        libc::sigaddset(only.as_mut_ptr(), signal.0);
        assert_eq!(libc::pthread_sigmask(libc::SIG_BLOCK, only.as_ptr(), ptr::null_mut()), 0);
    }
}

#[test]
fn what_has_come_is_told_before_the_end() {
    assert_eq!(end_of("in turn"), Some(libc::SIGINT));
}

#[test]
fn what_nobody_has_waited_for_takes_effect_whatever_the_last_thread_blocks() {
    assert_eq!(end_of("left"), Some(libc::SIGINT));
}

#[test]
fn who_listens_no_more_is_not_told() {
    assert_eq!(end_of("nobody listens"), Some(libc::SIGINT));
}
