//! Reports at one moment: what programs and what people read of them.

use std::env::{self, consts::EXE_SUFFIX};
use std::process;

use super::Period;
use crate::json::JsonObject;
use crate::row::{self, Cell, Row};
use crate::view::{Body, View};

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
pub fn json(report: &dyn ReportSource, notes: &[String]) -> String {
    let rows = report.rows().map(|row| row.json());
    let notes: Vec<_> = report.untold().into_iter().chain(notes.iter().cloned()).collect();
    row::json(&report.head(), rows, &report.rest(), &notes)
}

/// Returns what people see of a report, with further notes.
pub fn view(report: &dyn ReportSource, notes: Vec<String>) -> View<'_> {
    let mut all = report.notes();
    all.extend(notes);
    View::new(report.body(), all)
}

/// `shown!(Report)`: prints a report as people see it.
#[doc(hidden)]
#[macro_export]
macro_rules! shown {
    ($report:ident) => {
        impl std::fmt::Display for $report {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                std::fmt::Display::fmt(&$crate::__private::view(self, Vec::new()), f)
            }
        }
    };
}

/// Reports are lists of rows, with a few methods of a slice's: all of these would hide the report's
/// own in its documentation.
///
/// `list!(Report, field, Row, "what the rows are")`.
#[doc(hidden)]
#[macro_export]
macro_rules! list {
    ($report:ident, $field:tt, $row:ident, $rows:literal) => {
        impl $report {
            #[doc = concat!("All ", $rows, ", as a slice.")]
            pub fn as_slice(&self) -> &[$row] {
                &self.$field
            }

            #[doc = concat!("The ", $rows, ", one after the other.")]
            pub fn iter(&self) -> std::slice::Iter<'_, $row> {
                self.$field.iter()
            }

            #[doc = concat!("How many ", $rows, " there are.")]
            pub fn len(&self) -> usize {
                self.$field.len()
            }

            /// Whether there are none.
            pub fn is_empty(&self) -> bool {
                self.$field.is_empty()
            }
        }

        impl<'a> IntoIterator for &'a $report {
            type Item = &'a $row;
            type IntoIter = std::slice::Iter<'a, $row>;

            fn into_iter(self) -> Self::IntoIter {
                self.iter()
            }
        }

        impl std::ops::Index<usize> for $report {
            type Output = $row;

            fn index(&self, at: usize) -> &$row {
                &self.$field[at]
            }
        }
    };
}

/// Returns the first members of a report. Its `rows`, and further members of its consumer, follow.
pub fn head(consumer: &'static str, period: Period) -> Row<'static> {
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
pub fn head_of_list(what: &str) -> JsonObject {
    let object = JsonObject::new().number("schema", SCHEMA).text("program", &program());
    object.number("pid", process::id().into()).text("consumer", what)
}

/// Returns the file name of the program.
pub fn program() -> String {
    let path = env::current_exe().unwrap_or_default();
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    name.strip_suffix(EXE_SUFFIX).unwrap_or(&name).to_owned()
}
