//! JSON documents: a head, then rows, each on a line of its own, as the runtime's reports have
//! them.

use serde::Serialize;

use crate::output::Failure;

/// The version of the format, as that of the runtime's reports.
pub const SCHEMA: u64 = 1;

/// The document of a command that makes something, in place of rows.
#[derive(Serialize)]
pub struct Made<'a> {
    schema: u64,
    command: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pid: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    out: Option<&'a str>,
    done: &'a str,
}

impl<'a> Made<'a> {
    /// Of a command about a process: a line about it.
    pub fn to_process(command: &'a str, pid: u32, done: &'a str) -> Self {
        Self { schema: SCHEMA, command, pid: Some(pid), out: None, done }
    }

    /// Of a command that has written a file: a line about it.
    pub fn to_file(command: &'a str, out: &'a str, done: &'a str) -> Self {
        Self { schema: SCHEMA, command, pid: None, out: Some(out), done: done.trim_end() }
    }

    /// Returns the document, without rows.
    ///
    /// # Errors
    /// If a value can't be JSON. No value here is such.
    pub fn document(&self) -> Result<String, Failure> {
        let rows: [(); 0] = [];
        document(self, rows)
    }
}

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
