//! A program's socket. Linux.
//!
//! Life cycle: [`Listener::bind`] binds the socket under another name, listens, and gives it its
//! own name, so that a client never finds one that does not listen ▸ [`wait`](Listener::wait) and
//! [`accept`](Listener::accept) ▸ [`remove`](Listener::remove) takes the name away.

use std::error::Error;
use std::fs::{self, Permissions};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::{fmt, io};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, Shutdown, SocketAddrUnix, SocketFlags, SocketType, accept_with, bind, listen, shutdown,
    socket_with,
};

use crate::channel::Channel;
use crate::directory::{is_stale, own_directory, socket_path};
use crate::error::DirectoryError;
use crate::socket::Socket;

/// The most clients that wait to be accepted.
const BACKLOG: i32 = 64;

/// A socket to which clients connect.
///
/// ```no_run
/// use probe_protocol::Listener;
///
/// let listener = Listener::bind(std::process::id())?;
/// listener.wait().unwrap();
/// if let Some(client) = listener.accept().unwrap() {
///     println!("process {} has connected", client.peer().unwrap().pid);
/// }
/// listener.remove();
/// # Ok::<(), probe_protocol::BindError>(())
/// ```
#[derive(Debug)]
pub struct Listener {
    socket: Socket,
    path: PathBuf,
    /// The device and the inode of the socket's file.
    file: (u64, u64),
}

/// The reason why a program has no socket.
///
/// ```
/// use probe_protocol::BindError;
///
/// let error = BindError::NotASocket { path: "/tmp/7.sock".into() };
/// assert_eq!(error.to_string(), "/tmp/7.sock is in the way, and is not a socket; remove it");
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum BindError {
    /// There is no safe folder for it.
    Directory(DirectoryError),
    /// Another file has its name.
    NotASocket {
        /// The file.
        path: PathBuf,
    },
    /// A process serves a socket of this name.
    Served {
        /// The socket.
        path: PathBuf,
    },
    /// The system refuses.
    System {
        /// The socket.
        path: PathBuf,
        /// The system's reason.
        error: io::Error,
    },
}

impl fmt::Display for BindError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Directory(error) => error.fmt(f),
            Self::NotASocket { path } => {
                write!(f, "{} is in the way, and is not a socket; remove it", path.display())
            }
            Self::Served { path } => write!(
                f,
                "{} is served already: by another copy of probe-runtime in this program, or by a process of \
                 another namespace, whose XDG_RUNTIME_DIR should be another folder",
                path.display()
            ),
            Self::System { path, error } => write!(f, "{}: {error}", path.display()),
        }
    }
}

impl Error for BindError {}

impl Listener {
    /// Makes the socket of this process in its user's folder. Replaces a socket that an earlier
    /// process of the same id, or an earlier program of this process, has left.
    ///
    /// # Errors
    /// [`BindError`].
    pub fn bind(pid: u32) -> Result<Self, BindError> {
        let path = own_directory().and_then(|folder| socket_path(&folder, pid));
        Self::bind_to(path.map_err(BindError::Directory)?)
    }

    fn bind_to(path: PathBuf) -> Result<Self, BindError> {
        match fs::symlink_metadata(&path) {
            Ok(it) if !it.file_type().is_socket() => return Err(BindError::NotASocket { path }),
            Ok(_) if !is_stale(&path) => return Err(BindError::Served { path }),
            _ => (),
        }
        match Self::publish(&path) {
            Ok((socket, file)) => Ok(Self { socket, path, file }),
            Err(error) => Err(BindError::System { path, error }),
        }
    }

    fn publish(path: &Path) -> io::Result<(Socket, (u64, u64))> {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let unpublished = path.with_file_name(format!(".{name}"));
        // A process that was killed between the next steps may have left it.
        let _ = fs::remove_file(&unpublished);
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = Socket::new(socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?)?;
        bind(&socket, &SocketAddrUnix::new(&unpublished)?)?;
        let published = fs::set_permissions(&unpublished, Permissions::from_mode(0o600)).and_then(|()| {
            listen(&socket, BACKLOG)?;
            let it = fs::symlink_metadata(&unpublished)?;
            fs::rename(&unpublished, path)?;
            Ok((it.dev(), it.ino()))
        });
        if published.is_err() {
            let _ = fs::remove_file(&unpublished);
        }
        Ok((socket, published?))
    }

    /// Returns the socket's path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Waits until a client connects. The thread sleeps until then.
    ///
    /// # Errors
    /// The system's.
    pub fn wait(&self) -> io::Result<()> {
        loop {
            match poll(&mut [PollFd::new(&self.socket, PollFlags::IN)], None) {
                Ok(0) | Err(Errno::INTR) => (),
                Ok(_) => return Ok(()),
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Accepts a waiting client. Returns `None` if no client waits.
    ///
    /// # Errors
    /// The system's: too many open files, no memory; `EBADF` if the program has closed the
    /// descriptor, though its number may be another file's by now.
    pub fn accept(&self) -> io::Result<Option<Channel>> {
        self.socket.check()?;
        match accept_with(&self.socket, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK) {
            Ok(socket) => Channel::new(socket).map(Some),
            // The client may have ended the connection already.
            Err(Errno::AGAIN | Errno::INTR | Errno::CONNABORTED) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Returns whether the descriptor is still this socket's. If not, dropping the listener closes
    /// nothing.
    pub fn is_open(&self) -> bool {
        self.socket.is_open()
    }

    /// Ends it, from any thread: [`wait`](Self::wait) returns, and no client is accepted any more.
    /// Returns `false` if the program has closed the descriptor.
    pub fn end(&self) -> bool {
        self.is_open() && shutdown(&self.socket, Shutdown::Both).is_ok()
    }

    /// Removes the socket's file, if it is still this socket's.
    pub fn remove(&self) {
        let is_own = |it: fs::Metadata| (it.dev(), it.ino()) == self.file;
        if fs::symlink_metadata(&self.path).is_ok_and(is_own) {
            // Without the right to remove it, it stays as a stale one.
            let _ = fs::remove_file(&self.path);
        }
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;
    use std::process;
    use std::time::Duration;

    use super::*;

    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Self {
            let folder = std::env::temp_dir().join(format!("{name}-{}", process::id()));
            fs::create_dir(&folder).unwrap();
            Self(folder)
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            fs::remove_dir_all(&self.0).unwrap();
        }
    }

    #[test]
    fn a_stale_socket_is_replaced_and_a_served_one_is_not() {
        let folder = Folder::new("bound");
        let path = folder.0.join("7.sock");
        drop(UnixListener::bind(&path).unwrap());
        assert!(is_stale(&path));
        let listener = Listener::bind_to(path.clone()).unwrap();
        assert!(!is_stale(&path));
        assert!(matches!(Listener::bind_to(path.clone()), Err(BindError::Served { .. })));
        let names: Vec<_> = fs::read_dir(&folder.0).unwrap().map(|it| it.unwrap().file_name()).collect();
        assert_eq!(names, ["7.sock"]);
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        listener.remove();
        assert!(!path.exists());
    }

    #[test]
    fn another_file_stays() {
        let folder = Folder::new("foreign");
        let path = folder.0.join("7.sock");
        fs::write(&path, "mine").unwrap();
        assert!(matches!(Listener::bind_to(path.clone()), Err(BindError::NotASocket { .. })));
        assert_eq!(fs::read_to_string(&path).unwrap(), "mine");
        fs::remove_file(&path).unwrap();
        let listener = Listener::bind_to(path.clone()).unwrap();
        fs::remove_file(&path).unwrap();
        let _other = UnixListener::bind(&path).unwrap();
        listener.remove();
        assert!(path.exists(), "it is not its own");
    }

    #[test]
    fn frames_go_both_ways_and_end_with_the_connection() {
        let folder = Folder::new("channel");
        let listener = Listener::bind_to(folder.0.join("7.sock")).unwrap();
        let second = Duration::from_secs(10);
        let client = Channel::connect(listener.path(), second).unwrap();
        listener.wait().unwrap();
        let agent = listener.accept().unwrap().unwrap();
        assert!(listener.accept().unwrap().is_none());
        let file = fs::File::open("/dev/null").unwrap();
        client.send(b"one", Some(file.as_fd()), second).unwrap();
        client.send(b"", None, second).unwrap();
        let received = agent.receive(None, second).unwrap().unwrap();
        assert_eq!((received.payload.as_slice(), received.file.is_some()), (&b"one"[..], true));
        let received = agent.receive(None, second).unwrap().unwrap();
        assert_eq!((received.payload.as_slice(), received.file.is_some()), (&b""[..], false));
        agent.end();
        assert!(client.receive(None, second).unwrap().is_none());
        assert!(matches!(client.send(b"two", None, second), Err(crate::ChannelError::Ended)));
    }
}
