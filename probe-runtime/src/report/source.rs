//! Reports at one moment: what programs and what people read of them.

use std::env::{self, consts::EXE_SUFFIX};
use std::process;

use probe_report::{Body, Cell, JsonObject, Row, View};

use crate::engine::period::Period;

/// The version of the format. It changes when a member changes its meaning or is removed, and not
/// when one is added.
const SCHEMA: u64 = 1;

/// Rows, created one after the other.
pub type Rows<'a> = Box<dyn Iterator<Item = Row<'a>> + 'a>;

/// A report at one moment. All of its formats are made from the values here, so they agree.
pub trait ReportSource {
    /// Returns the members before the rows, see [`head`].
    fn head(&self) -> Row<'static>;

    fn rows(&self) -> Rows<'_>;

    /// Returns the members after the rows.
    fn rest(&self) -> Row<'_> {
        Row::new()
    }

    /// Returns what people see.
    fn body(&self) -> Body<'_>;

    /// Returns the sentences below that.
    fn notes(&self) -> Vec<String> {
        self.missing()
    }

    /// Returns the sentences about figures that no member of the rows or around them tells.
    fn untold(&self) -> Vec<String> {
        Vec::new()
    }

    /// Returns the sentences about figures that CSV has no place for.
    fn missing(&self) -> Vec<String> {
        Vec::new()
    }

    fn csv(&self) -> String;
}

/// Writes a report as JSON, with one row per line, and these notes.
pub(crate) fn json(report: &dyn ReportSource, notes: &[String]) -> String {
    let rows = report.rows().map(|row| row.json());
    let notes: Vec<_> = report.untold().into_iter().chain(notes.iter().cloned()).collect();
    probe_report::json(&report.head(), rows, &report.rest(), &notes)
}

/// Returns what people see of a report, with further notes.
pub(crate) fn view(report: &dyn ReportSource, notes: Vec<String>) -> View<'_> {
    let mut all = report.notes();
    all.extend(notes);
    View::new(report.body(), all)
}

/// `shown!(Report)`: prints a report as people see it.
macro_rules! shown {
    ($report:ident) => {
        impl std::fmt::Display for $report {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                std::fmt::Display::fmt(&crate::report::view(self, Vec::new()), f)
            }
        }
    };
}

pub(crate) use shown;

/// Returns the first members of a report. Its `rows`, and further members of its consumer, follow.
pub(crate) fn head(consumer: &'static str, period: Period) -> Row<'static> {
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
pub(crate) fn head_of_list(what: &str) -> JsonObject {
    let object = JsonObject::new().number("schema", SCHEMA).text("program", &program());
    object.number("pid", process::id().into()).text("consumer", what)
}

/// Returns the file name of the program.
pub(crate) fn program() -> String {
    let path = env::current_exe().unwrap_or_default();
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    name.strip_suffix(EXE_SUFFIX).unwrap_or(&name).to_owned()
}
