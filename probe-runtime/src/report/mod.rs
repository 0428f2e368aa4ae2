//! Reports: text tables for people, JSON and CSV for programs; and how a report replaces its file.
//!
//! JSON and CSV are written here and not by a crate: the reports are flat, and the rules for
//! escaping fit on one screen. They are tested against parsers by other authors.

mod counts;
mod csv;
mod document;
pub(crate) mod file;
mod fit;
#[cfg(any(feature = "latency", feature = "profiler"))]
mod functions;
mod json;
mod labels;
#[cfg(feature = "metrics")]
pub mod metrics;
#[cfg(any(feature = "latency", feature = "call-tree", feature = "profiler"))]
mod missing;
mod notes;
mod row;
#[cfg(feature = "serde")]
mod serialized;
mod staged;
mod table;
mod units;

pub(crate) use csv::Csv;
pub(crate) use document::{Rows, Written, document, heading, json, program};
pub use fit::{ending, shortened};
#[cfg(feature = "perf")]
pub(crate) use functions::Columns;
#[cfg(any(feature = "latency", feature = "profiler"))]
pub(crate) use functions::{FixedColumns, functions};
#[cfg(feature = "metrics")]
pub(crate) use json::JsonObject;
pub(crate) use json::{array, quoted};
pub(crate) use labels::{RowDefinition, labels};
#[cfg(any(feature = "latency", feature = "call-tree", feature = "profiler"))]
pub(crate) use missing::{left_out, missing, missing_lines};
pub(crate) use notes::{footnotes, foreign, notes, notes_of_counts};
pub(crate) use row::{Cell, Row, decimal};
pub(crate) use staged::Staged;
pub use table::Table;
pub use units::{Time, count, was};
