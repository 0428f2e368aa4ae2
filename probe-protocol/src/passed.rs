//! The file that a client has opened and sent. Linux.

use std::fs::File;
use std::os::fd::OwnedFd;

use rustix::fs::{OFlags, fcntl_getfl};

use crate::failure::{Failure, FailureKind};

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
