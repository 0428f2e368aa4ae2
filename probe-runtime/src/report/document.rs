//! What every report begins with as JSON: which program, when, by which consumer.

use std::env::{self, consts::EXE_SUFFIX};
use std::process;

use super::json::{Object, array};
use super::row::{Cell, Row};
use crate::period::Period;

/// Changes when a member's meaning does, or one goes. New members don't change it.
const SCHEMA: u64 = 1;

/// Rows, made one after the other.
pub(crate) type Rows<'a> = Box<dyn Iterator<Item = Row<'a>> + 'a>;

/// What a report is for programs. JSON and what `serde` writes have the same members, in this
/// order.
pub(crate) trait Written {
    /// See [`document`].
    fn head(&self) -> Row<'static>;

    fn rows(&self) -> Rows<'_>;

    /// What comes after the rows.
    fn rest(&self) -> Row<'_> {
        Row::new()
    }
}

/// A report as JSON; a row a line.
pub(crate) fn json(report: &dyn Written) -> String {
    let rows = array(report.rows().map(|row| row.json()));
    report.rest().add_to(report.head().add_to(Object::new()).json("rows", &rows)).finish()
}

/// What a report begins with; its `rows`, and what else a consumer has, are still to come.
pub(crate) fn document(consumer: &'static str, period: Period) -> Row<'static> {
    Row::new()
        .with("schema", SCHEMA)
        .with("program", program())
        .with("pid", process::id())
        .with("start", period.start().to_string())
        .with("duration", Cell::Seconds(period.duration))
        .with("consumer", consumer)
}

/// The same of what no consumer has measured, and belongs to no time: a list of probes.
pub(crate) fn heading(what: &str) -> Object {
    let object = Object::new().number("schema", SCHEMA).text("program", &program());
    object.number("pid", process::id().into()).text("consumer", what)
}

/// The name of the program's file.
pub(crate) fn program() -> String {
    let path = env::current_exe().unwrap_or_default();
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    name.strip_suffix(EXE_SUFFIX).unwrap_or(&name).to_owned()
}
