//! Injects an agent into a running program.
//!
//! ```text
//! mappings ▸ objects (read from memory) ─┬─▶ a runtime of the program's own: its entry is called
//!                                        └─▶ loader: dlopen(library) ▸ the library's entry
//! ```
//! Objects are read from the program's memory, not from files, which may have been replaced, or lie
//! in another file system. The program gets the library as a file in memory, so that programs of
//! any user and in any container can load it.

#[cfg(target_arch = "x86_64")]
mod inject_agent;
#[cfg(target_arch = "x86_64")]
mod objects;

#[cfg(target_arch = "x86_64")]
pub use inject_agent::inject;
#[cfg(target_arch = "x86_64")]
pub use objects::{Object, objects};

/// Refuses, since injection is for x86-64.
///
/// # Errors
/// Always.
#[cfg(not(target_arch = "x86_64"))]
pub fn inject(
    pid: u32,
    _given: Option<&std::path::Path>,
    _plugins: bool,
    _stays: bool,
) -> Result<String, crate::output::Failure> {
    Err(crate::output::Failure::Input(format!(
        "process {pid} can get an agent on x86-64 Linux only; start it by `probectl run`"
    )))
}
