//! Feature `serde`: values that users get can be serialized, see `probe_report::serialized`.

use std::borrow::Cow;

#[cfg(any(feature = "latency", feature = "profiler"))]
use probe_report::reports;
use probe_report::serialized::serialize_report;
use probe_report::{Cell, Row, rows};
use serde_core::{Serialize, Serializer};

use super::CountsReport;
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

/// Serializes as the object that `to_json` writes.
impl Serialize for crate::engine::registry::Counts {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serialize_report(&CountsReport { counts: Cow::Borrowed(self), shows_all: false }, serializer)
    }
}

rows!(crate::engine::registry::ProbeCount: Self::row);

#[cfg(feature = "latency")]
reports!(crate::consumers::Latencies);
#[cfg(feature = "latency")]
rows!(crate::consumers::FunctionLatency: Self::row);

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
        RefusalReason::Slot { .. } => row("slot"),
        RefusalReason::Unreadable => row("unreadable"),
        RefusalReason::Taken => row("taken"),
        RefusalReason::Failed => row("failed"),
    };
    row.with("message", refusal.to_string())
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(" ")
}
