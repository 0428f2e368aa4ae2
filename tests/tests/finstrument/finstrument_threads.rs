//! Threads that race for the first hits of the same functions, while another attaches and detaches
//! all: no hit is lost or counted twice.
#![cfg(all(target_arch = "x86_64", target_os = "linux", not(any(probe_portable, probe_off))))]

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use probe_runtime::{Count, Kind, finstrument, select};
use probe_tests::instrumented::{compilers, folder, functions, numbered, shared, source};
use probe_tests::library::Library;
use probe_tests::stops::Stops;

const FUNCTIONS: usize = 300;
const THREADS: usize = 4;
const CALLS: usize = 20;

static TOLD: AtomicUsize = AtomicUsize::new(0);

#[test]
fn racing_first_hits_are_exact() {
    let folder = folder("threads");
    finstrument::on_discovery(|_| _ = TOLD.fetch_add(1, Ordering::Relaxed));
    for (round, busy) in compilers().into_iter().flat_map(|it| [(it, false), (it, true)]) {
        let told = TOLD.load(Ordering::Relaxed);
        let file = source(&folder, &format!("{round}{busy}.c"), &numbered(FUNCTIONS));
        let library = Library::open(&shared(round, &file, &format!("{round}{busy}.so"), &["-O1"]));
        let functions = functions(&library, FUNCTIONS);
        let before = finstrument::stats();
        let calls = finstrument::attach(Count::new(), 2 * FUNCTIONS + THREADS).unwrap();
        let (start, stop) = (Barrier::new(THREADS), AtomicBool::new(!busy));
        thread::scope(|scope| {
            let stops = Stops(&stop);
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    if let Ok(set) = select("**") {
                        drop(set.attach(Count::new()));
                    }
                }
            });
            let threads: Vec<_> = (0..THREADS)
                .map(|_| {
                    scope.spawn(|| {
                        for (number, function) in functions.iter().enumerate() {
                            if number % 16 == 0 {
                                start.wait();
                            }
                            for call in 0..CALLS {
                                assert_eq!(function(call as u64), (call + number) as u64);
                            }
                        }
                    })
                })
                .collect();
            threads.into_iter().for_each(|thread| thread.join().unwrap());
            drop(stops);
        });
        let counts = calls.counts();
        for number in 0..FUNCTIONS {
            for kind in [Kind::Entry, Kind::Exit] {
                let hits = counts.hits(&format!("f{number}"), kind);
                assert_eq!(hits, Some((THREADS * CALLS) as u64), "f{number} {kind}, {round}, busy: {busy}");
            }
        }
        let stats = finstrument::stats();
        assert_eq!(stats.discovered - before.discovered, 2 * FUNCTIONS);
        assert_eq!(stats.patched - before.patched, 2 * FUNCTIONS, "{stats:?}");
        assert_eq!((stats.unpatched, stats.waiting, stats.lost, stats.beyond_capacity), (0, 0, 0, 0));
        assert_eq!(TOLD.load(Ordering::Relaxed) - told + stats.untold - before.untold, 2 * FUNCTIONS);
        assert!(counts.iter().all(|it| it.probe.sites() == 1));
        drop(calls);
        library.close();
    }
}
