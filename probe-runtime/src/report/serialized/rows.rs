//! Serializes rows and reports as maps.

use serde_core::ser::SerializeMap;
use serde_core::{Serialize, Serializer};

use crate::report::{Cell, Row, Written};

impl Serialize for Cell<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Nothing => serializer.serialize_none(),
            Self::Text(text) => serializer.serialize_str(text),
            Self::Integer(number) => match i64::try_from(*number) {
                Ok(number) => serializer.serialize_i64(number),
                Err(_) => serializer.serialize_i128(*number),
            },
            Self::Texts(texts) => serializer.collect_seq(texts.iter().map(String::as_str)),
            Self::Number(number) => serializer.serialize_u64(*number),
            Self::Decimal(number) => serializer.serialize_f64(*number),
            Self::Flag(is) => serializer.serialize_bool(*is),
            Self::Seconds(duration) => serializer.serialize_f64(duration.as_secs_f64()),
            Self::Row(row) => row.serialize(serializer),
            Self::Rows(rows) => serializer.collect_seq(rows),
        }
    }
}

impl Serialize for Row<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, cell)| (name.as_ref(), cell)))
    }
}

/// The rows of a report, created one after the other.
struct SerializedRows<'a, Report>(&'a Report);

impl<Report: Written> Serialize for SerializedRows<'_, Report> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.rows())
    }
}

fn report<S: Serializer>(report: &impl Written, serializer: S) -> Result<S::Ok, S::Error> {
    let (Row(head), Row(rest)) = (report.head(), report.rest());
    let mut map = serializer.serialize_map(Some(head.len() + 1 + rest.len()))?;
    head.iter().try_for_each(|(name, cell)| map.serialize_entry(name.as_ref(), cell))?;
    map.serialize_entry("rows", &SerializedRows(report))?;
    rest.iter().try_for_each(|(name, cell)| map.serialize_entry(name.as_ref(), cell))?;
    map.end()
}

macro_rules! reports {
    ($($report:ty),*) => {$(
        /// Serializes as the object that `to_json` writes.
        impl Serialize for $report {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                report(self, serializer)
            }
        }
    )*};
}

/// `rows!(Type: function that returns its row, …)`.
macro_rules! rows {
    ($($of:ty: $row:expr),* $(,)?) => {$(
        /// Serializes as the map that reports for programs have, with times in nanoseconds.
        impl Serialize for $of {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                let row: fn(&Self) -> Row<'_> = $row;
                row(self).serialize(serializer)
            }
        }
    )*};
}

pub(super) use rows;

reports!(crate::engine::registry::Counts);
rows!(crate::engine::registry::ProbeCount: Self::row);

#[cfg(any(feature = "latency", feature = "call-tree", feature = "profiler"))]
rows!(crate::engine::calls::LeftOut: Self::row);

#[cfg(feature = "latency")]
reports!(crate::consumers::Latencies, crate::consumers::SlowCalls);
#[cfg(feature = "latency")]
rows!(crate::consumers::FunctionLatency: Self::row, crate::consumers::FunctionSlow: Self::row);

#[cfg(feature = "call-tree")]
reports!(crate::consumers::Tree);
// Without `parent`, which is an index into the rows of a tree.
#[cfg(feature = "call-tree")]
rows!(crate::consumers::TreeNode: |node| node.row(None));

#[cfg(feature = "profiler")]
reports!(crate::consumers::Profile);
#[cfg(feature = "profiler")]
rows!(
    crate::consumers::FunctionProfile: Self::row,
    crate::consumers::ProfileCost: Self::row,
    crate::consumers::Estimated: |it| Row::new().with("value", it.value).with("error", it.error),
);

#[cfg(feature = "perf")]
reports!(crate::consumers::EventCounts);
#[cfg(feature = "perf")]
rows!(crate::consumers::FunctionEvents: Self::row, crate::consumers::MissingEvent: Self::row);
