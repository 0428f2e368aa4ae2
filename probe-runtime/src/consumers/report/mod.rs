//! Reports: text tables for people, JSON and CSV for programs.
//!
//! JSON and CSV are written here, not by a crate: what is written is flat, and the rules for escaping are a screen. They are tested
//! against parsers that others wrote.

mod csv;
#[cfg(any(feature = "latency", feature = "profiler"))]
mod functions;
mod json;
mod notes;
mod table;
#[cfg(any(feature = "latency", feature = "call-tree", feature = "profiler"))]
mod units;

#[cfg(any(feature = "latency", feature = "call-tree", feature = "profiler"))]
use std::fmt;

pub(super) use csv::Csv;
#[cfg(feature = "perf")]
pub(super) use functions::{Columns, Number, decimal};
#[cfg(any(feature = "latency", feature = "profiler"))]
pub(super) use functions::{FixedColumns, left_out};
pub(crate) use json::{Object, array};
pub(super) use notes::footnotes;
#[cfg(any(feature = "latency", feature = "call-tree", feature = "profiler"))]
pub(crate) use notes::notes;
pub(crate) use notes::notes_of_counts;
pub(super) use table::Table;
#[cfg(any(feature = "latency", feature = "call-tree", feature = "profiler"))]
pub(super) use units::Time;

#[cfg(any(feature = "latency", feature = "call-tree", feature = "profiler"))]
use crate::calls::LeftOut;

/// What is missing from a measurement of calls: a line each, where there is something.
#[cfg(any(feature = "latency", feature = "call-tree", feature = "profiler"))]
pub(super) fn missing(lost: u64, left_out: &[LeftOut], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    if lost != 0 {
        let calls = if lost == 1 { "1 call was" } else { &format!("{lost} calls were") };
        write!(f, "\n{calls} not measured: too many under way, or no memory")?;
    }
    for it in left_out.iter().take(3) {
        write!(f, "\n{it}")?;
    }
    if left_out.len() > 3 {
        write!(f, "\nand so are {} others", left_out.len() - 3)?;
    }
    Ok(())
}
