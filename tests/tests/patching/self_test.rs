//! The self-test of a program that wants proof before it patches. A process of its own: it installs
//! a handler.

#[cfg(not(probe_portable))]
use std::{process::Command, thread};

use probe_runtime::patch::self_test;

#[cfg(not(probe_portable))]
const CHILD: &str = "PROBE_TEST_BLOCKED";

#[cfg(not(probe_portable))]
#[test]
fn patches_and_traps_are_counted() {
    let seen = self_test().unwrap();
    // Two instructions: there and back, and under way, each directly and strictly; then 200 toggles
    // each.
    assert_eq!(seen.patches, 2 * (2 * 4 + 200));
    // Under way: all but the aligned one without `strict`.
    assert!(seen.traps >= 6, "{seen}");
    assert!(seen.calls >= 2, "{seen}");
    assert!(seen.to_string().starts_with("416 patches, "), "{seen}");
    // Again, and from several threads.
    let threads: Vec<_> = (0..4).map(|_| thread::spawn(self_test)).collect();
    assert!(threads.into_iter().all(|thread| thread.join().unwrap().is_ok_and(|seen| seen.patches == 416)));
}

#[cfg(probe_portable)]
#[test]
fn there_is_nothing_to_test() {
    assert_eq!(self_test().unwrap().to_string(), "this build does not patch code");
}

/// A thread that blocks the signal would be killed by a trap: it is named instead.
#[cfg(not(probe_portable))]
#[test]
fn a_thread_that_blocks_the_signal_is_named() {
    if std::env::var_os(CHILD).is_some() {
        blocked();
        return;
    }
    let child = Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            &probe_tests::processes::test("a_thread_that_blocks_the_signal_is_named"),
            "--nocapture",
            "--test-threads=1",
        ])
        .env(CHILD, "1")
        .output()
        .unwrap();
    assert!(child.status.success(), "{}", String::from_utf8_lossy(&child.stderr));
}

#[cfg(not(probe_portable))]
fn blocked() {
    let (report, reported) = std::sync::mpsc::channel();
    let (done, wait) = std::sync::mpsc::channel::<()>();
    let blocker = thread::Builder::new().name("blocker".to_owned()).spawn(move || {
        let mut mask = std::mem::MaybeUninit::uninit();
        // SAFETY: an empty mask, then one with a signal, for this thread.
        unsafe {
            libc::sigemptyset(mask.as_mut_ptr());
            libc::sigaddset(mask.as_mut_ptr(), libc::SIGTRAP);
            libc::pthread_sigmask(libc::SIG_BLOCK, mask.as_ptr(), std::ptr::null_mut());
            report.send(libc::syscall(libc::SYS_gettid)).unwrap();
        }
        let _ = wait.recv();
    });
    let id = reported.recv().unwrap();
    let error = self_test().unwrap_err().to_string();
    let wanted = format!(
        "patching code does not work here: straddling instruction: SIGTRAP: thread {id} (\"blocker\") blocks SIGTRAP, \
         so that a trap there would kill the process; let it unblock the signal"
    );
    assert_eq!(error, wanted);
    drop(done);
    blocker.unwrap().join().unwrap();
    // Once it is gone, all is well.
    assert_eq!(self_test().unwrap().patches, 416);
}
