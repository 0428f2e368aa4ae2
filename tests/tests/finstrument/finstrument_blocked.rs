//! Threads that block every signal, `SIGTRAP` too, while others make the first hits of the
//! functions that these execute: nothing is ever patched through `int3`.
#![cfg(all(target_arch = "x86_64", target_os = "linux", not(any(probe_portable, probe_off))))]

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use probe_runtime::patch::word::traps;
use probe_runtime::{Count, Kind, finstrument, probes, select};
use probe_tests::instrumented::load_numbered;

const FUNCTIONS: usize = 400;

fn block_all() {
    // SAFETY: a set of signals, filled before it is used.
    unsafe {
        let mut all = std::mem::zeroed();
        libc::sigfillset(&raw mut all);
        assert_eq!(libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, std::ptr::null_mut()), 0);
    }
}

#[test]
fn threads_that_block_signals_live() {
    let (library, functions) = load_numbered("blocked", FUNCTIONS);
    let calls = finstrument::attach(Count::new(), 2 * FUNCTIONS + 8).unwrap();
    let at = AtomicUsize::new(0);
    let called: Vec<AtomicUsize> = (0..FUNCTIONS).map(|_| AtomicUsize::new(0)).collect();
    let call = |number: usize| {
        assert_eq!(functions[number](1), 1 + number as u64);
        called[number].fetch_add(1, Ordering::Relaxed);
    };
    thread::scope(|scope| {
        scope.spawn(|| {
            block_all();
            loop {
                match at.load(Ordering::Relaxed) {
                    FUNCTIONS => break,
                    number => call(number),
                }
            }
        });
        for number in 0..FUNCTIONS {
            at.store(number, Ordering::Relaxed);
            call(number);
            if number % 16 == 0 {
                // All are switched there and back, while they are executed.
                let all = select("f*").unwrap().attach(Count::new()).unwrap();
                assert!(all.report().is_complete(), "{}", all.report());
                call(number);
                let _ = calls.pause();
                let _ = calls.resume();
            }
        }
        at.store(FUNCTIONS, Ordering::Relaxed);
    });
    probes();
    let stats = finstrument::stats();
    assert_eq!((stats.discovered, stats.patched), (2 * FUNCTIONS, 2 * FUNCTIONS), "{stats:?}");
    assert_eq!((stats.unpatched, stats.waiting, traps()), (0, 0, 0));
    assert!(stats.split_calls > 0);
    let before: Vec<_> =
        (0..FUNCTIONS).map(|number| calls.counts().hits(&format!("f{number}"), Kind::Entry)).collect();
    (0..FUNCTIONS).for_each(call);
    for (number, before) in before.iter().enumerate() {
        let hits = calls.counts().hits(&format!("f{number}"), Kind::Entry);
        assert_eq!(hits, before.map(|before| before + 1), "f{number}");
        assert!(hits.unwrap() <= called[number].load(Ordering::Relaxed) as u64);
    }
    drop(calls);
    library.close();
}
