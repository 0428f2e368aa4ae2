//! The instructions for a build's compilers: which functions get probes, and where the runtime is.
//!
//! They stand in a file beside the compiler's wrapper, in a folder that its contents name. Cargo
//! takes the wrapper's path for a part of the compiler, so another choice rebuilds the crates.

use std::ffi::OsString;
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{fs, io};

use probe_core::abi::Kind;
use probe_lang::Selectable;
use rustc_hash::FxHasher;
use serde::{Deserialize, Serialize};

use crate::listing::{Listed, write_json};

/// The folder of all choices and their mirrors, in that of the build.
pub const CHOICES: &str = "latent-probes";
/// The folder of the build, in the target folder. One that the user names for a command has the
/// build in it.
pub const BUILD: &str = "probe";
/// The name of the file.
pub const FILE: &str = "choice.json";

/// Instructions for the compilers of a build.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct Choice {
    /// Which functions: a selector. All, without one.
    pub only: Option<String>,
    /// Which functions of dependencies from elsewhere: a selector. None, without one.
    pub deps: Option<String>,
    /// Whether small functions get probes, too.
    pub all: bool,
    /// Whether allocators get probes, too.
    pub memory: bool,
    /// The runtime that programs are built with.
    pub runtime: Runtime,
    /// The wrapper that the user's own settings have put around the compiler.
    pub wrapper: Option<PathBuf>,
    /// The user's own `rustdoc`.
    pub documenter: Option<PathBuf>,
}

/// The compiled runtime.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct Runtime {
    /// Its libraries.
    pub libraries: Vec<Library>,
    /// The folders of its dependencies.
    pub folders: Vec<PathBuf>,
    /// When this program and the libraries were built: new ones rebuild the programs.
    pub built: Vec<u128>,
}

impl Runtime {
    /// Lets a compiler find what crates with probes were built with.
    pub fn add_folders_to(&self, command: &mut Command) {
        for library in &self.folders {
            let mut folder = OsString::from("dependency=");
            folder.push(library);
            command.arg("-L").arg(folder);
        }
    }
}

/// A library of the runtime.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct Library {
    /// The target that it is for.
    pub target: String,
    /// The effect of its panics: `unwind` or `abort`.
    pub panic: String,
    /// Its files: the library, and its description.
    pub files: Vec<PathBuf>,
    /// The same of the allocator's crate.
    pub allocator: Vec<PathBuf>,
}

impl Choice {
    /// Returns a name for its folder.
    pub fn name(&self) -> String {
        let mut hasher = FxHasher::default();
        (self, env!("CARGO_PKG_VERSION")).hash(&mut hasher);
        format!("{:016x}", hasher.finish())
    }

    /// Reads the choice of a folder.
    pub fn read(folder: &Path) -> io::Result<Self> {
        Ok(serde_json::from_slice(&fs::read(folder.join(FILE))?)?)
    }

    /// Writes the choice into a folder.
    pub fn write(&self, folder: &Path) -> io::Result<()> {
        write_json(folder, FILE, self)
    }
}

/// A function, to be matched by a selector.
#[derive(Debug)]
pub struct Candidate<'a> {
    /// The path of its probe.
    pub path: &'a str,
    /// Its file.
    pub file: &'a str,
    /// Its line.
    pub line: u32,
}

impl<'a> Candidate<'a> {
    /// Takes a function of a listing.
    pub fn of(listed: &'a Listed) -> Self {
        let line = u32::try_from(listed.line).unwrap_or(u32::MAX);
        Self { path: &listed.path, file: &listed.file, line }
    }
}

impl Selectable for Candidate<'_> {
    fn path(&self) -> &str {
        self.path
    }

    fn kind(&self) -> Kind {
        Kind::Entry
    }

    fn file(&self) -> &str {
        self.file
    }

    fn line(&self) -> u32 {
        self.line
    }
}
