//! Feature `serde`: values that users get can be serialized, with the names and units of the JSON
//! reports.
//!
//! A report serializes to the document that `to_json` writes, and a row to one of its `rows`: both
//! are made of the same members. Decimals keep all their digits; JSON reports have four.

use std::borrow::Cow;

use serde_core::ser::{SerializeMap, SerializeSeq};
use serde_core::{Serialize, Serializer};

use probe_report::{Cell, Row};

use super::{CountsReport, ReportSource};
use crate::engine::registry::{FieldInfo, ProbeInfo};
use crate::engine::sites::{Refusal, RefusalReason, Report, UnmatchedTerm};
use probe_core::abi::Type;

/// Serializes types as their `name`.
macro_rules! named {
    ($($named:ty),* $(,)?) => {$(
        impl Serialize for $named {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.name())
            }
        }
    )*};
}

named!(crate::engine::registry::ProbeState);
#[cfg(feature = "perf")]
named!(crate::consumers::PerfEvent);

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
struct Map<'a>(&'a Row<'a>);

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

fn serialize_report<S: Serializer>(report: &dyn ReportSource, serializer: S) -> Result<S::Ok, S::Error> {
    let (Row(head), Row(rest)) = (report.head(), report.rest());
    let mut map = serializer.serialize_map(Some(head.len() + 1 + rest.len()))?;
    head.iter().try_for_each(|(name, cell)| map.serialize_entry(name.as_ref(), &Value(cell)))?;
    map.serialize_entry("rows", &SerializedRows(report))?;
    rest.iter().try_for_each(|(name, cell)| map.serialize_entry(name.as_ref(), &Value(cell)))?;
    map.end()
}

#[cfg(any(feature = "latency", feature = "call-tree", feature = "profiler"))]
macro_rules! reports {
    ($($report:ty),*) => {$(
        /// Serializes as the object that `to_json` writes.
        impl Serialize for $report {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serialize_report(self, serializer)
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
                Map(&row(self)).serialize(serializer)
            }
        }
    )*};
}

/// Serializes as the object that `to_json` writes.
impl Serialize for crate::engine::registry::Counts {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serialize_report(&CountsReport { counts: Cow::Borrowed(self), shows_all: false }, serializer)
    }
}

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

rows!(ProbeInfo: probe, FieldInfo: field);

fn probe(probe: &ProbeInfo) -> Row<'_> {
    Row::new()
        .with("probe", probe.path())
        .with("kind", probe.kind().name())
        .with("file", probe.file())
        .with("line", probe.line())
        .with("sites", probe.sites())
        .with("fields", probe.fields().iter().map(field).collect::<Cell<'_>>())
        .with("group", probe.group())
        .with("doc", probe.doc())
        .with("skipped", probe.skipped())
        .with("state", probe.state().name())
        .with("foreign", probe.foreign().iter().map(refusal).collect::<Cell<'_>>())
}

fn field(field: &FieldInfo) -> Row<'_> {
    Row::new().with("name", field.name()).with("type", field.ty().map(Type::name))
}

rows!(Report: report, Refusal: refusal);

fn report(report: &Report) -> Row<'_> {
    let term = |term: &UnmatchedTerm| {
        Row::new().with("term", term.term().to_owned()).with("message", term.to_string())
    };
    Row::new()
        .with("patched", report.patched())
        .with("unchanged", report.unchanged())
        .with("refused", report.refused())
        .with("unsealed", report.unsealed())
        .with("refusals", report.refusals().iter().map(refusal).collect::<Cell<'_>>())
        .with("foreign", report.foreign().iter().map(refusal).collect::<Cell<'_>>())
        .with("unmatched", report.unmatched().iter().map(term).collect::<Cell<'_>>())
}

/// Returns the site, a word for the reason, the details, and a sentence with all of it. Bytes are
/// hexadecimal.
fn refusal(refusal: &Refusal) -> Row<'_> {
    let row = |reason: &'static str| Row::new().with("site", refusal.site()).with("reason", reason);
    let failed = |reason, errno: i32| row(reason).with("errno", u64::from(errno.unsigned_abs()));
    let row = match refusal.reason() {
        RefusalReason::Foreign { expected, found } => {
            row("foreign").with("expected", hexadecimal(expected)).with("found", hexadecimal(found))
        }
        RefusalReason::Protected { errno } => failed("protected", *errno),
        RefusalReason::Unknown { errno } => failed("unknown", *errno),
        RefusalReason::NoAlias { errno } => failed("no-alias", *errno),
        RefusalReason::Busy => row("busy"),
        RefusalReason::NoTrap { .. } => row("no-trap"),
        RefusalReason::Straddles => row("straddles"),
        RefusalReason::Unreadable => row("unreadable"),
        RefusalReason::Taken => row("taken"),
        RefusalReason::Failed => row("failed"),
    };
    row.with("message", refusal.to_string())
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(" ")
}
