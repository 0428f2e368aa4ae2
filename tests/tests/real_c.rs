//! zlib built by `probe_build`: all that must hold of it, in a process for each scenario, since they count all probes.
#![cfg(all(target_arch = "x86_64", target_os = "linux", not(any(probe_portable, probe_off))))]

use std::collections::BTreeMap;

use probe_tests::real::{Way, ZLIB, checks};

const ROOT: &str = env!("CARGO_TARGET_TMPDIR");
const BYTES: u64 = 30_000;

fn scenario(name: &str, way: Way, check: impl FnOnce(Way)) {
    checks::in_a_child(&ZLIB, ROOT, name, way, check);
}

fn listing(way: Way) {
    let _ = checks::listing(&ZLIB, ROOT, way);
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
