//! Pipes, terminals and devices, opened without waiting for a reader.

// Safety: relies on fcntl(2) with a descriptor that is open.
#![expect(unsafe_code, reason = "see above")]

use std::fs::OpenOptions;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;

use super::guarded_file::GuardedFile;

/// Opens a stream for appending. Writes to it wait for room, as usual.
///
/// # Errors
/// If no process reads from a named pipe; and all errors of open(2).
pub(crate) fn open(path: &Path) -> io::Result<GuardedFile> {
    let flags = libc::O_NONBLOCK | libc::O_NOCTTY;
    let opened = OpenOptions::new().append(true).custom_flags(flags).open(path);
    let file = opened.map_err(|error| {
        let is_unread = error.raw_os_error() == Some(libc::ENXIO)
            && path.metadata().is_ok_and(|it| it.file_type().is_fifo());
        if is_unread {
            io::Error::new(error.kind(), "no process has this pipe open to read it")
        } else {
            error
        }
    })?;
    // SAFETY: the descriptor is the file's, and was opened here, so no other code uses its flags.
    let is_blocking = unsafe {
        let flags = libc::fcntl(file.as_raw_fd(), libc::F_GETFL);
        flags != -1 && libc::fcntl(file.as_raw_fd(), libc::F_SETFL, flags & !libc::O_NONBLOCK) != -1
    };
    if is_blocking { Ok(GuardedFile::stream(file)) } else { Err(io::Error::last_os_error()) }
}
