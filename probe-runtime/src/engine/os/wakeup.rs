//! A pipe that wakes a thread, also from a signal handler. The content of its bytes is irrelevant.
//!
//! A program may close all its descriptors, to become a daemon, and then open other files under the
//! same numbers. So each use first checks whether a number still refers to this pipe. If it does
//! not, the wakeup reads and writes nothing from then on, and a sleeping thread wakes every 20 ms.
//!
//! Limit: the check is one system call before the use. If the program closes the pipe's number and
//! opens a file in between, the wakeup does not notice.

// Safety: relies on checking the identity of a descriptor before each use.
#![expect(unsafe_code, reason = "see above")]

use std::io;
use std::os::fd::IntoRawFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::guarded_file::Identity;

/// The time between looks of a sleeping thread if poll(2) does not wait for the pipe.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// A pipe. It is never closed here, since a handler may be about to write to it.
#[derive(Debug)]
pub(super) struct Wakeup {
    from: End,
    to: End,
    /// Whether the program has closed it.
    is_lost: AtomicBool,
}

/// A descriptor, and its file.
#[derive(Clone, Copy, Debug)]
struct End {
    descriptor: libc::c_int,
    file: Identity,
}

impl End {
    /// Makes a descriptor non-blocking. The handler must not wait for room, nor the reader for data
    /// that poll(2) has not announced.
    fn new(descriptor: libc::c_int) -> io::Result<Self> {
        // SAFETY: an open descriptor that no other code uses.
        unsafe { libc::fcntl(descriptor, libc::F_SETFL, libc::O_NONBLOCK) };
        Ok(Self { descriptor, file: Identity::of(descriptor).ok_or_else(io::Error::last_os_error)? })
    }

    /// Returns whether the descriptor still refers to the pipe. Async-signal-safe; changes errno.
    fn is_there(self) -> bool {
        Identity::of(self.descriptor) == Some(self.file)
    }
}

impl Wakeup {
    pub(super) fn new() -> io::Result<Self> {
        let (from, to) = io::pipe()?;
        let (from, to) = (End::new(from.into_raw_fd())?, End::new(to.into_raw_fd())?);
        Ok(Self { from, to, is_lost: AtomicBool::new(false) })
    }

    /// Returns whether both descriptors still refer to the pipe.
    pub(super) fn is_whole(&self) -> bool {
        !self.is_lost.load(Ordering::Relaxed) && self.from.is_there() && self.to.is_there()
    }

    /// Wakes the sleeping thread. Async-signal-safe; changes errno.
    pub(super) fn wake(&self) {
        // The kernel would raise a signal for a pipe that has no reader.
        if !self.is_lost.load(Ordering::Relaxed) && self.to.is_there() {
            // SAFETY: one byte. A pipe without room has enough bytes to wake the reader.
            unsafe { libc::write(self.to.descriptor, (&raw const WAKE).cast(), 1) };
        }
    }

    /// Sleeps until it rings, for at most `limit`. It may wake early.
    pub(super) fn sleep(&self, limit: Option<Duration>) {
        if !self.is_whole() {
            self.is_lost.store(true, Ordering::Relaxed);
            return nap(limit);
        }
        let mut poll = libc::pollfd { fd: self.from.descriptor, events: libc::POLLIN, revents: 0 };
        // SAFETY: one descriptor.
        let ready = unsafe { libc::poll(&raw mut poll, 1, limit.map_or(-1, milliseconds)) };
        if ready < 0 && io::Error::last_os_error().kind() != io::ErrorKind::Interrupted {
            // The kernel refuses to wait for any descriptor if the process may have none
            // (RLIMIT_NOFILE).
            nap(limit);
        }
        let mut bytes = [0_u8; 64];
        if self.from.is_there() {
            // SAFETY: at most as many bytes as the buffer has, from a descriptor that does not
            // block.
            unsafe { libc::read(self.from.descriptor, bytes.as_mut_ptr().cast(), bytes.len()) };
        }
    }
}

static WAKE: u8 = 1;

fn milliseconds(duration: Duration) -> libc::c_int {
    // Rounded up, so that a wait never ends early.
    duration.as_nanos().div_ceil(1_000_000).try_into().unwrap_or(libc::c_int::MAX)
}

fn nap(limit: Option<Duration>) {
    std::thread::sleep(limit.unwrap_or(POLL_INTERVAL).min(POLL_INTERVAL));
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::os::fd::AsRawFd;
    use std::time::Instant;

    use super::*;

    #[test]
    fn it_wakes_whoever_sleeps() {
        let wakeup = Wakeup::new().unwrap();
        (0..100_000).for_each(|_| wakeup.wake());
        let start = Instant::now();
        wakeup.sleep(Some(Duration::from_secs(3600)));
        assert!(start.elapsed() < Duration::from_secs(3600));
        assert!(wakeup.is_whole());
    }

    #[test]
    fn what_has_its_number_is_left_alone() {
        let wakeup = Wakeup::new().unwrap();
        let (mut from, mut to) = io::pipe().unwrap();
        to.write_all(b"theirs").unwrap();
        // SAFETY: the wakeup's own descriptors, which only this test knows.
        unsafe {
            assert_eq!(libc::dup2(from.as_raw_fd(), wakeup.from.descriptor), wakeup.from.descriptor);
            assert_eq!(libc::dup2(to.as_raw_fd(), wakeup.to.descriptor), wakeup.to.descriptor);
        }
        wakeup.wake();
        wakeup.sleep(None);
        wakeup.wake();
        assert!(!wakeup.is_whole());
        // SAFETY: as above.
        unsafe { libc::close(wakeup.to.descriptor) };
        drop(to);
        let mut all = String::new();
        from.read_to_string(&mut all).unwrap();
        assert_eq!(all, "theirs");
        wakeup.wake();
        wakeup.sleep(None);
    }
}
