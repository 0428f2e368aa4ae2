//! Reports: what consumers measured, as values, from which `probe-report` makes tables for people,
//! JSON and CSV for programs; and how a report replaces its file.

mod counts;
pub(crate) mod file;
#[cfg(feature = "metrics")]
pub mod metrics;
mod notes;
#[cfg(feature = "serde")]
mod serialized;

pub(crate) use counts::CountsReport;
pub(crate) use file::Staged;
#[cfg(any(feature = "trace", feature = "tracing"))]
pub(crate) use notes::footnotes;
pub(crate) use notes::{foreign, notes, notes_of_counts};
#[cfg(feature = "perf")]
pub(crate) use probe_report::source::Columns;
#[cfg(any(feature = "latency", feature = "call-tree", feature = "profiler"))]
pub(crate) use probe_report::source::missing;
pub(crate) use probe_report::source::{ReportSource, Rows, head, head_of_list, json, program, view};
#[cfg(any(feature = "latency", feature = "profiler"))]
pub(crate) use probe_report::{
    functions, shown,
    source::{FixedColumns, left_out},
};
