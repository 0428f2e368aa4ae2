//! Libraries that ship probes, in the programs of others: in a chain, in a plugin, without a
//! standard library, and switched off.
//!
//! The crates are those of `shipped/`.

// Once is enough: it builds each of its programs with the backend it wants.
#![cfg(not(probe_portable))]

mod bare;
mod chain;
mod off;
mod plugin;

use probe_tests::fixture::Configuration;

/// A configuration of the crates that ship probes.
fn configuration(name: &'static str) -> Configuration {
    Configuration::new(env!("CARGO_TARGET_TMPDIR"), "shipped", name)
}
