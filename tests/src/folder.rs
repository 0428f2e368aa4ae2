//! Folders for what tests make. They go when the test ends, also a failed one, or with
//! `PROBE_TEST_KEEP=1` stay, and are named.

// Safety: a handler at exit that takes no arguments and touches what lives as long as the process.

use std::env;
use std::fs;
use std::io::{self, Write as _};
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};

/// A new folder among the temporary ones, which is there until this is dropped.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    /// A forked child drops its copy, and not what its parent uses.
    process: u32,
}

impl Folder {
    /// Makes an empty folder. Its path ends in `name`, for people who look at it.
    ///
    /// # Panics
    /// If it can't be made.
    #[must_use]
    pub fn new(name: &str) -> Self {
        static MADE: AtomicU32 = AtomicU32::new(0);
        let process = process::id();
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let path = env::temp_dir().join(format!("probe-test-{process}-{number}-{name}"));
        fs::create_dir(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        Self { path, process }
    }

    /// Returns the names of the files and folders inside, sorted.
    ///
    /// # Panics
    /// If the folder can't be read, or if a name is no text.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.path).unwrap();
        let mut names: Vec<_> = entries.map(|it| it.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

impl Deref for Folder {
    type Target = Path;

    fn deref(&self) -> &Path {
        &self.path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if self.process != process::id() {
            return;
        }
        if env::var_os("PROBE_TEST_KEEP").is_some() {
            // At exit nobody may be there to read it.
            let _ = writeln!(io::stderr(), "kept: {}", self.path.display());
        } else {
            // Remaining files are temporary.
            let _ = fs::remove_dir_all(&self.path);
        }
    }
}

/// The folders that end with the process.
static OF_THE_PROCESS: Mutex<Vec<Folder>> = Mutex::new(Vec::new());

/// A new folder that ends with the process: libraries that were loaded from there may be read until
/// then.
///
/// # Panics
/// If it can't be made.
#[must_use]
pub fn of_this_process(name: &str) -> PathBuf {
    let folder = Folder::new(name);
    let path = folder.to_path_buf();
    let mut folders = OF_THE_PROCESS.lock().unwrap_or_else(PoisonError::into_inner);
    folders.push(folder);
    if folders.len() == 1 {
        // SAFETY: `end` may be called at any time, once.
        assert_eq!(unsafe { libc::atexit(end) }, 0);
    }
    path
}

/// Where the main thread returns or somebody calls `exit`, as the test harness does after failures.
extern "C" fn end() {
    // Another thread may have been stopped while it held the lock, in a forked child.
    if let Ok(mut folders) = OF_THE_PROCESS.try_lock() {
        folders.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario;

    #[test]
    fn it_is_there_until_it_is_dropped() {
        let [one, other] = [(); 2].map(|()| Folder::new("name"));
        fs::write(one.join("file"), "text").unwrap();
        assert_eq!((one.names(), other.names()), (vec!["file".to_owned()], vec![]));
        let path = one.to_path_buf();
        drop(one);
        assert_eq!((path.exists(), other.exists()), (false, true));
    }

    #[test]
    fn it_goes_with_a_failed_test() {
        let mut path = PathBuf::new();
        let path_here = &mut path;
        let failed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let folder = Folder::new("failed");
            *path_here = folder.to_path_buf();
            assert!(!folder.exists(), "it is there");
        }));
        assert!(failed.is_err());
        assert!(path.is_absolute() && !path.exists());
    }

    #[test]
    fn it_goes_with_its_process() {
        let outer = Folder::new("outer");
        let note = outer.join("path");
        let status = scenario::in_a_child(|| {
            let path = of_this_process("inner");
            fs::write(path.join("file"), "text").unwrap();
            fs::write(&note, path.to_str().unwrap()).unwrap();
            process::exit(0);
        });
        assert_eq!(status, 0);
        let path = fs::read_to_string(&note).unwrap();
        assert!(path.ends_with("-inner") && !Path::new(&path).exists(), "{path}");
    }

    #[test]
    fn a_forked_child_leaves_it_to_its_parent() {
        let folder = Folder::new("fork");
        let mut held = Some(folder);
        assert_eq!(scenario::in_a_child(|| drop(held.take())), 0);
        let folder = held.expect("the child took its own");
        assert!(folder.exists());
    }
}
