//! zlib built by `probe_build`: all that must hold of it, in a process for each scenario, since
//! they count all probes.
#![cfg(all(target_arch = "x86_64", target_os = "linux", not(any(probe_portable, probe_off))))]

use std::collections::BTreeMap;

use probe_tests::real::{Way, ZLIB};
use probe_tests::real_cases;

const ROOT: &str = env!("CARGO_TARGET_TMPDIR");

real_cases! {
    base: ZLIB,
    // Bytes.
    amount: 30_000,
    selectors: ["deflate", "inflate*", "**", "*_stored kind=entry, deflate*"],
    unpaired: |_: Way, unpaired| assert_eq!(unpaired, BTreeMap::new()),
}
