//! A plugin is loaded again and again, in a program that only reads counts. Newly discovered
//! functions use the places of unloaded ones again.
//! A process of its own: it looks at all of its mappings.
#![cfg(all(target_arch = "x86_64", target_os = "linux", not(any(probe_portable, probe_off))))]

use std::fmt::Write;
use std::fs;

use probe_runtime::{Count, Kind, finstrument, probes};
use probe_tests::instrumented::{folder, shared, source};
use probe_tests::library::Library;

const FUNCTIONS: usize = 64;
const ROUNDS: usize = 64;

/// Memory of no file that can be executed: stubs.
fn stubs() -> usize {
    let maps = fs::read_to_string("/proc/self/maps").unwrap();
    maps.lines().filter(|line| line.contains(" r-xp ") && line.ends_with(" 00:00 0 ")).count()
}

#[test]
fn places_are_used_again() {
    let mut code = String::from("#include <stdint.h>\n");
    for number in 0..FUNCTIONS {
        writeln!(code, "uint64_t f{number}(uint64_t x) {{ return x + {number}; }}").unwrap();
    }
    let folder = folder("reloads");
    let file = source(&folder, "code.c", &code);
    let path = shared("gcc", &file, "code.so", &["-O1"]);
    // The attachment needs counters for all rounds: those of unloaded functions are not reused.
    let calls = finstrument::attach(Count::new(), 2 * FUNCTIONS * ROUNDS).unwrap();
    let before = stubs();
    for round in 1..=ROUNDS {
        let library = Library::open(&path);
        for number in 0..FUNCTIONS {
            assert_eq!(library.function(&format!("f{number}"))(1), 1 + number as u64);
        }
        assert_eq!(calls.total(), (2 * FUNCTIONS * round) as u64);
        library.close();
        assert!(probes().is_empty());
    }
    for number in 0..FUNCTIONS {
        assert_eq!(calls.counts().hits(&format!("f{number}"), Kind::Exit), Some(ROUNDS as u64));
    }
    let stats = finstrument::stats();
    assert_eq!((stats.discovered, stats.patched), (2 * FUNCTIONS * ROUNDS, 2 * FUNCTIONS * ROUNDS));
    assert_eq!((stats.lost, stats.unnamed, stats.beyond_capacity), (0, 0, 0));
    // One chunk has 1,024 places, eight times as many as there are call sites.
    assert_eq!(stubs() - before, 1);
    drop(calls);
}
