//! Feature `serde`: values that users get can be serialized, with the names and units of the JSON
//! reports.
//!
//! A report serializes to the document that `to_json` writes, and a row to one of its `rows`: both
//! are made of the same members. Decimals keep all their digits; JSON reports have four.

mod names;
#[cfg(feature = "std")]
mod patched;
#[cfg(feature = "std")]
mod probes;
#[cfg(feature = "std")]
mod rows;
