//! Reports: what consumers measured, as values, from which `probe-report` makes tables for people,
//! JSON and CSV for programs; and how a report replaces its file.

mod counts;
pub(crate) mod file;
#[cfg(any(feature = "latency", feature = "profiler"))]
mod functions;
#[cfg(feature = "metrics")]
pub mod metrics;
mod notes;
#[cfg(feature = "serde")]
mod serialized;
mod source;

pub(crate) use counts::CountsReport;
pub(crate) use file::Staged;
#[cfg(feature = "perf")]
pub(crate) use functions::Columns;
#[cfg(any(feature = "latency", feature = "profiler"))]
pub(crate) use functions::{FixedColumns, functions};
#[cfg(any(feature = "trace", feature = "tracing"))]
pub(crate) use notes::footnotes;
pub(crate) use notes::{foreign, notes, notes_of_counts};
#[cfg(any(feature = "latency", feature = "call-tree", feature = "profiler"))]
pub(crate) use notes::{left_out, missing};
pub use source::{ReportSource, Rows};
pub(crate) use source::{head, head_of_list, json, program, shown, view};
