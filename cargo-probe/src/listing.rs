//! Which functions of a crate have a probe, and why the others have none: a file for each crate
//! that was compiled.

use std::fs;
use std::io::{self, Write};
use std::path::Path;

use serde::{Deserialize, Serialize};
use tempfile::NamedTempFile;

/// The name of the file, in the folder of the crate's mirror.
pub const FILE: &str = "functions.json";

/// The functions of a crate.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Listing {
    /// The crate's name.
    pub krate: String,
    /// Its root file.
    pub root: String,
    /// Whether it is built for tests.
    pub is_test: bool,
    /// Whether it comes from elsewhere than the workspace.
    pub is_dependency: bool,
    /// Its functions, by file and line.
    pub functions: Vec<Listed>,
    /// Files that can't be read as Rust, with the reason.
    pub unread: Vec<(String, String)>,
    /// Whether its own allocator has probes.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub has_allocator: bool,
    /// Why its allocator has no probes, if these were asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allocator: Option<String>,
}

/// A function.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Listed {
    /// The path of its probe.
    pub path: String,
    /// Its file, as the compiler names it.
    pub file: String,
    /// Its line.
    pub line: usize,
    /// Why it has no probe.
    pub reason: Option<String>,
    /// Whether its probe is an attribute, since the compiler refuses a statement.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub by_attribute: bool,
    /// A hash of its text when the compiler refused its probe.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refused: Option<u64>,
}

impl Listing {
    /// Reads a listing; `None` if there is none yet.
    pub fn read(folder: &Path) -> Option<Self> {
        serde_json::from_slice(&fs::read(folder.join(FILE)).ok()?).ok()
    }

    /// Writes the listing into a folder.
    pub fn write(&self, folder: &Path) -> io::Result<()> {
        write_json(folder, FILE, self)
    }
}

/// Returns the meaning of a reason, for people.
pub fn meaning(reason: &str) -> &str {
    match reason {
        "const" => "a const fn: it may run in the compiler",
        "gen" => "a generator, which has no one entry and exit",
        "naked" => "a naked function: its body is assembly alone",
        "bodiless" => "without a body",
        "own" => "it has a #[probe] of its own",
        "future" => "its future can't be wrapped",
        "inline" => "#[inline]: small; --all probes it",
        "small" => "one short expression; --all probes it",
        "leaf" => "no loop, and no call but in conditions; --all probes it",
        "line" => "a probe would move code on its line",
        "filtered" => "--only, or --deps for a dependency, does not select it",
        other => other,
    }
}

/// Writes a value into a file of a folder, which another process reads whole or not at all.
pub fn write_json(folder: &Path, name: &str, value: &impl Serialize) -> io::Result<()> {
    let mut file = NamedTempFile::new_in(folder)?;
    file.write_all(&serde_json::to_vec(value)?)?;
    file.persist(folder.join(name))?;
    Ok(())
}
