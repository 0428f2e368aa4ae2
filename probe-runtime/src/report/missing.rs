//! Calls that are missing from a measurement.

use std::fmt;

use super::{Cell, Row, footnotes, was};
use crate::engine::calls::LeftOut;

/// Lines about calls that are missing from a measurement.
pub(crate) fn missing_lines(lost: u64, left_out: &[LeftOut]) -> Vec<String> {
    let mut lines = Vec::new();
    if lost != 0 {
        lines.push(format!("{} not measured: too many under way, or no memory", was(lost, "call")));
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
pub(crate) fn left_out(left_out: &[LeftOut]) -> Cell<'_> {
    left_out.iter().map(LeftOut::row).collect()
}

impl LeftOut {
    pub(crate) fn row(&self) -> Row<'_> {
        Row::new().with("function", self.function.path())
    }
}

/// Writes these lines below a table.
pub(crate) fn missing(lost: u64, left_out: &[LeftOut], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    footnotes(&missing_lines(lost, left_out), f)
}
