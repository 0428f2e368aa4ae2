//! The members at the beginning of every JSON report: the program, the time, the consumer.

use std::env::{self, consts::EXE_SUFFIX};
use std::process;

use super::json::{JsonObject, array};
use super::row::{Cell, Row};
use crate::engine::period::Period;

/// The version of the format. It changes when a member changes its meaning or is removed, and not
/// when one is added.
const SCHEMA: u64 = 1;

/// Rows, created one after the other.
pub(crate) type Rows<'a> = Box<dyn Iterator<Item = Row<'a>> + 'a>;

/// A report for programs. JSON and `serde` write the same members in this order.
pub(crate) trait Written {
    /// See [`document`].
    fn head(&self) -> Row<'static>;

    fn rows(&self) -> Rows<'_>;

    /// Returns the members after the rows.
    fn rest(&self) -> Row<'_> {
        Row::new()
    }
}

/// Writes a report as JSON, with one row per line.
pub(crate) fn json(report: &dyn Written) -> String {
    let rows = array(report.rows().map(|row| row.json()));
    report.rest().add_to(report.head().add_to(JsonObject::new()).json("rows", &rows)).finish()
}

/// Returns the first members of a report. Its `rows`, and further members of its consumer, follow.
pub(crate) fn document(consumer: &'static str, period: Period) -> Row<'static> {
    Row::new()
        .with("schema", SCHEMA)
        .with("program", program())
        .with("pid", process::id())
        .with("start", period.start().to_string())
        .with("duration", Cell::Seconds(period.duration))
        .with("consumer", consumer)
}

/// Returns the first members of a document that belongs to no consumer and no time: a list of
/// probes.
pub(crate) fn heading(what: &str) -> JsonObject {
    let object = JsonObject::new().number("schema", SCHEMA).text("program", &program());
    object.number("pid", process::id().into()).text("consumer", what)
}

/// Returns the file name of the program.
pub(crate) fn program() -> String {
    let path = env::current_exe().unwrap_or_default();
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    name.strip_suffix(EXE_SUFFIX).unwrap_or(&name).to_owned()
}
