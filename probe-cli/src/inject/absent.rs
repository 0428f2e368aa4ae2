//! No injection: its code is for x86-64.

use std::path::Path;

use crate::output::Failure;

/// An agent that was brought to a program.
pub struct Agent {
    /// A line about how.
    pub note: String,
}

/// Brings an agent to a program.
///
/// # Errors
/// Always.
pub fn serve(pid: u32, _library: Option<&Path>, _plugins: bool, _stays: bool) -> Result<Agent, Failure> {
    Err(Failure::Input(format!(
        "process {pid} can get an agent on x86-64 Linux only; start it by `probectl run`"
    )))
}
