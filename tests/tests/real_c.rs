//! zlib built by `probe_build`: all that must hold of it, in a process for each scenario, since they count all probes.
#![cfg(all(target_arch = "x86_64", target_os = "linux", not(any(probe_portable, probe_off))))]

use std::collections::BTreeMap;

use probe_tests::real::{Way, ZLIB, checks};
use probe_tests::scenario::{asked, runs_in_a_child};

const ROOT: &str = env!("CARGO_TARGET_TMPDIR");
const BYTES: u64 = 30_000;

fn scenario(name: &str, check: impl FnOnce()) {
    if asked().is_none() {
        checks::prepare(&ZLIB, ROOT);
        return runs_in_a_child(name, name);
    }
    check();
    println!("done: {name}");
}

fn listing(way: Way) {
    let built = ZLIB.build(ROOT, way);
    checks::accounts_are_complete(&built);
    checks::listing_is_right(&ZLIB, &built);
}

fn counts(way: Way) {
    let counts = checks::counts_are_right(&ZLIB, ROOT, way, BYTES);
    assert_eq!(checks::unpaired(&counts), BTreeMap::new());
}

#[test]
fn entry_return_listing() {
    scenario("entry_return_listing", || listing(Way::EntryReturn));
}

#[test]
fn instrument_functions_listing() {
    scenario("instrument_functions_listing", || listing(Way::InstrumentFunctions));
}

#[test]
fn entry_return_counts() {
    scenario("entry_return_counts", || counts(Way::EntryReturn));
}

#[test]
fn instrument_functions_counts() {
    scenario("instrument_functions_counts", || counts(Way::InstrumentFunctions));
}

#[test]
fn toggled() {
    let selectors = ["deflate", "inflate*", "**", "*_stored kind=entry, deflate*"];
    scenario("toggled", || checks::toggling_changes_nothing(&ZLIB, ROOT, Way::EntryReturn, BYTES, &selectors));
}
