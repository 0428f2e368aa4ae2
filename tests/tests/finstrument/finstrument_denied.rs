//! Restrictions by the system or the program: text that can't be written, a `SIGTRAP` handler of
//! the program's. Calls then stay calls, are still counted, and say why.
#![cfg(all(target_arch = "x86_64", target_os = "linux", not(any(probe_portable, probe_off))))]

use std::ffi::OsStr;
use std::fs;
use std::path::Path;
use std::thread;

use probe_runtime::finstrument::{self, Reason};
use probe_runtime::patch::TextPolicy;
use probe_runtime::registry::discover_probes;
use probe_runtime::{Count, Kind, init_from_env, probes, select};
use probe_tests::instrumented::{Function, load_numbered};
use probe_tests::sandbox::{argument, deny, without_memory};
use probe_tests::scenario;

const FUNCTIONS: usize = 16;

#[test]
fn without_the_right_to_write_calls_stay_and_count() {
    scenario::runs_in_a_child("scenario", "mprotect");
}

#[test]
fn the_kernel_may_write_instead() {
    scenario::runs_in_a_child("scenario", "alias");
}

#[test]
fn no_trap_is_needed() {
    scenario::runs_in_a_child("scenario", "trap");
}

#[test]
fn what_memory_was_short_for_is_tried_again() {
    scenario::runs_in_a_child("scenario", "memory");
}

#[test]
fn work_that_is_put_off_wakes_no_thread() {
    scenario::pass("idle", &[("PROBES", OsStr::new("f*=count")), ("PROBES_OUT", OsStr::new("/dev/null"))]);
}

#[test]
#[ignore = "other tests play it, in children"]
fn scenario() {
    let asked = scenario::to_play();
    match asked.as_str() {
        "mprotect" => mprotect(),
        "alias" => alias(),
        "trap" => trap(),
        "memory" => memory(),
        "idle" => idle(),
        other => panic!("no scenario {other}"),
    }
    println!("done: {asked}");
}

fn deny_writable_code() {
    deny(libc::SYS_mprotect, argument(2), libc::PROT_WRITE.unsigned_abs(), libc::PROT_WRITE.unsigned_abs());
}

fn call_all(functions: &[Function]) {
    for (number, function) in functions.iter().enumerate() {
        assert_eq!(function(3), 3 + number as u64);
    }
}

fn memory() {
    let (library, functions) = load_numbered("memory", FUNCTIONS);
    let calls = finstrument::attach(Count::new(), 100).unwrap();
    // Its place is taken, and its memory there.
    call_all(&functions[..1]);
    without_memory(|| {
        call_all(&functions);
        call_all(&functions);
    });
    let stats = finstrument::stats();
    assert_eq!((stats.patched, stats.discovered, stats.lost), (0, 2 * FUNCTIONS, 0), "{stats:?}");
    assert_eq!(stats.unpatched, 2 * FUNCTIONS, "{stats:?}");
    // The next operation.
    assert_eq!(finstrument::unpatched(), []);
    assert_eq!(finstrument::stats().patched, 2 * FUNCTIONS);
    call_all(&functions);
    let exits: u64 =
        (0..FUNCTIONS).map(|at| calls.counts().hits(&format!("f{at}"), Kind::Exit).unwrap()).sum();
    assert_eq!(exits, 3 * FUNCTIONS as u64 + 1);
    drop(calls);
    call_all(&functions);
    library.close();
}

/// Returns how often the thread that looks for functions has slept, once it sleeps.
fn switches() -> u64 {
    let tasks = || fs::read_dir("/proc/self/task").unwrap().map(|task| task.unwrap().path());
    let read = |task: &Path, file: &str| fs::read_to_string(task.join(file)).unwrap_or_default();
    loop {
        let looker = tasks().find(|task| read(task, "comm") == "probe-reports\n").expect("it runs");
        // Number and arguments.
        let call = read(&looker, "syscall");
        if call.split_whitespace().next() == Some(&libc::SYS_poll.to_string()) {
            let status = read(&looker, "status");
            let line = status.lines().find(|line| line.starts_with("voluntary_ctxt_switches:")).unwrap();
            return line.split_whitespace().nth(1).unwrap().parse().unwrap();
        }
        thread::yield_now();
    }
}

/// Returns the number of this process's calls of `write`.
fn writes() -> u64 {
    let counts = fs::read_to_string("/proc/self/io").expect("the kernel counts them");
    let line = counts.lines().find(|line| line.starts_with("syscw:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

fn idle() {
    let guard = init_from_env().unwrap();
    let (library, functions) = load_numbered("idle", FUNCTIONS);
    call_all(&functions[..1]);
    let begun = switches();
    without_memory(|| {
        call_all(&functions);
        while switches() == begun {
            thread::yield_now();
        }
        let before = writes();
        // Each operation tries to patch them, and puts it off once more.
        for _ in 0..100 {
            discover_probes();
            call_all(&functions);
        }
        assert!(finstrument::stats().patched < 2 * FUNCTIONS);
        assert_eq!(writes(), before, "the thread was woken, by a write to its bell");
    });
    drop(guard);
    library.close();
}

fn mprotect() {
    let (library, functions) = load_numbered("mprotect", FUNCTIONS);
    let calls = finstrument::attach(Count::new(), 100).unwrap();
    deny_writable_code();
    for _ in 0..5 {
        call_all(&functions);
    }
    assert_eq!(calls.total(), 5 * 2 * FUNCTIONS as u64);
    let kept = finstrument::unpatched();
    assert_eq!(kept.len(), 2 * FUNCTIONS);
    for kept in kept {
        assert_eq!(kept.reason(), Reason::Protected { errno: libc::EPERM });
        assert!(kept.site().is_some());
        assert!(kept.to_string().contains("does not let its page be written"), "{kept}");
    }
    let stats = finstrument::stats();
    assert_eq!((stats.patched, stats.unpatched, stats.waiting, stats.postponed), (0, 2 * FUNCTIONS, 0, 0));
    // They are probes like others: each one call site, that listens when asked to.
    assert!(probes().iter().filter(|it| it.path().starts_with('f')).all(|it| it.sites() == 1));
    let hits = select("f3 kind=exit").unwrap().attach(Count::new()).unwrap();
    call_all(&functions);
    assert_eq!(hits.total(), 1);
    let hold = select("f3").unwrap().hold().unwrap();
    let before = calls.total();
    call_all(&functions);
    assert_eq!((hits.total(), calls.total() - before), (1, 2 * (FUNCTIONS as u64 - 1)));
    drop(hold);
    drop(calls);
    call_all(&functions);
    assert_eq!(hits.total(), 2);
    drop(hits);
    library.close();
    assert_eq!(finstrument::unpatched(), []);
}

fn alias() {
    let (library, functions) = load_numbered("alias", FUNCTIONS);
    finstrument::text_policy(TextPolicy::Alias);
    deny_writable_code();
    call_all(&functions);
    let stats = finstrument::stats();
    assert_eq!((stats.patched, stats.waiting, stats.unpatched), (0, 2 * FUNCTIONS, 0));
    let set = select("f* kind=entry").unwrap().text_policy(TextPolicy::Alias);
    // The kernel writes single bytes: what lies across two words stays a call, and counts.
    let kept = finstrument::unpatched();
    assert!(!kept.is_empty() && kept.len() < 2 * FUNCTIONS, "{} of {FUNCTIONS}", kept.len());
    for kept in &kept {
        assert_eq!((kept.reason(), kept.site().map(|site| site % 8 > 3)), (Reason::SplitCall, Some(true)));
    }
    let stats = finstrument::stats();
    assert_eq!((stats.patched, stats.waiting, stats.split_calls), (2 * FUNCTIONS - kept.len(), 0, 0));
    let hits = set.attach(Count::new()).unwrap();
    assert_eq!((hits.report().patched(), hits.report().refused()), (FUNCTIONS, 0));
    call_all(&functions);
    assert_eq!(hits.total(), FUNCTIONS as u64);
    drop(hits);
    library.close();
}

fn trap() {
    extern "C" fn nothing(_signal: libc::c_int) {}
    let (library, functions) = load_numbered("trap", FUNCTIONS);
    let calls = finstrument::attach(Count::new(), 100).unwrap();
    // SAFETY: a handler that does nothing; no trap is under way.
    unsafe { libc::signal(libc::SIGTRAP, nothing as extern "C" fn(libc::c_int) as libc::sighandler_t) };
    for _ in 0..3 {
        call_all(&functions);
    }
    for number in 0..FUNCTIONS {
        assert_eq!(calls.counts().hits(&format!("f{number}"), Kind::Entry), Some(3));
        assert_eq!(calls.counts().hits(&format!("f{number}"), Kind::Exit), Some(3));
    }
    assert_eq!(finstrument::unpatched(), []);
    let stats = finstrument::stats();
    assert_eq!((stats.patched, stats.unpatched, stats.waiting), (2 * FUNCTIONS, 0, 0));
    assert!(stats.split_calls > 0);
    drop(calls);
    library.close();
}
