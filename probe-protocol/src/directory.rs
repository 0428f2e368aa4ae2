//! The folder of the sockets, which one user alone can use. Linux.
//!
//! A socket is `$XDG_RUNTIME_DIR/latent-probes/PID.sock`, or else
//! `/tmp/latent-probes-UID/PID.sock`. A program binds its socket under another name and renames it
//! once it listens. So nobody serves a socket of that name that refuses connections, and any
//! process may remove it.

use std::env;
use std::ffi::OsString;
use std::fs::{self, DirBuilder, Metadata};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::process::geteuid;

use crate::error::{DirectoryError, MAX_PATH};

const FOLDER: &str = "latent-probes";

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

#[cfg(test)]
mod tests {
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
}
