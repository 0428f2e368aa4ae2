//! Clipper2 built by `probe_build`: C++ with templates and exceptions. In a process for each
//! scenario, since they count all probes.
#![cfg(all(target_arch = "x86_64", target_os = "linux", not(any(probe_portable, probe_off))))]

use std::collections::BTreeMap;

use probe_tests::real::{CLIPPER, Way};
use probe_tests::real_cases;

const ROOT: &str = env!("CARGO_TARGET_TMPDIR");
const ROUNDS: u64 = 5;

real_cases! {
    base: CLIPPER,
    amount: ROUNDS,
    selectors: ["Clipper2Lib::ClipperBase::IntersectEdges", "Clipper2Lib::**", "**", "real::** kind=exit"],
    unpaired: unpaired,
}

/// Functions that are left by an exception.
fn unpaired(way: Way, thrown: BTreeMap<String, (u64, u64)>) {
    if way == Way::InstrumentFunctions {
        // The compiler calls the hook on the way of an exception, too.
        assert_eq!(thrown, BTreeMap::new());
        return;
    }
    // They have no exit then, a whole number of times in each round.
    assert!(!thrown.is_empty());
    for (path, (entered, left)) in thrown {
        assert!(entered > left && (entered - left) % ROUNDS == 0, "{path}: {entered} entries, {left} exits");
    }
}
