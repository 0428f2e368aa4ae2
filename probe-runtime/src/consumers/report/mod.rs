//! Reports: text tables for people, JSON and CSV for programs.
//!
//! JSON and CSV are written here, not by a crate: what is written is flat, and the rules for escaping are a screen. They are tested
//! against parsers that others wrote.

mod csv;
#[cfg(any(feature = "latency", feature = "profiler"))]
mod functions;
mod json;
mod table;
#[cfg(any(feature = "latency", feature = "call-tree", feature = "profiler"))]
mod units;

use std::fmt;

pub(super) use csv::Csv;
#[cfg(feature = "perf")]
pub(super) use functions::{Columns, Number, decimal};
#[cfg(any(feature = "latency", feature = "profiler"))]
pub(super) use functions::{FixedColumns, left_out};
pub(crate) use json::{Object, array};
pub(super) use table::Table;
#[cfg(any(feature = "latency", feature = "call-tree", feature = "profiler"))]
pub(super) use units::Time;

#[cfg(any(feature = "latency", feature = "call-tree", feature = "profiler"))]
use crate::calls::LeftOut;
use crate::consumer::Consumer;
use crate::control::Attachment;

/// What else a reader of an attachment's table has to know: a line each, where there is something.
pub(super) fn footnotes<C: Consumer>(attachment: &Attachment<C>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match attachment.suppressed() {
        0 => (),
        1 => write!(f, "\n1 hit came from inside a consumer, and was not delivered")?,
        hits => write!(f, "\n{hits} hits came from inside a consumer, and were not delivered")?,
    }
    if let Some(failure) = attachment.failure() {
        write!(f, "\nthe consumer is called no more: {failure}")?;
    }
    if !attachment.report().is_complete() {
        write!(f, "\n{}", attachment.report())?;
    }
    Ok(())
}

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
