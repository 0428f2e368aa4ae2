//! How a file is replaced: by a whole one, or not at all.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// A file that is written beside the one that it replaces.
pub struct Staged {
    file: File,
    /// The new file's path, and the path that it gets; `None` where it is written in place.
    paths: Option<(PathBuf, PathBuf)>,
}

impl Staged {
    /// Begins to write a file. A pipe or a device is written directly.
    ///
    /// # Errors
    /// The system's.
    pub fn create(path: &Path) -> io::Result<Self> {
        if fs::metadata(path).is_ok_and(|metadata| !metadata.is_file()) {
            return Ok(Self { file: OpenOptions::new().write(true).open(path)?, paths: None });
        }
        let mut name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?.to_owned();
        name.push(format!(".partial-{}", std::process::id()));
        let partial = path.with_file_name(name);
        // A file or link that is there already is somebody else's.
        let file = OpenOptions::new().write(true).create_new(true).open(&partial)?;
        Ok(Self { file, paths: Some((partial, path.to_owned())) })
    }

    /// Returns the file, for others to write.
    #[cfg(target_os = "linux")]
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Ends the file and puts it in place.
    ///
    /// # Errors
    /// The system's. An earlier file then stays.
    pub fn finish(mut self) -> io::Result<()> {
        self.file.flush()?;
        match &self.paths {
            Some((partial, path)) => fs::rename(partial, path)?,
            None => return Ok(()),
        }
        self.paths = None;
        Ok(())
    }
}

impl Write for Staged {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Drop for Staged {
    fn drop(&mut self) {
        if let Some((partial, _)) = &self.paths {
            // The command has failed already, and says why.
            let _ = fs::remove_file(partial);
        }
    }
}
