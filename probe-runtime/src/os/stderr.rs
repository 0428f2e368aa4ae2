//! Standard error, without the standard library's lock.
//!
//! That lock is anybody's: a thread may hold it while it calls `exit`, or while another forks, and
//! in the child nobody then gives it back. What is said where a process ends must not wait for it.

// Safety: relies on descriptor 2 being whatever the process has for its errors.
#![expect(unsafe_code, reason = "see above")]

use std::fs::File;
use std::io::{self, Write};
use std::mem::ManuallyDrop;
use std::os::fd::FromRawFd;

/// Writes all of it, as far as the system takes it; what other threads write at that moment may
/// come between.
pub(crate) fn write(text: &[u8]) -> io::Result<()> {
    // SAFETY: it is never closed here, and not asked for anything but to be written to, as the
    // standard library does.
    let mut stderr = ManuallyDrop::new(unsafe { File::from_raw_fd(libc::STDERR_FILENO) });
    stderr.write_all(text)
}

/// The columns of the terminal that it is; `None` of anything else.
pub(crate) fn columns() -> Option<usize> {
    let mut size = libc::winsize { ws_row: 0, ws_col: 0, ws_xpixel: 0, ws_ypixel: 0 };
    // SAFETY: the request writes one `winsize`, or fails and writes nothing.
    let told = unsafe { libc::ioctl(libc::STDERR_FILENO, libc::TIOCGWINSZ, &raw mut size) };
    (told == 0 && size.ws_col != 0).then(|| size.ws_col.into())
}
