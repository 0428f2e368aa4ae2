//! JSON documents: a head, then rows, each on a line of its own, as the runtime's reports have
//! them.

use serde::Serialize;

use crate::output::Failure;

/// The version of the format, as that of the runtime's reports.
pub const SCHEMA: u64 = 1;

/// Returns a document with the members of `head`, then the rows.
///
/// # Errors
/// If a value can't be JSON. No value here is such.
pub fn document<R: Serialize>(
    head: &impl Serialize,
    rows: impl IntoIterator<Item = R>,
) -> Result<String, Failure> {
    let text = |value: Result<String, serde_json::Error>| value.map_err(Failure::input);
    let mut out = text(serde_json::to_string(head))?;
    let has_members = out.len() > 2;
    out.truncate(out.len().saturating_sub(1));
    out.push_str(if has_members { ",\"rows\":[" } else { "\"rows\":[" });
    for (at, row) in rows.into_iter().enumerate() {
        out.push_str(if at == 0 { "\n" } else { ",\n" });
        out.push_str(&text(serde_json::to_string(&row))?);
    }
    out.push_str("\n]}\n");
    Ok(out)
}
