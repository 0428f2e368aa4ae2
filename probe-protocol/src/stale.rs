//! Sockets that killed processes have left behind. Linux.
//!
//! A folder is opened once. Its files are then found, renamed and removed by its descriptor: if
//! somebody puts another folder or a link in its place meanwhile, that one is not touched.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File, Metadata};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::process;
use std::time::Duration;

use rustix::fs::{AtFlags, Mode, OFlags, RenameFlags, open, renameat, renameat_with, unlinkat};

use crate::channel::{Channel, ChannelError};
use crate::directory::{is_running, pid_of_socket};

/// Returns whether no process listens at a socket. Does not wait.
///
/// ```
/// use std::os::unix::net::UnixListener;
///
/// let path = std::env::temp_dir().join(format!("stale-{}.sock", std::process::id()));
/// let listener = UnixListener::bind(&path)?;
/// assert!(!probe_protocol::is_stale(&path));
/// drop(listener);
/// assert!(probe_protocol::is_stale(&path));
/// # std::fs::remove_file(path)?;
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn is_stale(path: &Path) -> bool {
    let is_socket = || fs::symlink_metadata(path).is_ok_and(|it| it.file_type().is_socket());
    match Channel::connect(path, Duration::ZERO) {
        Err(ChannelError::System(error)) if error.kind() == io::ErrorKind::ConnectionRefused => is_socket(),
        _ => false,
    }
}

/// Removes the sockets of ended processes from a folder. Reads 1000 names of files at most, and
/// connects to no running process.
///
/// ```no_run
/// probe_protocol::remove_all_stale(&probe_protocol::own_directory()?);
/// # Ok::<(), probe_protocol::DirectoryError>(())
/// ```
pub fn remove_all_stale(directory: &Path) {
    /// Enough for a machine's programs, and soon done.
    const MAX_FILES: usize = 1000;
    let Ok(folder) = OpenFolder::new(directory) else { return };
    let Ok(entries) = fs::read_dir(folder.path()) else { return };
    for entry in entries.take(MAX_FILES).flatten() {
        if pid_of_socket(&entry.path()).is_some_and(|pid| !is_running(pid)) {
            folder.remove_stale(&entry.file_name());
        }
    }
}

/// A folder, even if its path leads elsewhere later.
pub(crate) struct OpenFolder(File);

impl OpenFolder {
    /// Opens a folder, unless it is a link.
    pub(crate) fn new(folder: &Path) -> io::Result<Self> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(Self(open(folder, flags, Mode::empty())?.into()))
    }

    pub(crate) fn metadata(&self) -> io::Result<Metadata> {
        self.0.metadata()
    }

    /// Returns a path of this very folder.
    pub(crate) fn path(&self) -> PathBuf {
        format!("/proc/self/fd/{}", self.0.as_raw_fd()).into()
    }

    /// Removes a socket at which no process listens. Returns whether it did. If a process makes a
    /// new socket of the same name meanwhile, that one stays.
    pub(crate) fn remove_stale(&self, name: &OsStr) -> bool {
        let (Self(folder), near) = (self, self.path());
        if !is_stale(&near.join(name)) {
            return false;
        }
        let mut aside = OsString::from(format!(".{}-", process::id()));
        aside.push(name);
        if renameat(folder, name, folder, &aside).is_err() {
            return false;
        }
        if is_stale(&near.join(&aside)) {
            return unlinkat(folder, &aside, AtFlags::empty()).is_ok();
        }
        // If there is a newer one by now, no client can reach this one any more.
        if renameat_with(folder, &aside, folder, name, RenameFlags::NOREPLACE).is_err() {
            let _ = unlinkat(folder, &aside, AtFlags::empty());
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use std::env;
    use std::os::unix::fs::symlink;
    use std::os::unix::net::UnixListener;

    use super::*;

    /// Makes a folder with a socket at which nobody listens.
    fn folder(path: &Path) -> PathBuf {
        fs::create_dir_all(path).unwrap();
        let socket = path.join("7.sock");
        drop(UnixListener::bind(&socket).unwrap());
        assert!(is_stale(&socket));
        socket
    }

    #[test]
    fn a_folder_that_takes_its_place_is_not_touched() {
        let root = env::temp_dir().join(format!("stale-swapped-{}", process::id()));
        let _ = fs::remove_dir_all(&root);
        let (used, moved, other) = (root.join("used"), root.join("moved"), root.join("other"));
        let (first, others) = (folder(&used), folder(&other));
        let opened = OpenFolder::new(&used).unwrap();
        fs::rename(&used, &moved).unwrap();
        // In its place another folder, then a link to one.
        let second = folder(&used);
        assert!(opened.remove_stale("7.sock".as_ref()));
        assert!(!moved.join("7.sock").exists());
        assert!(second == first && is_stale(&second));
        fs::remove_dir_all(&used).unwrap();
        symlink(&other, &used).unwrap();
        assert!(OpenFolder::new(&used).is_err());
        remove_all_stale(&used);
        assert!(is_stale(&others));
        // By its own name it is removed.
        let other = OpenFolder::new(&other).unwrap();
        assert!(other.remove_stale("7.sock".as_ref()) && !others.exists());
        assert!(!other.remove_stale("7.sock".as_ref()));
        fs::remove_dir_all(&root).unwrap();
    }
}
