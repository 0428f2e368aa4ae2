//! Feature `maps`: values that users get can be serialized, with the names and units of the JSON
//! reports.
//!
//! A report serializes to the document that `to_json` writes, and a row to one of its `rows`: both
//! are made of the same members. Decimals keep all their digits; JSON reports have four.

use serde_core::ser::{SerializeMap, SerializeSeq};
use serde_core::{Serialize, Serializer};

use crate::row::{Cell, Row};
use crate::source::{LeftOut, ReportSource};

/// A value as the map's values are.
struct Value<'a>(&'a Cell<'a>);

impl Serialize for Value<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Cell::Nothing => serializer.serialize_none(),
            Cell::Text(text) => serializer.serialize_str(text),
            Cell::Integer(number) => match i64::try_from(*number) {
                Ok(number) => serializer.serialize_i64(number),
                Err(_) => serializer.serialize_i128(*number),
            },
            Cell::Texts(texts) => serializer.collect_seq(texts.iter().map(String::as_str)),
            Cell::Number(number) => serializer.serialize_u64(*number),
            Cell::Decimal(number) => serializer.serialize_f64(*number),
            Cell::Flag(is) => serializer.serialize_bool(*is),
            Cell::Seconds(duration) => serializer.serialize_f64(duration.as_secs_f64()),
            Cell::Row(row) => Map(row).serialize(serializer),
            Cell::Rows(rows) => serializer.collect_seq(rows.iter().map(Map)),
        }
    }
}

/// A row as a map.
pub struct Map<'a>(pub &'a Row<'a>);

impl Serialize for Map<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Row(members) = self.0;
        serializer.collect_map(members.iter().map(|(name, cell)| (name.as_ref(), Value(cell))))
    }
}

/// The rows of a report, created one after the other.
struct SerializedRows<'a>(&'a dyn ReportSource);

impl Serialize for SerializedRows<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut rows = serializer.serialize_seq(None)?;
        self.0.rows().try_for_each(|row| rows.serialize_element(&Map(&row)))?;
        rows.end()
    }
}

/// Serializes a report.
///
/// # Errors
/// Those of the serializer.
pub fn serialize_report<S: Serializer>(report: &dyn ReportSource, serializer: S) -> Result<S::Ok, S::Error> {
    let (Row(head), Row(rest)) = (report.head(), report.rest());
    let mut map = serializer.serialize_map(Some(head.len() + 1 + rest.len()))?;
    head.iter().try_for_each(|(name, cell)| map.serialize_entry(name.as_ref(), &Value(cell)))?;
    map.serialize_entry("rows", &SerializedRows(report))?;
    rest.iter().try_for_each(|(name, cell)| map.serialize_entry(name.as_ref(), &Value(cell)))?;
    map.end()
}

/// `reports!(Report, …)`.
#[doc(hidden)]
#[macro_export]
macro_rules! reports {
    ($($report:ty),*) => {$(
        /// Serializes as the object that `to_json` writes.
        impl Serialize for $report {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                $crate::__private::serialize_report(self, serializer)
            }
        }
    )*};
}

/// `rows!(Type: function that returns its row, …)`.
#[doc(hidden)]
#[macro_export]
macro_rules! rows {
    ($($of:ty: $row:expr),* $(,)?) => {$(
        /// Serializes as the map that reports for programs have, with times in nanoseconds.
        impl Serialize for $of {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                let row: fn(&Self) -> $crate::__private::Row<'_> = $row;
                $crate::__private::Map(&row(self)).serialize(serializer)
            }
        }
    )*};
}

rows!(LeftOut: Self::row);

reports!(crate::reports::Allocations);
rows!(crate::reports::FunctionAllocations: Self::row);

#[cfg(feature = "call-tree")]
reports!(crate::reports::Tree);
// Without `parent`, which is an index into the rows of a tree.
#[cfg(feature = "call-tree")]
rows!(crate::reports::TreeNode: |node| node.row(None));

#[cfg(feature = "slow")]
reports!(crate::reports::SlowCalls);
#[cfg(feature = "slow")]
rows!(crate::reports::FunctionSlow: Self::row);
