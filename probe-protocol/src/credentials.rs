//! The process at the other end of a socket.

// Safety: relies on getsockopt(2) with a descriptor that is open. `rustix` has this call, too, but
// its type of a process id excludes 0, which the kernel gives for a process that is not visible.
#![expect(unsafe_code, reason = "see above")]

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// The process at the other end of a socket, at the time when it connected or began to listen.
///
/// ```
/// use probe_protocol::{Channel, Peer};
///
/// let (one, _other) = std::os::unix::net::UnixStream::pair()?;
/// assert_eq!(Channel::new(one.into())?.peer()?.pid, std::process::id());
/// # let _ = |peer: Peer| peer.is_allowed();
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Peer {
    /// Its process id; 0 if it is not visible in this namespace of processes.
    pub pid: u32,
    /// Its effective user.
    pub uid: u32,
}

impl Peer {
    pub(crate) fn of(socket: BorrowedFd<'_>) -> io::Result<Self> {
        let mut it = libc::ucred { pid: 0, uid: 0, gid: 0 };
        let mut len = libc::socklen_t::try_from(size_of_val(&it)).unwrap_or_default();
        // SAFETY: the descriptor is open, and the kernel writes at most as many bytes as `it` has.
        let result = unsafe {
            libc::getsockopt(
                socket.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_PEERCRED,
                (&raw mut it).cast(),
                &raw mut len,
            )
        };
        if result != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(Self { pid: u32::try_from(it.pid).unwrap_or(0), uid: it.uid })
    }

    /// Returns whether it may send requests to this process: it runs as the same user, or as root.
    #[must_use]
    pub fn is_allowed(self) -> bool {
        self.uid == 0 || self.uid == rustix::process::geteuid().as_raw()
    }
}
