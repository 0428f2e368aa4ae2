//! Reports: text tables for people, JSON and CSV for programs; and how a report replaces its file.

mod counts;
mod document;
pub(crate) mod file;
#[cfg(any(feature = "latency", feature = "profiler"))]
mod functions;
#[cfg(feature = "metrics")]
pub mod metrics;
mod names;
mod notes;
mod output;
#[cfg(feature = "serde")]
mod serialized;
mod table;

#[cfg(feature = "metrics")]
pub(crate) use document::JsonObject;
pub(crate) use document::{
    Cell, Csv, Row, Rows, Written, array, decimal, document, heading, json, program, quoted,
};
pub(crate) use file::Staged;
#[cfg(feature = "perf")]
pub(crate) use functions::Columns;
#[cfg(any(feature = "latency", feature = "profiler"))]
pub(crate) use functions::{FixedColumns, functions};
pub(crate) use names::{RowDefinition, labels};
pub use names::{ending, shortened};
pub use notes::{count, was};
pub(crate) use notes::{footnotes, foreign, notes, notes_of_counts};
#[cfg(any(feature = "latency", feature = "call-tree", feature = "profiler"))]
pub(crate) use notes::{left_out, missing, missing_lines};
pub use output::Output;
pub use probe_lang::units::Time;
pub use table::Table;
