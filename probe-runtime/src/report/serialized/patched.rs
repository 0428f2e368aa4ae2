//! Serializes the outcome of a batch of patches.

use serde_core::{Serialize, Serializer};

use super::rows::rows;
use crate::engine::sites::{Refusal, RefusalReason, Report, UnmatchedTerm};
use crate::report::{Cell, Row};

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
pub(super) fn refusal(refusal: &Refusal) -> Row<'_> {
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
