//! Keeps `Cargo.lock` away from workspaces that have none.
//!
//! Cargo writes one wherever it builds. It stays beside the build, and is there while cargo runs.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use probe_cli::output::Failure;
use signal_hook::consts::SIGINT;
use signal_hook::flag;

/// Takes the file away when it is dropped.
#[derive(Debug)]
pub struct LockFile {
    /// The file, and where it is kept; `None` if the user has one.
    places: Option<[PathBuf; 2]>,
}

impl LockFile {
    /// Brings the file that was kept, if the workspace has none. From here on, Ctrl-C ends cargo
    /// and its program, and this program ends after them.
    ///
    /// # Errors
    /// The signal can't be caught.
    pub fn absent(workspace: &Path, kept: &Path) -> Result<Self, Failure> {
        flag::register(SIGINT, Arc::new(AtomicBool::new(false))).map_err(Failure::input)?;
        let [file, kept] = [workspace, kept].map(|folder| folder.join("Cargo.lock"));
        if file.exists() {
            return Ok(Self { places: None });
        }
        // The first time there is none to bring.
        let _ = fs::copy(&kept, &file);
        Ok(Self { places: Some([file, kept]) })
    }
}

impl Drop for LockFile {
    fn drop(&mut self) {
        if let Some([file, kept]) = &self.places
            && fs::copy(file, kept).is_ok()
        {
            let _ = fs::remove_file(file);
        }
    }
}
