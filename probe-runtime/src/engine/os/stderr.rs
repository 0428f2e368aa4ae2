//! Standard error, without the standard library's lock.
//!
//! Any thread may hold that lock while it calls `exit`, or while another thread forks. In the
//! forked child no thread then releases it. A message at the end of a process must not wait for it.

// Safety: relies on descriptor 2 being the file for the process's errors.
#![cfg_attr(all(unix, not(miri)), expect(unsafe_code, reason = "see above"))]

use std::io::Write;

use super::signal_mask::without_write_signals;

/// Writes a line, as far as the system accepts it. Output that other threads write at the same time
/// may come in between.
pub(crate) fn print_line(line: &str) {
    print(format!("{line}\n").as_bytes());
}

/// Writes all of `text`, as [`print_line`] does.
pub(crate) fn print(text: &[u8]) {
    #[cfg(all(unix, not(miri)))]
    // SAFETY: this `File` is never closed, and is only written to, as in the standard library.
    let mut stderr = std::mem::ManuallyDrop::new(unsafe {
        <std::fs::File as std::os::fd::FromRawFd>::from_raw_fd(libc::STDERR_FILENO)
    });
    #[cfg(not(all(unix, not(miri))))]
    let mut stderr = std::io::stderr();
    // If stderr is closed, or a file that gets no longer, there is no other place to write to.
    let _ = without_write_signals(|| stderr.write_all(text));
}

/// The columns of a terminal that does not know its width.
#[cfg(all(unix, not(miri)))]
const COLUMNS: usize = 80;

/// Returns the number of columns if standard error is a terminal, else `None`.
pub(crate) fn columns() -> Option<usize> {
    #[cfg(all(unix, not(miri)))]
    {
        let mut size = libc::winsize { ws_row: 0, ws_col: 0, ws_xpixel: 0, ws_ypixel: 0 };
        // SAFETY: the request writes one `winsize`, or fails and writes nothing.
        let told = unsafe { libc::ioctl(libc::STDERR_FILENO, libc::TIOCGWINSZ, &raw mut size) };
        let columns = if size.ws_col == 0 { COLUMNS } else { size.ws_col.into() };
        (told == 0).then_some(columns)
    }
    #[cfg(not(all(unix, not(miri))))]
    None
}
