//! Where no memory can be made executable, or there is none in reach: calls stay real ones, each
//! hit is counted, and it is said why.
#![cfg(all(target_arch = "x86_64", target_os = "linux", not(any(probe_portable, probe_off))))]

use probe_runtime::finstrument::{self, Reason};
use probe_runtime::patch::TextPolicy;
use probe_runtime::{Count, probes};
use probe_tests::instrumented::{Function, load_numbered};
use probe_tests::sandbox::{argument, deny, without_memory};
use probe_tests::scenario;

const FUNCTIONS: usize = 16;

#[test]
fn memory_that_can_not_be_made_executable() {
    scenario::runs_in_a_child("scenario", "refused");
}

#[test]
fn no_memory_in_reach() {
    scenario::runs_in_a_child("scenario", "crowded");
}

#[test]
fn no_memory_at_all() {
    scenario::runs_in_a_child("scenario", "short");
}

#[test]
#[ignore = "other tests play it, in children"]
fn scenario() {
    let asked = scenario::to_play();
    match asked.as_str() {
        "refused" => refused(),
        "crowded" => crowded(),
        "short" => short(),
        other => panic!("no scenario {other}"),
    }
    println!("done: {asked}");
}

/// Calls each function some times, and makes sure that all are counted, though none is a site.
fn check(functions: &[Function], errno: i32, why: &str) {
    let calls = finstrument::attach(Count::new(), 100).unwrap();
    for _ in 0..10 {
        for (number, function) in functions.iter().enumerate() {
            assert_eq!(function(3), 3 + number as u64);
        }
    }
    assert_eq!(calls.total(), 10 * 2 * FUNCTIONS as u64);
    let stats = finstrument::stats();
    assert_eq!((stats.discovered, stats.patched, stats.lost), (2 * FUNCTIONS, 0, 0), "{stats:?}");
    assert_eq!((stats.unpatched, stats.waiting, stats.postponed), (2 * FUNCTIONS, 0, 0), "{stats:?}");
    for kept in finstrument::unpatched() {
        assert_eq!(kept.reason(), Reason::NoStub { errno });
        assert!(kept.site().is_some() && kept.to_string().contains(why), "{kept}");
    }
    assert!(probes().iter().filter(|it| it.path().starts_with('f')).all(|it| it.sites() == 1));
    drop(calls);
    functions.iter().for_each(|function| _ = function(0));
    let again = finstrument::attach(Count::new(), 100).unwrap();
    functions.iter().for_each(|function| _ = function(0));
    assert_eq!(again.total(), 2 * FUNCTIONS as u64);
    drop(again);
}

fn refused() {
    let (library, functions) = load_numbered("refused", FUNCTIONS);
    finstrument::text_policy(TextPolicy::Alias);
    let execute = libc::PROT_EXEC.unsigned_abs();
    deny(libc::SYS_mprotect, argument(2), execute, execute);
    check(&functions, libc::EPERM, "does not let memory for its stub be made executable");
    library.close();
    assert_eq!(finstrument::unpatched(), []);
}

fn crowded() {
    let (library, functions) = load_numbered("crowded", FUNCTIONS);
    finstrument::start();
    // All that is free within the reach of a call is taken.
    let site = functions[0] as usize;
    let mut len = 2_usize << 30;
    while len >= 4096 {
        let reach = site.saturating_sub((2 << 30) + (1 << 20)) & !4095..site + (2 << 30) + (1 << 20);
        for place in reach.step_by(len) {
            let flags =
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED_NOREPLACE;
            // SAFETY: a mapping that replaces none.
            let _ = unsafe { libc::mmap(place as *mut _, len, libc::PROT_NONE, flags, -1, 0) };
        }
        // Chunks are larger.
        len = if len > 1 << 16 { len / 2 } else { 0 };
    }
    check(&functions, libc::EEXIST, "no memory for its stub is free within 2 GiB of it");
    library.close();
}

fn short() {
    let (library, functions) = load_numbered("short", FUNCTIONS);
    let calls = finstrument::attach(Count::new(), 100).unwrap();
    let call_all = || {
        for (number, function) in functions.iter().enumerate() {
            assert_eq!(function(3), 3 + number as u64);
        }
    };
    // Nothing is discovered, and each hit says so.
    without_memory(|| (0..10).for_each(|_| call_all()));
    let stats = finstrument::stats();
    assert_eq!((stats.discovered, stats.lost), (0, 10 * 2 * FUNCTIONS), "{stats:?}");
    assert_eq!(calls.total(), 0);
    // From then on each counts, though there was no memory for stubs a moment ago, and they are
    // real calls.
    (0..10).for_each(|_| call_all());
    let stats = finstrument::stats();
    assert_eq!((stats.discovered, stats.lost), (2 * FUNCTIONS, 10 * 2 * FUNCTIONS), "{stats:?}");
    assert_eq!(calls.total(), 10 * 2 * FUNCTIONS as u64);
    assert!(finstrument::unpatched().iter().all(|it| it.reason() == Reason::NoStub { errno: libc::ENOMEM }));
    drop(calls);
    library.close();
}
