//! Finding the sockets of programs. Linux.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{env, fs, io};

use rustix::process::geteuid;

use crate::channel::{Channel, ChannelError};
use crate::directory::{
    FOLDER, OpenFolder, RUNTIME_VARIABLE, candidate_folders, file_name, find_problem, is_running,
    pid_of_socket,
};
use crate::error::{ClientError, DirectoryError};

/// The time for a program to take a connection.
pub(crate) const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// The default time for an answer. The first operation of a runtime waits for the kernel
/// (membarrier(2) waits for RCU), on a loaded machine for ten seconds.
pub(crate) const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);

/// A socket in a user's folder, and its process.
///
/// ```no_run
/// for socket in probe_protocol::sockets() {
///     println!("{} {}", socket.pid, socket.path.display());
/// }
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AgentSocket {
    /// The process.
    pub pid: u32,
    /// Its socket.
    pub path: PathBuf,
}

/// Returns the sockets of this user's running programs, for root those of all users, sorted by
/// process. Removes those of ended programs.
///
/// A program may have become another one (`exec`) that serves no socket. Connecting fails then.
///
/// ```no_run
/// assert!(probe_protocol::sockets().iter().all(|socket| socket.pid != 0));
/// ```
pub fn sockets() -> Vec<AgentSocket> {
    let uid = geteuid().as_raw();
    let mut folders = candidate_folders(uid, env::var_os(RUNTIME_VARIABLE));
    if uid == 0 {
        let of = |parent: &str| fs::read_dir(parent).into_iter().flatten().flatten().map(|it| it.path());
        folders.extend(of("/run/user").map(|it| it.join(FOLDER)));
        let is_ours = |it: &PathBuf| it.to_string_lossy().starts_with(&format!("/tmp/{FOLDER}-"));
        folders.extend(of("/tmp").filter(is_ours));
    }
    let mut found = BTreeMap::new();
    for folder in folders {
        // The checked folder is the one that is used, even if its path leads elsewhere later.
        let Ok(opened) = OpenFolder::new(&folder) else { continue };
        let Ok(it) = opened.metadata() else { continue };
        if find_problem(&it, &[if uid == 0 { it.uid() } else { uid }]).is_some() {
            continue;
        }
        for name in fs::read_dir(opened.path()).into_iter().flatten().flatten().map(|it| it.file_name()) {
            let Some(pid) = pid_of_socket(name.as_ref()) else { continue };
            if !is_running(pid) {
                opened.remove_stale(&name);
            } else if *name == *file_name(pid) {
                found.entry(pid).or_insert_with(|| folder.join(name));
            }
        }
    }
    found.into_iter().map(|(pid, path)| AgentSocket { pid, path }).collect()
}

/// A process to connect to, as `/proc` describes it.
pub(crate) struct Program {
    pid: u32,
    /// Its id in its own namespace of processes.
    pub(crate) inner_pid: u32,
    uid: u32,
    /// The path of its file system from here; empty if it is this process's.
    root: PathBuf,
    runtime: Option<OsString>,
}

impl Program {
    pub(crate) fn new(pid: u32) -> Result<Self, ClientError> {
        let of = PathBuf::from(format!("/proc/{pid}"));
        let uid = fs::metadata(&of).map_err(|_| ClientError::NoProcess(pid))?.uid();
        let own = fs::metadata("/").ok();
        let other = fs::metadata(of.join("root/.")).ok();
        let place = |it: &fs::Metadata| (it.dev(), it.ino());
        // Two namespaces may have the same root, and other file systems below it.
        let mounts = |of: &Path| fs::read_link(of.join("ns/mnt")).ok();
        let is_mounted_apart = mounts(&of).is_some_and(|it| mounts("/proc/self".as_ref()) != Some(it));
        let is_elsewhere =
            is_mounted_apart || other.as_ref().is_some_and(|it| own.as_ref().map(place) != Some(place(it)));
        let status = fs::read_to_string(of.join("status")).unwrap_or_default();
        let inner_pid = status.lines().find_map(|line| line.strip_prefix("NSpid:"));
        let inner_pid = inner_pid.and_then(|line| line.split_whitespace().next_back()?.parse().ok());
        // Without the right to read its variables, and while it becomes another program, it
        // probably has the same as this process.
        let environ = fs::read(of.join("environ")).ok().filter(|it| !it.is_empty());
        let runtime = environ.map_or_else(|| env::var_os(RUNTIME_VARIABLE), |it| runtime_folder(&it));
        Ok(Self {
            pid,
            inner_pid: inner_pid.unwrap_or(pid),
            uid,
            root: if is_elsewhere { of.join("root") } else { PathBuf::new() },
            runtime,
        })
    }

    pub(crate) fn folders(&self) -> Vec<PathBuf> {
        let folders = candidate_folders(self.uid, self.runtime.clone()).into_iter();
        let below = |folder: PathBuf| match folder.strip_prefix("/") {
            Ok(relative) if !self.root.as_os_str().is_empty() => self.root.join(relative),
            _ => folder,
        };
        folders.map(below).collect()
    }

    /// Connects to its socket in a folder; `None` if the folder has no such socket.
    pub(crate) fn connect(&self, folder: &Path, path: &Path) -> Result<Option<Channel>, ClientError> {
        let system = |error: io::Error| ClientError::System { path: path.to_owned(), error };
        // The checked folder is the one that is used, even if its path leads elsewhere later.
        let opened = match OpenFolder::new(folder) {
            Ok(opened) => opened,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) if error.kind() == io::ErrorKind::NotADirectory => {
                let problem = "it is a symbolic link, or not a folder";
                return Err(DirectoryError::Unsafe { path: folder.to_owned(), problem }.into());
            }
            Err(error) => return Err(system(error)),
        };
        let owners = [self.uid, geteuid().as_raw(), 0];
        if let Some(problem) = find_problem(&opened.metadata().map_err(system)?, &owners) {
            return Err(DirectoryError::Unsafe { path: folder.to_owned(), problem }.into());
        }
        let name = file_name(self.inner_pid);
        let channel = match Channel::connect(&opened.path().join(&name), CONNECT_TIMEOUT) {
            Ok(channel) => channel,
            Err(ChannelError::System(error)) => {
                return match error.kind() {
                    io::ErrorKind::NotFound => Ok(None),
                    io::ErrorKind::ConnectionRefused => {
                        opened.remove_stale(name.as_ref());
                        Ok(None)
                    }
                    _ => Err(system(error)),
                };
            }
            Err(error) => return Err(client_error(path, error)),
        };
        let served_by = channel.peer().map_err(system)?.pid;
        if served_by != self.pid {
            return Err(ClientError::Foreign { path: path.to_owned(), served_by });
        }
        Ok(Some(channel))
    }
}

pub(crate) fn client_error(path: &Path, error: ChannelError) -> ClientError {
    match error {
        ChannelError::TimedOut => ClientError::TimedOut,
        ChannelError::Ended => ClientError::Ended,
        ChannelError::Frame(error) => ClientError::Frame(error),
        ChannelError::System(error) => ClientError::System { path: path.to_owned(), error },
    }
}

/// Returns the folder that a process's variables name.
fn runtime_folder(environ: &[u8]) -> Option<OsString> {
    let is_named =
        |it: &[u8]| Some(it.strip_prefix(RUNTIME_VARIABLE.as_bytes())?.strip_prefix(b"=")?.to_vec());
    environ.split(|byte| *byte == 0).find_map(is_named).map(OsString::from_vec)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variable_is_found_among_others() {
        let environ = b"A=XDG_RUNTIME_DIR=/no\0XDG_RUNTIME_DIR=/run/user/7\0B=1\0";
        assert_eq!(runtime_folder(environ), Some("/run/user/7".into()));
        assert_eq!(runtime_folder(b"XDG_RUNTIME_DIRS=/no\0"), None);
    }
}
