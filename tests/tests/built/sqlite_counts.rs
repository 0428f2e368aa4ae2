//! SQLite built by `probe_build`: the same results latent, with everything counted, and latent
//! again; counts that agree with counters compiled in by hand; an exit for each entry; the file's
//! text afterwards. The same without `probe_build`: see `discovered`. Each scenario in a process of
//! its own: it counts all probes, and the builds have the same ones. They are in one binary so that
//! their builds run side by side.
#![cfg(all(target_arch = "x86_64", target_os = "linux", not(any(probe_portable, probe_off))))]

use std::collections::BTreeMap;

use probe_tests::real::accounts::unknown_hooks;
use probe_tests::real::{SQLITE, Way, checks};

const ROOT: &str = env!("CARGO_TARGET_TMPDIR");

/// Rows inserted.
const ROWS: u64 = if cfg!(debug_assertions) { 10_000 } else { 100_000 };

fn scenario(name: &str, way: Way) {
    checks::in_a_child(&SQLITE, ROOT, name, way, |way| {
        let counts = checks::counts_are_right(&SQLITE, ROOT, way, ROWS);
        let unpaired = checks::unpaired(&counts);
        let unknown = unknown_hooks(&SQLITE.build(ROOT, way).accounts);
        // Nothing in it throws, jumps far away or ends the program.
        assert_eq!((unpaired, unknown), (BTreeMap::new(), 0));
    });
}

#[test]
fn entry_return() {
    scenario("entry_return", Way::EntryReturn);
}

#[test]
fn instrument_functions() {
    scenario("instrument_functions", Way::InstrumentFunctions);
}
