//! The system's files about itself.

use std::fs;
use std::path::{Path, PathBuf};

/// The system's files, below a root that tests replace.
pub struct Machine {
    root: PathBuf,
}

impl Machine {
    /// The machine at hand.
    pub fn this() -> Self {
        Self::below("/")
    }

    /// The files below a folder.
    pub fn below(root: impl AsRef<Path>) -> Self {
        Self { root: root.as_ref().to_owned() }
    }

    fn path(&self, path: &str) -> PathBuf {
        self.root.join(path.trim_start_matches('/'))
    }

    /// Returns a file's text without the spaces around it; `None` if it can't be read.
    pub(super) fn text(&self, path: &str) -> Option<String> {
        Some(fs::read_to_string(self.path(path)).ok()?.trim().to_owned())
    }

    /// Returns the number that a file consists of.
    pub(super) fn number(&self, path: &str) -> Option<i64> {
        self.text(path)?.parse().ok()
    }

    /// Returns whether there is such a file.
    pub(super) fn has(&self, path: &str) -> bool {
        self.path(path).exists()
    }

    /// Returns the number after a name in `/proc/self/status`.
    pub(super) fn status(&self, name: &str) -> Option<String> {
        let status = self.text("proc/self/status")?;
        let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
        Some(line.trim().to_owned())
    }

    pub(super) fn has_capability(&self, number: u32) -> bool {
        let bits = self.status("CapEff").and_then(|bits| u64::from_str_radix(&bits, 16).ok());
        bits.unwrap_or_default() >> number & 1 != 0
    }
}
