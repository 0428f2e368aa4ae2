//! Clipper2 built by `probe_build`: C++ with templates and exceptions. In a process for each scenario, since they count all
//! probes.
#![cfg(all(target_arch = "x86_64", target_os = "linux", not(any(probe_portable, probe_off))))]

use std::collections::BTreeMap;

use probe_tests::real::{CLIPPER, Way, checks};

const ROOT: &str = env!("CARGO_TARGET_TMPDIR");
const ROUNDS: u64 = 5;

fn scenario(name: &str, way: Way, check: impl FnOnce(Way)) {
    checks::in_a_child(&CLIPPER, ROOT, name, way, check);
}

fn listing(way: Way) {
    let _ = checks::listing(&CLIPPER, ROOT, way);
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
    scenario("entry_return_counts", Way::EntryReturn, |way| {
        let counts = checks::counts_are_right(&CLIPPER, ROOT, way, ROUNDS);
        // Left by an exception, so that they have no exit, a whole number of times in each round.
        let thrown = checks::unpaired(&counts);
        assert!(!thrown.is_empty());
        for (path, (entered, left)) in thrown {
            assert!(
                entered > left && (entered - left) % ROUNDS == 0,
                "{path}: {entered} entries, {left} exits"
            );
        }
    });
}

#[test]
fn instrument_functions_counts() {
    scenario("instrument_functions_counts", Way::InstrumentFunctions, |way| {
        let counts = checks::counts_are_right(&CLIPPER, ROOT, way, ROUNDS);
        // The compiler calls the hook on the way of an exception, too.
        assert_eq!(checks::unpaired(&counts), BTreeMap::new());
    });
}

#[test]
fn toggled() {
    let selectors =
        ["Clipper2Lib::ClipperBase::IntersectEdges", "Clipper2Lib::**", "**", "real::** kind=exit"];
    scenario("toggled", Way::EntryReturn, |way| {
        checks::toggling_changes_nothing(&CLIPPER, ROOT, way, ROUNDS, &selectors);
    });
}
