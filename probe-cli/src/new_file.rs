//! A file that replaces another one when it is whole, and not before.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use tempfile::{Builder, TempPath};

/// A file that is being written.
pub struct NewFile {
    /// The file.
    pub file: File,
    /// Its path beside the one that it gets; `None` if it is written in place. Dropping it removes
    /// the file.
    paths: Option<(TempPath, PathBuf)>,
}

impl NewFile {
    /// Begins to write a file. A pipe or a device is written in place.
    ///
    /// # Errors
    /// The system's.
    pub fn create(path: &Path) -> io::Result<Self> {
        if fs::metadata(path).is_ok_and(|metadata| !metadata.is_file()) {
            return Ok(Self { file: OpenOptions::new().write(true).open(path)?, paths: None });
        }
        let mut prefix = path.file_name().ok_or(io::ErrorKind::InvalidInput)?.to_owned();
        prefix.push(".partial-");
        let folder = path.parent().unwrap_or(Path::new(""));
        // Files and links that exist already belong to others. A new file has the usual rights.
        let create = |path: &Path| OpenOptions::new().write(true).create_new(true).open(path);
        let (file, partial) = Builder::new().prefix(&prefix).make_in(folder, create)?.into_parts();
        Ok(Self { file, paths: Some((partial, path.to_owned())) })
    }

    /// Puts the file in its place.
    ///
    /// # Errors
    /// The system's. An earlier file then stays.
    pub fn finish(self) -> io::Result<()> {
        let Some((partial, path)) = self.paths else { return Ok(()) };
        partial.persist(path).map_err(|error| error.error)
    }
}
