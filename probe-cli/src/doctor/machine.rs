//! The system's files about itself.

use std::fs;
use std::path::{Path, PathBuf};

use crate::proc_files::{status_field, status_mask};

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

    /// Returns the process that debugs this one.
    pub(super) fn tracer(&self) -> Option<String> {
        let status = self.text("proc/self/status")?;
        status_field(&status, "TracerPid").filter(|pid| *pid != "0").map(str::to_owned)
    }

    pub(super) fn has_capability(&self, number: u32) -> bool {
        let status = self.text("proc/self/status").unwrap_or_default();
        status_mask(&status, "CapEff") >> number & 1 != 0
    }
}
