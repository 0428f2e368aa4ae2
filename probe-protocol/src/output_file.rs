//! Files that a program writes for a client or for its own rules. Each is new, and has the first
//! free name.

use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

/// The most names that are tried.
const MOST: u32 = 10_000;

/// A file that a program writes, such as a recording.
///
/// ```
/// use probe_protocol::OutputFile;
/// # let folder = std::env::temp_dir().join(format!("output-file-{}", std::process::id()));
/// # std::fs::create_dir_all(&folder).unwrap();
///
/// let [one, other] = [(); 2].map(|()| OutputFile::create(&folder, "slow.pftrace").unwrap());
/// assert_eq!((one.name(), other.name()), ("slow.pftrace".to_owned(), "slow-2.pftrace".to_owned()));
/// # std::fs::remove_dir_all(&folder).unwrap();
/// ```
#[derive(Debug)]
pub struct OutputFile {
    /// The open file.
    pub file: File,
    /// Its path.
    pub path: PathBuf,
}

impl OutputFile {
    /// Creates a file of this name, which begins in a folder, or, if there is one already, of this
    /// name and a number: `slow-2.pftrace`. The system decides which name is free as it creates the
    /// file, so no other process's file is written.
    ///
    /// # Errors
    /// The system's, in words.
    pub fn create(folder: &Path, name: &str) -> Result<Self, String> {
        Self::create_free(&folder.join(name)).map_err(|error| format!("{name} can't be written: {error}"))
    }

    fn create_free(path: &Path) -> io::Result<Self> {
        let create = |path: PathBuf| -> io::Result<Self> {
            let file = OpenOptions::new().read(true).write(true).create_new(true).open(&path)?;
            Ok(Self { file, path })
        };
        let mut tried = create(path.to_owned());
        for number in 2..=MOST {
            match tried {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => (),
                other => return other,
            }
            tried = create(numbered(path, number));
        }
        tried
    }

    /// Returns its name, by which the program knows the format.
    pub fn name(&self) -> String {
        self.path.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }

    /// Closes the file, and removes it after an error.
    ///
    /// # Errors
    /// The given one.
    pub fn keep_if<T, E>(self, written: Result<T, E>) -> Result<T, E> {
        if written.is_err() {
            // If it can't be removed, an empty file stays, which says enough.
            let _ = fs::remove_file(&self.path);
        }
        written
    }
}

impl fmt::Display for OutputFile {
    /// Writes its path.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.path.display().fmt(f)
    }
}

/// Puts a number before the endings of a path.
fn numbered(path: &Path, number: u32) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    // A name may begin with a dot.
    let stem = name.match_indices('.').map(|(dot, _)| dot).find(|dot| *dot != 0).unwrap_or(name.len());
    let (stem, endings) = name.split_at(stem);
    path.with_file_name(format!("{stem}-{number}{endings}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_stands_before_the_endings() {
        for (path, expected) in [
            ("slow.pftrace", "slow-2.pftrace"),
            ("/tmp/a.b/slow.firefox.json", "/tmp/a.b/slow-2.firefox.json"),
            (".slow.json", ".slow-2.json"),
            ("slow", "slow-2"),
            ("é.json", "é-2.json"),
        ] {
            assert_eq!(numbered(Path::new(path), 2), Path::new(expected));
        }
    }

    #[test]
    fn no_file_is_overwritten() {
        let folder = std::env::temp_dir().join(format!("probectl-files-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).unwrap();
        let path = folder.join("slow.pftrace");
        fs::write(&path, "mine").unwrap();
        let [second, third] = [(); 2].map(|()| OutputFile::create(&folder, "slow.pftrace").unwrap());
        assert_eq!((second.name().as_str(), third.name().as_str()), ("slow-2.pftrace", "slow-3.pftrace"));
        assert_eq!(fs::read(&path).unwrap(), b"mine");
        assert_eq!(second.keep_if(Err::<(), _>(7)).unwrap_err(), 7);
        assert_eq!(third.keep_if(Ok::<_, ()>(7)), Ok(7));
        assert_eq!(OutputFile::create(&folder, "slow.pftrace").unwrap().name(), "slow-2.pftrace");
        assert!(
            OutputFile::create(&folder, "none/slow.pftrace")
                .unwrap_err()
                .starts_with("none/slow.pftrace can't be written: ")
        );
        fs::remove_dir_all(&folder).unwrap();
    }
}
