//! Without a standard library: checks that the remaining code compiles and suffices.

use std::fs;
use std::path::Path;
use std::process::Command;

use probe_tests::fixture::TARGET;

use crate::shipped::configuration;

/// A target without an operating system.
const BARE: &str = "x86_64-unknown-none";

/// Sites need the slice that the linker collects.
#[test]
fn a_library_depends_on_what_sites_need() {
    let dependencies = configuration("bare").dependencies("leaf");
    let [leaf, runtime, core, linkme] = &dependencies[..] else { panic!("{dependencies:?}") };
    assert_eq!(leaf, "leaf v1.2.0");
    assert!(runtime.starts_with("probe-runtime v"), "{dependencies:?}");
    assert!(core.starts_with("probe-core v"), "{dependencies:?}");
    assert!(linkme.starts_with("linkme v"), "{dependencies:?}");
}

/// An application can leave out the probes of a library that ships them as a feature.
#[test]
fn probes_may_be_a_feature() {
    let with = configuration("bare").dependencies("middle");
    assert_eq!(with[..2], ["middle v0.4.1", "leaf v1.2.0"]);
    assert_eq!(with.iter().filter(|name| name.starts_with("probe-runtime v")).count(), 2, "{with:?}");
    let bare = configuration("bare").no_default_features();
    let without = bare.dependencies("middle");
    assert_eq!(
        without.iter().filter(|name| name.starts_with("probe-runtime v")).count(),
        1,
        "leaf's: {without:?}"
    );
    bare.check("middle", TARGET);
}

/// The example in `docs/` is the crate that is checked below.
#[test]
fn the_documented_example_is_checked() {
    let read = |file: &str| fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(file)).expect(file);
    let (book, example) = (read("../docs/shipping-latent-probes.md"), read("shipped/bare/src/lib.rs"));
    assert!(book.contains(&format!("```rust,ignore\n{example}```\n")), "{example}");
}

/// `#![no_std]`, `#![forbid(unsafe_code)]`, `#![deny(warnings)]`.
#[test]
fn libraries_are_checked_for_the_host() {
    for package in ["bare", "leaf", "middle"] {
        configuration("bare").check(package, TARGET);
    }
}

/// Where there is no linker that collects definitions, sites leave nothing, and everything
/// compiles.
#[test]
fn libraries_are_checked_for_a_target_without_a_system() {
    if is_installed(BARE) {
        for package in ["bare", "leaf", "middle"] {
            configuration("bare").check(package, BARE);
        }
    } else {
        println!("not checked: `rustup target add {BARE}` would install what it takes");
    }
}

fn is_installed(target: &str) -> bool {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output = Command::new(rustc).args(["--print", "target-libdir", "--target", target]).output();
    let output = output.expect("rustc runs");
    output.status.success() && Path::new(String::from_utf8_lossy(&output.stdout).trim()).is_dir()
}
