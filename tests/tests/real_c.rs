//! zlib built by `probe_build`: all that must hold of it, in a process for each scenario, since they count all probes.
#![cfg(all(target_arch = "x86_64", target_os = "linux", not(any(probe_portable, probe_off))))]

use std::collections::BTreeMap;

use probe_tests::real::{Way, ZLIB, checks};
use probe_tests::scenario::{asked, runs_in_a_child};

const ROOT: &str = env!("CARGO_TARGET_TMPDIR");
const BYTES: u64 = 30_000;

fn scenario(name: &str, way: Way, check: impl FnOnce(Way)) {
    if asked().is_none() {
        checks::prepare(&ZLIB, ROOT, way);
        return runs_in_a_child(name, name);
    }
    check(way);
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
    scenario("entry_return_listing", Way::EntryReturn, listing);
}

#[test]
fn instrument_functions_listing() {
    scenario("instrument_functions_listing", Way::InstrumentFunctions, listing);
}

#[test]
fn entry_return_counts() {
    scenario("entry_return_counts", Way::EntryReturn, counts);
}

#[test]
fn instrument_functions_counts() {
    scenario("instrument_functions_counts", Way::InstrumentFunctions, counts);
}

#[test]
fn toggled() {
    let selectors = ["deflate", "inflate*", "**", "*_stored kind=entry, deflate*"];
    scenario("toggled", Way::EntryReturn, |way| {
        checks::toggling_changes_nothing(&ZLIB, ROOT, way, BYTES, &selectors);
    });
}
