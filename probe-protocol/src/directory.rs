//! The folder of the sockets, which one user alone can use. Linux.
//!
//! A socket is `$XDG_RUNTIME_DIR/latent-probes/PID.sock`, or else
//! `/tmp/latent-probes-UID/PID.sock`. A program binds its socket under another name and renames it
//! once it listens. So nobody serves a socket of that name that refuses connections, and any
//! process may remove it: a killed process has left it behind.
//!
//! To remove sockets, a folder is opened once. Its files are then found, renamed and removed by its
//! descriptor: if somebody puts another folder or a link in its place meanwhile, that one is not
//! touched.

use std::ffi::{OsStr, OsString};
use std::fs::{self, DirBuilder, File, Metadata};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{env, io, process};

use rustix::fs::{AtFlags, Mode, OFlags, RenameFlags, open, renameat, renameat_with, unlinkat};
use rustix::process::geteuid;

use crate::channel::{Channel, ChannelError};
use crate::error::{DirectoryError, MAX_PATH};

/// The name of the folder, or its beginning.
pub(crate) const FOLDER: &str = "latent-probes";

/// The variable that names the folder of a user's sockets.
pub(crate) const RUNTIME_VARIABLE: &str = "XDG_RUNTIME_DIR";

/// Bits of a file's mode: any right of others, their right to write, and the sticky bit.
const OTHERS_ANY: u32 = 0o077;
const OTHERS_WRITE: u32 = 0o022;
const STICKY: u32 = 0o1000;

/// Returns the folder of this user's sockets, and makes it if it is not there.
///
/// `XDG_RUNTIME_DIR` is used if it is an absolute path of a folder that this user owns and that no
/// other user may change; otherwise the folder is in `/tmp`.
///
/// # Errors
/// [`DirectoryError`]. A folder that another user owns or may use is refused, and so is a link.
///
/// ```no_run
/// println!("{}", probe_protocol::own_directory()?.display());
/// # Ok::<(), probe_protocol::DirectoryError>(())
/// ```
pub fn own_directory() -> Result<PathBuf, DirectoryError> {
    let uid = geteuid().as_raw();
    let runtime = env::var_os(RUNTIME_VARIABLE).map(PathBuf::from).filter(|path| is_private(path, uid));
    let path = if let Some(runtime) = runtime {
        runtime.join(FOLDER)
    } else {
        check_parent(Path::new("/tmp"), uid)?;
        tmp_folder(uid)
    };
    match DirBuilder::new().mode(0o700).create(&path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            Err(DirectoryError::System { path, error })
        }
        _ => check(&path, uid).map(|()| path),
    }
}

fn tmp_folder(uid: u32) -> PathBuf {
    format!("/tmp/{FOLDER}-{uid}").into()
}

fn is_private(path: &Path, uid: u32) -> bool {
    let is_own = |it: Metadata| it.is_dir() && it.uid() == uid && it.mode() & OTHERS_WRITE == 0;
    path.is_absolute() && fs::symlink_metadata(path).is_ok_and(is_own)
}

/// Checks that no other user can replace a folder in this one.
fn check_parent(path: &Path, uid: u32) -> Result<(), DirectoryError> {
    let of = |error| DirectoryError::System { path: path.to_owned(), error };
    let it = fs::metadata(path).map_err(of)?;
    let is_safe = [0, uid].contains(&it.uid()) && (it.mode() & OTHERS_WRITE == 0 || it.mode() & STICKY != 0);
    let problem = "other users may rename folders in it";
    if is_safe { Ok(()) } else { Err(DirectoryError::Unsafe { path: path.to_owned(), problem }) }
}

/// Checks that a folder is this user's alone.
fn check(path: &Path, uid: u32) -> Result<(), DirectoryError> {
    let of = |error| DirectoryError::System { path: path.to_owned(), error };
    let it = fs::symlink_metadata(path).map_err(of)?;
    find_problem(&it, &[uid])
        .map_or(Ok(()), |problem| Err(DirectoryError::Unsafe { path: path.to_owned(), problem }))
}

/// Returns the reason why a folder is unsafe that one of these users should own.
pub(crate) fn find_problem(it: &Metadata, owners: &[u32]) -> Option<&'static str> {
    if it.is_symlink() {
        Some("it is a symbolic link")
    } else if !it.is_dir() {
        Some("it is not a folder")
    } else if !owners.contains(&it.uid()) {
        Some("another user owns it")
    } else if it.mode() & OTHERS_ANY != 0 {
        Some("its mode is not 0700, so other users may use it")
    } else {
        None
    }
}

/// Returns the path of a process's socket in a folder.
///
/// # Errors
/// [`DirectoryError::TooLong`].
///
/// ```
/// let path = probe_protocol::socket_path("/run/user/1000/latent-probes".as_ref(), 7)?;
/// assert_eq!(path.to_str(), Some("/run/user/1000/latent-probes/7.sock"));
/// # Ok::<(), probe_protocol::DirectoryError>(())
/// ```
pub fn socket_path(directory: &Path, pid: u32) -> Result<PathBuf, DirectoryError> {
    let path = directory.join(file_name(pid));
    // The socket is first bound under a name that is one byte longer.
    if path.as_os_str().len() < MAX_PATH { Ok(path) } else { Err(DirectoryError::TooLong { path }) }
}

pub(crate) fn file_name(pid: u32) -> String {
    format!("{pid}.sock")
}

/// Returns the folders in which a user's process may have its socket, the likeliest first.
pub(crate) fn candidate_folders(uid: u32, runtime: Option<OsString>) -> Vec<PathBuf> {
    let runtime = runtime.map(PathBuf::from).filter(|path| path.is_absolute());
    let mut all: Vec<_> = runtime.into_iter().map(|it| it.join(FOLDER)).collect();
    for further in [format!("/run/user/{uid}/{FOLDER}").into(), tmp_folder(uid)] {
        if !all.contains(&further) {
            all.push(further);
        }
    }
    all
}

/// Returns whether there is such a process. `true` if nobody can tell, without `/proc`.
pub(crate) fn is_running(pid: u32) -> bool {
    let proc = Path::new("/proc");
    proc.join(pid.to_string()).exists() || !proc.join("self").exists()
}

/// Returns the process whose socket this is: `7.sock`, or `.7.sock` before it listens.
pub(crate) fn pid_of_socket(path: &Path) -> Option<u32> {
    path.file_name()?.to_str()?.trim_start_matches('.').strip_suffix(".sock")?.parse().ok()
}

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

    #[test]
    fn names_of_sockets() {
        for (path, pid) in
            [("/a/7.sock", Some(7)), ("/a/.7.sock", Some(7)), ("/a/b.sock", None), ("/a/7", None)]
        {
            assert_eq!(pid_of_socket(path.as_ref()), pid, "{path}");
        }
    }

    #[test]
    fn candidates_are_looked_at_once() {
        let all = candidate_folders(7, Some("/run/user/7".into()));
        assert_eq!(all, ["/run/user/7/latent-probes", "/tmp/latent-probes-7"].map(PathBuf::from));
        let all = candidate_folders(7, Some("relative".into()));
        assert_eq!(all.len(), 2);
    }

    #[test]
    fn a_path_must_fit_into_a_sockets_address() {
        let folder = |bytes: usize| PathBuf::from(format!("/{}", "a".repeat(bytes - 1)));
        assert!(socket_path(&folder(99), 7).is_ok());
        assert!(matches!(socket_path(&folder(100), 7), Err(DirectoryError::TooLong { .. })));
    }

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
