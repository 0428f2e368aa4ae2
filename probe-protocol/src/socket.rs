//! A socket whose descriptor the program may close, or use for another file, unnoticed; the process
//! at its other end.

// Safety: relies on getsockopt(2) with a descriptor that is open. `rustix` has this call, too, but
// its type of a process id excludes 0, which the kernel gives for a process that is not visible.
#![expect(unsafe_code, reason = "see above")]

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::{io, mem};

use rustix::fs::{Stat, fstat};
use rustix::io::Errno;

/// A socket, and the numbers that identify it. A program may close all descriptors from some number
/// on (`close_range`), and get the same numbers for its own files.
#[derive(Debug)]
pub(crate) struct Socket {
    /// `None` once `drop` has taken it.
    descriptor: Option<OwnedFd>,
    /// Has the device and the inode, which no other open file has.
    identity: Stat,
}

impl Socket {
    pub(crate) fn new(descriptor: OwnedFd) -> io::Result<Self> {
        let identity = fstat(&descriptor)?;
        Ok(Self { descriptor: Some(descriptor), identity })
    }

    /// Returns whether the descriptor is still this socket's. Takes no lock, so a forked child may
    /// call it.
    pub(crate) fn is_open(&self) -> bool {
        fstat(self).is_ok_and(|it| (it.st_dev, it.st_ino) == (self.identity.st_dev, self.identity.st_ino))
    }

    /// Returns an error unless the descriptor is still this socket's.
    pub(crate) fn check(&self) -> Result<(), Errno> {
        if self.is_open() { Ok(()) } else { Err(Errno::BADF) }
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_ref().expect("only `drop` takes it").as_fd()
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        if !self.is_open() {
            // Closing the descriptor would close another file of the program.
            mem::forget(self.descriptor.take());
        }
    }
}

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

#[cfg(test)]
mod tests {
    use std::fs::{File, read_link};
    use std::io::Read;
    use std::os::fd::AsRawFd;
    use std::os::unix::net::UnixStream;

    use rustix::io::dup2;

    use super::*;

    #[test]
    fn a_number_that_is_another_files_by_now_stays_open() {
        let (one, mut other) = UnixStream::pair().unwrap();
        let socket = Socket::new(one.into()).unwrap();
        let mut number = socket.as_fd().try_clone_to_owned().unwrap();
        let identity = Socket::new(number.try_clone().unwrap()).unwrap().identity;
        dup2(File::open("/dev/null").unwrap(), &mut number).unwrap();
        let reused = Socket { descriptor: Some(number), identity };
        assert_eq!((socket.check(), reused.check()), (Ok(()), Err(Errno::BADF)));
        let link = format!("/proc/self/fd/{}", reused.as_fd().as_raw_fd());
        drop((socket, reused));
        assert_eq!(read_link(link).unwrap().to_str(), Some("/dev/null"));
        assert_eq!(other.read(&mut [0]).unwrap(), 0, "the socket itself is closed");
    }
}
