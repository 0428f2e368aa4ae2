//! One caller at a time: two would use the same memory in the process, and load a library twice.
//!
//! The turn is a name of the network's namespace. Two callers in two of these don't see each other.

use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::thread;
use std::time::{Duration, Instant};

use crate::error::InjectError;

/// The time between two tries.
const LOOK: Duration = Duration::from_millis(2);

/// The right to call something in a process. A name without a file, which goes with its process.
#[derive(Debug)]
pub struct Turn {
    _socket: UnixListener,
}

impl Turn {
    /// Waits for the turn.
    pub fn take(pid: u32, within: Duration) -> Result<Self, InjectError> {
        let begun = Instant::now();
        let system = |error| InjectError::System { pid, step: "its turn can't be taken", error };
        let address =
            SocketAddr::from_abstract_name(format!("latent-probes/inject/{pid}")).map_err(system)?;
        loop {
            match UnixListener::bind_addr(&address) {
                Ok(socket) => return Ok(Self { _socket: socket }),
                Err(error) if error.kind() != io::ErrorKind::AddrInUse => return Err(system(error)),
                Err(_) if begun.elapsed() > within => return Err(InjectError::Busy(pid)),
                Err(_) => thread::sleep(LOOK),
            }
        }
    }
}
