//! The errors of the socket's folder and of the client.

use std::error::Error;
use std::path::PathBuf;
use std::{fmt, io};

use crate::frame::FrameError;
use crate::message::Failure;

/// The longest path of a socket, in bytes. On Linux, unix(7) has room for 108, with a zero at the
/// end.
///
/// ```
/// # #[cfg(target_os = "linux")]
/// assert_eq!(probe_protocol::MAX_PATH, 107);
/// ```
pub const MAX_PATH: usize = if cfg!(target_os = "linux") { 107 } else { 103 };

/// The reason why a socket has no safe place.
///
/// ```
/// use probe_protocol::DirectoryError;
///
/// fn can_be_created(error: &DirectoryError) -> bool {
///     !matches!(error, DirectoryError::Unsafe { .. })
/// }
/// # let error = DirectoryError::Unsafe { path: "/tmp/a".into(), problem: "it is a symbolic link" };
/// # assert_eq!(error.to_string(), "/tmp/a is not safe for sockets: it is a symbolic link; remove it");
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum DirectoryError {
    /// Another user could change the directory, or has made it.
    Unsafe {
        /// The directory.
        path: PathBuf,
        /// The mistake.
        problem: &'static str,
    },
    /// The socket's path does not fit into a socket's address.
    TooLong {
        /// The socket's path.
        path: PathBuf,
    },
    /// The system can't make or read it.
    System {
        /// The directory.
        path: PathBuf,
        /// The system's reason.
        error: io::Error,
    },
}

impl fmt::Display for DirectoryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unsafe { path, problem } => {
                write!(f, "{} is not safe for sockets: {problem}; remove it", path.display())
            }
            Self::TooLong { path } => write!(
                f,
                "{} has {} bytes, and a socket's path at most {}; let XDG_RUNTIME_DIR name a folder with a \
                 shorter path",
                path.display(),
                path.as_os_str().len(),
                MAX_PATH
            ),
            Self::System { path, error } => write!(f, "{}: {error}", path.display()),
        }
    }
}

impl Error for DirectoryError {}

/// The reason why a client got no answer.
///
/// ```no_run
/// use probe_protocol::{Client, ClientError, FailureKind};
///
/// match Client::connect(4711) {
///     Err(ClientError::NoAgent { .. }) => println!("start it with PROBE_AGENT=1"),
///     Err(ClientError::Failed(failure)) if failure.kind == FailureKind::Denied => println!("use sudo"),
///     _ => (),
/// }
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum ClientError {
    /// There is no such process.
    NoProcess(u32),
    /// The process serves no socket.
    NoAgent {
        /// The process.
        pid: u32,
        /// The sockets that it could have.
        searched: Vec<PathBuf>,
    },
    /// The socket's directory, or the socket, could be another user's.
    Directory(DirectoryError),
    /// Another process serves the socket.
    Foreign {
        /// The socket.
        path: PathBuf,
        /// The process that serves it; 0 if it is not visible here.
        served_by: u32,
    },
    /// The system refuses.
    System {
        /// The socket.
        path: PathBuf,
        /// The system's reason.
        error: io::Error,
    },
    /// No answer came in time. The program may be stopped, or busy with another request.
    TimedOut,
    /// The program ended the connection: it has exited, or has become another program.
    Ended,
    /// The other side speaks another version, or sent something malformed.
    Frame(FrameError),
    /// The answer is not one to the request.
    Unexpected,
    /// The answer is longer than any that a sound program gives: 512 MiB, each part as 16 KiB at
    /// least.
    TooLong,
    /// The program can't do it.
    Failed(Failure),
}

impl fmt::Display for ClientError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoProcess(pid) => write!(f, "there is no process {pid}"),
            Self::NoAgent { pid, searched } => {
                write!(
                    f,
                    "process {pid} can't be asked; start it with PROBE_AGENT=1, and the feature `agent`, or by \
                     `probectl run`, or bring it an agent by `probectl attach`"
                )?;
                for (at, path) in searched.iter().enumerate() {
                    let before = if at == 0 { "; there is no " } else { ", nor " };
                    write!(f, "{before}{}", path.display())?;
                }
                Ok(())
            }
            Self::Directory(error) => error.fmt(f),
            Self::Foreign { path, served_by: 0 } => {
                write!(f, "{} is served by a process that is not visible here", path.display())
            }
            Self::Foreign { path, served_by } => {
                write!(f, "{} is served by another process, {served_by}", path.display())
            }
            Self::System { path, error } => {
                write!(f, "{}: {error}", path.display())?;
                if error.kind() == io::ErrorKind::PermissionDenied {
                    f.write_str("; the program belongs to another user: ask it as that user, or as root")?;
                }
                Ok(())
            }
            Self::TimedOut => f.write_str("no answer came in time; the program may be stopped, or busy"),
            Self::Ended => f.write_str("the program has ended the connection"),
            Self::Frame(error) => error.fmt(f),
            Self::Unexpected => f.write_str("the program's answer is not one to the request"),
            Self::TooLong => {
                f.write_str("the program's answer has more than 512 MiB, or no end; list or ask for less")
            }
            Self::Failed(failure) => failure.fmt(f),
        }
    }
}

impl Error for ClientError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::System { error, .. } => Some(error),
            _ => None,
        }
    }
}

impl From<DirectoryError> for ClientError {
    fn from(error: DirectoryError) -> Self {
        Self::Directory(error)
    }
}

impl From<FrameError> for ClientError {
    fn from(error: FrameError) -> Self {
        Self::Frame(error)
    }
}
