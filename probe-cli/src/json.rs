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
    let mut out = serde_json::to_vec(head).map_err(Failure::input)?;
    let has_members = out.len() > 2;
    out.truncate(out.len().saturating_sub(1));
    out.extend_from_slice(if has_members { b",\"rows\":[" } else { b"\"rows\":[" });
    for (at, row) in rows.into_iter().enumerate() {
        out.extend_from_slice(if at == 0 { b"\n" } else { b",\n" });
        serde_json::to_writer(&mut out, &row).map_err(Failure::input)?;
    }
    out.extend_from_slice(b"\n]}\n");
    String::from_utf8(out).map_err(Failure::input)
}
