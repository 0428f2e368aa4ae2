//! `startup`: the cost of 100,000 unused sites in a program: time until `main`, bytes of its file,
//! and the first `select`.

use std::fs;
use std::process::{Command, Stdio};

use probe_benches::{Case, IS_PATCHED, Scale, figure, interleave, monotonic_ns, timing};

const PLAIN: &str = env!("CARGO_BIN_EXE_startup-plain");
const PROBES: &str = env!("CARGO_BIN_EXE_startup-probes");
const SITES: u32 = 100_000;

fn main() {
    if !IS_PATCHED {
        println!("sites are not patched in this build");
        return;
    }
    let scale = Scale::from_args();
    until_main(scale);
    file_bytes();
    first_select(scale);
}

/// Measures the time from the start of the program until `main`.
fn until_main(scale: Scale) {
    let medians = interleave(
        scale.of(400),
        &mut [Case::given("plain", || to_main(PLAIN)), Case::given("100k-sites", || to_main(PROBES))],
    );
    for case in medians.names() {
        timing("startup", &medians, case, "plain");
    }
}

fn to_main(program: &str) -> u64 {
    let before = monotonic_ns();
    let said = run(program, None);
    said[0] - before
}

fn file_bytes() {
    let len = |program| fs::metadata(program).expect("the program was built").len();
    let (plain, probes) = (len(PLAIN), len(PROBES));
    let bytes = f64::from(u32::try_from(probes - plain).expect("less than 4 GiB")) / f64::from(SITES);
    // The minimum of a site: NOP, record, definition.
    figure(
        "startup/file-bytes",
        format_args!("{bytes:.1}"),
        "bytes a site",
        bytes / 213.0,
        "5 + 16 + 192 bytes",
    );
}

/// Measures the first `select` of a program: one probe by its name, and all probes.
fn first_select(scale: Scale) {
    for (name, selector, expected) in [
        ("first-select-one", "generated::f012345 kind=entry", 1),
        ("first-select-all", "generated::**", u64::from(SITES)),
    ] {
        let medians = interleave(
            scale.of(100),
            &mut [
                Case::given("plain", || to_main(PLAIN)),
                Case::given(name, || {
                    let said = run(PROBES, Some(selector));
                    assert_eq!(said[2], expected, "probes found by {selector}");
                    said[1]
                }),
            ],
        );
        let ms = medians.ns(name) / 1e6;
        figure(
            &format!("startup/{name}"),
            format_args!("{ms:.2}"),
            "ms",
            medians.ratio(name, "plain"),
            "plain start",
        );
    }
}

/// Runs a program; returns the numbers that it prints.
fn run(program: &str, arg: Option<&str>) -> Vec<u64> {
    let output = Command::new(program).args(arg).stdin(Stdio::null()).output().expect("the program runs");
    assert!(output.status.success(), "{program}: {}", output.status);
    let text = String::from_utf8(output.stdout).expect("numbers");
    text.split_ascii_whitespace().map(|number| number.parse().expect("a number")).collect()
}
