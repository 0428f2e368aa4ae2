//! Frames over a socket, with timeouts. Linux.
//!
//! A descriptor may come with a frame, by its first byte (`SCM_RIGHTS`). No call waits for longer
//! than its timeouts, and none raises `SIGPIPE`.

use std::fs::File;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use std::{fmt, thread};

use rustix::cmsg_space;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{OFlags, fcntl_getfl};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, Shutdown, SocketAddrUnix, SocketFlags, SocketType, connect, recvmsg,
    sendmsg, shutdown, socket_with,
};

use crate::frame::{FrameError, HEADER_BYTES, frame, payload_len};
use crate::message::{Failure, FailureKind};
use crate::socket::{Peer, Socket};

/// The time for the rest of a frame that nobody waits for.
const FRAME_TIMEOUT: Duration = Duration::from_secs(5);

/// One end of a connection.
///
/// ```
/// use std::os::unix::net::UnixStream;
/// use std::time::Duration;
///
/// use probe_protocol::Channel;
///
/// let (one, other) = UnixStream::pair()?;
/// let (one, other) = (Channel::new(one.into())?, Channel::new(other.into())?);
/// let second = Duration::from_secs(1);
/// one.send(b"payload", None, second).unwrap();
/// assert_eq!(other.receive(Some(second), second).unwrap().unwrap().payload, b"payload");
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct Channel {
    socket: Socket,
    /// Held while a frame is sent, so that those of several threads stay whole.
    sending: Mutex<()>,
}

/// A received frame.
///
/// ```
/// use probe_protocol::ReceivedFrame;
///
/// fn len(received: &ReceivedFrame) -> usize {
///     received.payload.len()
/// }
/// # assert_eq!(len(&ReceivedFrame { payload: vec![1], file: None }), 1);
/// ```
#[derive(Debug)]
pub struct ReceivedFrame {
    /// Its payload.
    pub payload: Vec<u8>,
    /// The descriptor that came with it.
    pub file: Option<OwnedFd>,
}

/// The reason why a frame was not sent or received.
///
/// ```
/// use probe_protocol::ChannelError;
///
/// assert_eq!(ChannelError::TimedOut.to_string(), "the other side took too long");
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum ChannelError {
    /// The other side did not read or write in time.
    TimedOut,
    /// The other side has ended the connection within a frame, or no longer reads.
    Ended,
    /// The bytes are no frame.
    Frame(FrameError),
    /// The system's reason.
    System(io::Error),
}

impl fmt::Display for ChannelError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TimedOut => f.write_str("the other side took too long"),
            Self::Ended => f.write_str("the other side has ended the connection"),
            Self::Frame(error) => error.fmt(f),
            Self::System(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for ChannelError {}

impl From<Errno> for ChannelError {
    fn from(error: Errno) -> Self {
        match error {
            Errno::PIPE | Errno::CONNRESET => Self::Ended,
            error => Self::System(error.into()),
        }
    }
}

impl From<FrameError> for ChannelError {
    fn from(error: FrameError) -> Self {
        Self::Frame(error)
    }
}

/// The end of a timeout; `None` waits for ever.
#[derive(Clone, Copy)]
struct Deadline(Option<Instant>);

impl Deadline {
    fn after(timeout: Option<Duration>) -> Self {
        Self(timeout.and_then(|timeout| Instant::now().checked_add(timeout)))
    }

    fn remaining(self) -> Option<Duration> {
        self.0.map(|at| at.saturating_duration_since(Instant::now()))
    }
}

impl Channel {
    /// Takes one end of a connection.
    ///
    /// # Errors
    /// The system's, if the socket can't be made non-blocking.
    pub fn new(socket: OwnedFd) -> io::Result<Self> {
        rustix::io::ioctl_fionbio(&socket, true)?;
        Ok(Self { socket: Socket::new(socket)?, sending: Mutex::default() })
    }

    /// Connects to a socket. Waits while too many other clients wait there.
    ///
    /// # Errors
    /// [`ChannelError::System`]: `ECONNREFUSED` if no process listens; `ENOENT` if there is no such
    /// socket. [`ChannelError::TimedOut`].
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use probe_protocol::Channel;
    ///
    /// assert!(Channel::connect("/nowhere".as_ref(), Duration::from_secs(1)).is_err());
    /// ```
    pub fn connect(path: &Path, timeout: Duration) -> Result<Self, ChannelError> {
        let deadline = Deadline::after(Some(timeout));
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
        let address = SocketAddrUnix::new(path)?;
        loop {
            match connect(&socket, &address) {
                Ok(()) => {
                    let socket = Socket::new(socket).map_err(ChannelError::System)?;
                    return Ok(Self { socket, sending: Mutex::default() });
                }
                Err(Errno::INTR) => (),
                // The kernel tells nobody when there is room again.
                Err(Errno::AGAIN) if !timeout.is_zero() && deadline.remaining() != Some(Duration::ZERO) => {
                    thread::sleep(Duration::from_millis(1));
                }
                Err(Errno::AGAIN) => return Err(ChannelError::TimedOut),
                Err(error) => return Err(ChannelError::System(error.into())),
            }
        }
    }

    /// Returns the process at the other end.
    ///
    /// # Errors
    /// The system's.
    pub fn peer(&self) -> io::Result<Peer> {
        Peer::of(self.socket.as_fd())
    }

    /// Sends a frame with this payload, and a descriptor with it.
    ///
    /// # Errors
    /// [`ChannelError`]. A part of the frame may have been sent by then.
    pub fn send(
        &self,
        payload: &[u8],
        file: Option<BorrowedFd<'_>>,
        timeout: Duration,
    ) -> Result<(), ChannelError> {
        let frame = frame(payload)?;
        let _whole = self.sending.lock().unwrap_or_else(PoisonError::into_inner);
        let deadline = Deadline::after(Some(timeout));
        let (mut rest, mut file) = (frame.as_slice(), file);
        while !rest.is_empty() {
            match self.send_some(rest, file) {
                Ok(sent) => (rest, file) = (&rest[sent..], None),
                Err(Errno::INTR) => (),
                Err(Errno::AGAIN) => self.wait(PollFlags::OUT, deadline)?,
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    fn send_some(&self, bytes: &[u8], file: Option<BorrowedFd<'_>>) -> Result<usize, Errno> {
        self.socket.check()?;
        let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        let files = file.as_slice();
        if !files.is_empty() {
            control.push(SendAncillaryMessage::ScmRights(files));
        }
        sendmsg(&self.socket, &[IoSlice::new(bytes)], &mut control, SendFlags::NOSIGNAL)
    }

    /// Receives a frame. Waits for its first byte up to `first`, or for ever, and then up to `rest`
    /// for the others. Returns `None` if the other side has ended the connection before a frame.
    ///
    /// # Errors
    /// [`ChannelError`]. The connection can't be used any more.
    pub fn receive(
        &self,
        first: Option<Duration>,
        rest: Duration,
    ) -> Result<Option<ReceivedFrame>, ChannelError> {
        let mut file = None;
        let mut header = [0; HEADER_BYTES];
        let begun = self.receive_some(&mut header, Deadline::after(first), &mut file)?;
        if begun == 0 {
            return Ok(None);
        }
        let deadline = Deadline::after(Some(rest));
        let mut receive_rest = || {
            self.receive_all(&mut header[begun..], deadline, &mut file)?;
            let mut payload = vec![0; payload_len(header)?];
            self.receive_all(&mut payload, deadline, &mut file)?;
            Ok(payload)
        };
        let payload = receive_rest().inspect_err(|error| {
            // The place where the next frame begins is unknown.
            if matches!(error, ChannelError::TimedOut) {
                self.end();
            }
        })?;
        Ok(Some(ReceivedFrame { payload, file }))
    }

    fn receive_all(
        &self,
        mut into: &mut [u8],
        deadline: Deadline,
        file: &mut Option<OwnedFd>,
    ) -> Result<(), ChannelError> {
        while !into.is_empty() {
            match self.receive_some(into, deadline, file)? {
                0 => return Err(ChannelError::Ended),
                received => into = &mut into[received..],
            }
        }
        Ok(())
    }

    /// Receives at least one byte; 0 at the connection's end.
    fn receive_some(
        &self,
        into: &mut [u8],
        deadline: Deadline,
        file: &mut Option<OwnedFd>,
    ) -> Result<usize, ChannelError> {
        loop {
            self.socket.check()?;
            // The space is aligned, so a second descriptor fits, too, and is refused below. The
            // kernel closes further ones.
            let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(1))];
            let mut control = RecvAncillaryBuffer::new(&mut space);
            let parts = &mut [IoSliceMut::new(into)];
            match recvmsg(&self.socket, parts, &mut control, RecvFlags::CMSG_CLOEXEC) {
                Ok(received) => {
                    for message in control.drain() {
                        let RecvAncillaryMessage::ScmRights(files) = message else { continue };
                        for it in files {
                            if file.replace(it).is_some() {
                                return Err(FrameError::Malformed.into());
                            }
                        }
                    }
                    return Ok(received.bytes);
                }
                Err(Errno::INTR) => (),
                Err(Errno::AGAIN) => self.wait(PollFlags::IN, deadline)?,
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn wait(&self, event: PollFlags, deadline: Deadline) -> Result<(), ChannelError> {
        let is_over = deadline.remaining() == Some(Duration::ZERO);
        if !is_over && self.is_ready(event, deadline)? { Ok(()) } else { Err(ChannelError::TimedOut) }
    }

    /// Returns whether there is such an event before the deadline, or now if that is over.
    fn is_ready(&self, event: PollFlags, deadline: Deadline) -> Result<bool, ChannelError> {
        loop {
            // A timeout too large for `timespec` means: wait for ever.
            let remaining = deadline.remaining().and_then(|it| Timespec::try_from(it).ok());
            match poll(&mut [PollFd::new(&self.socket, event)], remaining.as_ref()) {
                Ok(0) if deadline.remaining() == Some(Duration::ZERO) => return Ok(false),
                Ok(0) | Err(Errno::INTR) => (),
                Ok(_) => return Ok(true),
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Waits until the other side has sent something, or has ended the connection. Returns whether
    /// it did. The connection stays as it is.
    ///
    /// # Errors
    /// [`ChannelError`], but for [`ChannelError::TimedOut`].
    ///
    /// ```
    /// use std::io::Write;
    /// use std::os::unix::net::UnixStream;
    /// use std::time::Duration;
    ///
    /// use probe_protocol::Channel;
    ///
    /// let (one, mut other) = UnixStream::pair()?;
    /// let channel = Channel::new(one.into())?;
    /// assert!(!channel.wait_readable(Duration::ZERO).unwrap());
    /// other.write_all(&[1])?;
    /// assert!(channel.wait_readable(Duration::ZERO).unwrap());
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn wait_readable(&self, at_most: Duration) -> Result<bool, ChannelError> {
        self.socket.check()?;
        self.is_ready(PollFlags::IN, Deadline::after(Some(at_most)))
    }

    /// Receives a frame that nobody has asked for. Returns `None` if none begins within this time.
    ///
    /// # Errors
    /// [`ChannelError`]; [`ChannelError::Ended`] also before a frame.
    ///
    /// ```
    /// use std::os::unix::net::UnixStream;
    /// use std::time::Duration;
    ///
    /// use probe_protocol::{Channel, ChannelError};
    ///
    /// let (one, other) = UnixStream::pair()?;
    /// let channel = Channel::new(one.into())?;
    /// assert!(channel.receive_unasked(Duration::ZERO).unwrap().is_none());
    /// drop(other);
    /// let ended = channel.receive_unasked(Duration::from_secs(1));
    /// assert!(matches!(ended, Err(ChannelError::Ended)));
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn receive_unasked(&self, at_most: Duration) -> Result<Option<ReceivedFrame>, ChannelError> {
        if !self.wait_readable(at_most)? {
            return Ok(None);
        }
        match self.receive(Some(Duration::ZERO), FRAME_TIMEOUT)? {
            Some(frame) => Ok(Some(frame)),
            None => Err(ChannelError::Ended),
        }
    }

    /// Ends the connection, also if another process has inherited the descriptor.
    pub fn end(&self) {
        if self.is_open() {
            // It fails if the connection has ended already.
            let _ = shutdown(&self.socket, Shutdown::Both);
        }
    }

    /// Returns whether the descriptor is still this connection's. A program that closes descriptors
    /// by their numbers may have closed it, and use the number for another file. Then each call
    /// fails with `EBADF`, and dropping the channel closes nothing.
    pub fn is_open(&self) -> bool {
        self.socket.is_open()
    }
}

impl AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Returns the descriptor that came with a frame, as a file to write to.
///
/// # Errors
/// A [`Failure`] for the client, unless it is a regular file that is open for writing, and not for
/// appending. A pipe or a terminal could keep the program's thread waiting, or end the program by a
/// signal. A trace's header is written again when the trace ends, which appending does not allow.
///
/// ```
/// use std::fs::File;
///
/// # let path = std::env::temp_dir().join(format!("passed-{}", std::process::id()));
/// // let path = "run.pftrace";
/// assert!(probe_protocol::writable_file(File::create(&path)?.into()).is_ok());
/// let error = probe_protocol::writable_file(File::open(&path)?.into()).unwrap_err();
/// assert_eq!(error.message, "the file that came with the request is not open for writing");
/// # std::fs::remove_file(path)?;
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn writable_file(descriptor: OwnedFd) -> Result<File, Failure> {
    let refused = |problem: &str| {
        let message = format!("the file that came with the request {problem}");
        Failure::new(FailureKind::File, message)
    };
    let flags = fcntl_getfl(&descriptor).map_err(|error| refused(&format!("can't be used: {error}")))?;
    let file = File::from(descriptor);
    let metadata = file.metadata().map_err(|error| refused(&format!("can't be used: {error}")))?;
    if !metadata.is_file() {
        return Err(refused("is not a regular file; write to one, and copy it from there"));
    }
    let access = flags & OFlags::RWMODE;
    if access != OFlags::WRONLY && access != OFlags::RDWR {
        return Err(refused("is not open for writing"));
    }
    if flags.contains(OFlags::APPEND) {
        return Err(refused("is open for appending; open it for writing from its beginning"));
    }
    Ok(file)
}
