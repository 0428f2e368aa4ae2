//! Reports: text tables for people, JSON and CSV for programs; and how a report replaces its file.
//!
//! JSON and CSV are written here and not by a crate: the reports are flat, and the rules for
//! escaping fit on one screen. They are tested against parsers by other authors.

mod counts;
mod csv;
mod document;
pub(crate) mod file;
#[cfg(any(feature = "latency", feature = "profiler"))]
mod functions;
mod json;
mod labels;
mod notes;
mod row;
mod staged;
mod table;
mod units;

#[cfg(any(feature = "latency", feature = "call-tree", feature = "profiler"))]
use std::fmt;

pub(crate) use csv::Csv;
pub(crate) use document::{Rows, Written, document, heading, json, program};
#[cfg(feature = "perf")]
pub(crate) use functions::Columns;
#[cfg(any(feature = "latency", feature = "profiler"))]
pub(crate) use functions::FixedColumns;
pub(crate) use json::{JsonObject, array};
pub(crate) use labels::{RowDefinition, labels};
pub(crate) use notes::{footnotes, foreign, notes, notes_of_counts};
pub(crate) use row::{Cell, Row, decimal};
pub(crate) use staged::Staged;
pub use table::Table;
pub use units::Time;

#[cfg(any(feature = "latency", feature = "call-tree", feature = "profiler"))]
use crate::calls::LeftOut;

/// Lines about calls that are missing from a measurement.
#[cfg(any(feature = "latency", feature = "call-tree", feature = "profiler"))]
pub(crate) fn missing_lines(lost: u64, left_out: &[LeftOut]) -> Vec<String> {
    let mut lines = Vec::new();
    if lost != 0 {
        let calls = if lost == 1 { "1 call was" } else { &format!("{lost} calls were") };
        lines.push(format!("{calls} not measured: too many under way, or no memory"));
    }
    lines.extend(left_out.iter().take(3).map(ToString::to_string));
    match left_out.len().saturating_sub(3) {
        0 => (),
        1 => lines.push("and so is 1 other".to_owned()),
        others => lines.push(format!("and so are {others} others")),
    }
    lines
}

/// Returns the functions that were left out, for reports for programs.
#[cfg(any(feature = "latency", feature = "call-tree", feature = "profiler"))]
pub(crate) fn left_out(left_out: &[LeftOut]) -> Cell<'_> {
    left_out.iter().map(LeftOut::row).collect()
}

#[cfg(any(feature = "latency", feature = "call-tree", feature = "profiler"))]
impl LeftOut {
    pub(crate) fn row(&self) -> Row<'_> {
        Row::new().with("function", self.function.path())
    }
}

/// Writes these lines below a table.
#[cfg(any(feature = "latency", feature = "call-tree", feature = "profiler"))]
pub(crate) fn missing(lost: u64, left_out: &[LeftOut], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    footnotes(&missing_lines(lost, left_out), f)
}
