//! The linker matrix: under each linker, profile and kind of output, a program must list exactly
//! its probes and sites, and count exactly its hits.
//!
//! Each test is one configuration of the programs in `link/`. It compares the listing of a program
//! at run time with the list in the test, and with the content of the program's file, which it
//! reads without the runtime.

// Once is enough: it builds each of its programs with the backend it wants.
#![cfg(not(probe_portable))]

mod app;
mod objects;

use probe_tests::fixture::Configuration;

/// A configuration of the linker matrix.
fn configuration(name: &'static str) -> Configuration {
    Configuration::new(env!("CARGO_TARGET_TMPDIR"), "link", name)
}
