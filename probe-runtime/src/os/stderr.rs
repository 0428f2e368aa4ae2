//! Standard error, without the standard library's lock.
//!
//! Any thread may hold that lock while it calls `exit`, or while another thread forks. In the
//! forked child no thread then releases it. A message at the end of a process must not wait for it.

// Safety: relies on descriptor 2 being the file for the process's errors.
#![expect(unsafe_code, reason = "see above")]

use std::fs::File;
use std::io::{self, Write};
use std::mem::ManuallyDrop;
use std::os::fd::FromRawFd;

/// Writes all of `text`, as far as the system accepts it. Output that other threads write at the
/// same time may come in between.
pub(crate) fn write(text: &[u8]) -> io::Result<()> {
    // SAFETY: this `File` is never closed, and is only written to, as in the standard library.
    let mut stderr = ManuallyDrop::new(unsafe { File::from_raw_fd(libc::STDERR_FILENO) });
    stderr.write_all(text)
}

/// Returns the number of columns if standard error is a terminal, else `None`.
pub(crate) fn columns() -> Option<usize> {
    let mut size = libc::winsize { ws_row: 0, ws_col: 0, ws_xpixel: 0, ws_ypixel: 0 };
    // SAFETY: the request writes one `winsize`, or fails and writes nothing.
    let told = unsafe { libc::ioctl(libc::STDERR_FILENO, libc::TIOCGWINSZ, &raw mut size) };
    (told == 0 && size.ws_col != 0).then(|| size.ws_col.into())
}
