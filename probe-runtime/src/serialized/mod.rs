//! Feature `serde`: what users get as values can be serialized, with the names and units of the
//! JSON reports.
//!
//! A report is what its `to_json` writes, and a row is one of its `rows`: both are made of the same
//! members. Decimals keep all their digits, of which JSON reports have four.

mod names;
#[cfg(feature = "std")]
mod patched;
#[cfg(feature = "std")]
mod probes;
#[cfg(feature = "std")]
mod rows;
