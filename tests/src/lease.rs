//! A file that nobody can open for a while, as one on a slow disk.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;

/// Chooses the signal that tells of others who wait.
const F_SETSIG: libc::c_int = 10;

/// A lease on a file. Opening the file waits until this is dropped, or for the seconds in
/// `/proc/sys/fs/lease-break-time`: 45, as a rule.
#[derive(Debug)]
pub struct Lease(#[expect(dead_code, reason = "the lease ends with it")] File);

impl Lease {
    /// Takes one on a file of this user that nobody has open.
    ///
    /// # Errors
    /// The system's: not all file systems have leases.
    pub fn take(path: &Path) -> io::Result<Self> {
        let file = File::options().read(true).write(true).open(path)?;
        let set = |command, argument: libc::c_int| {
            // SAFETY: both commands take a number.
            match unsafe { libc::fcntl(file.as_raw_fd(), command, argument) } {
                -1 => Err(io::Error::last_os_error()),
                _ => Ok(()),
            }
        };
        // The usual signal would end the process, and this one does nothing.
        set(F_SETSIG, libc::SIGURG)?;
        set(libc::F_SETLEASE, libc::F_WRLCK)?;
        Ok(Self(file))
    }
}
