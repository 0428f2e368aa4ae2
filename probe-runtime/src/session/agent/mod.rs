//! Asking a running program from outside: other processes of the same user, or of root, list its
//! probes, attach consumers, and read reports, over a socket. The crate `probe-protocol` has a
//! client, and `docs/protocol.md` describes the protocol.
//!
//! ```text
//! PROBE_AGENT=1 ./app        # in a program whose `main` holds the guard of `init_from_env`
//! ```
//!
//! Life cycle: [`start`] makes the socket `$XDG_RUNTIME_DIR/latent-probes/PID.sock` (or
//! `/tmp/latent-probes-UID/PID.sock`) and a thread that waits for clients ▸ each client has a
//! thread, which answers one request after another ▸ a client's attachments end with its
//! connection, unless it keeps them ▸ the socket's file goes when the program exits.
//!
//! # Cost
//! Nothing on a hit, beyond the consumers that clients attach. The thread `probe-agent` sleeps in
//! the kernel until a client connects, so an idle agent wakes up 0 times a second. Starting it
//! takes some 100 µs.
//!
//! No thread of the program waits for a client, but for one that has started the program, at its
//! start and its exit (`docs/protocol.md`). A client that does not read its answers, or does
//! not finish a request, is disconnected after five seconds, which a line on stderr says. The
//! program's end waits for the last events in files that clients have opened, at most five seconds
//! for all of them.
//!
//! # Processes
//! - A forked child has no agent, does not serve its parent's socket, and has none of the
//!   attachments of its parent's clients: their sites are latent there. It may call [`start`]
//!   itself, and then has a socket of its own. The child of a bare `clone` system call keeps its
//!   parent's descriptors open until it does.
//! - A program may close all descriptors by their numbers, and get the same numbers for its own
//!   files. The agent ends its connections then, closes none of these files, and may be started
//!   again once its thread has noticed: when the next client connects.
//! - A program that becomes another one (`exec`) leaves the socket's file behind, with nobody
//!   behind it. So does one that is killed. The next client that looks for the process removes it,
//!   and so does the next agent of the same user.
//!
//! # Rules
//! `PROBE_RULES=FILE` lets the program follow rules by itself, in the thread `probe-rules`. They
//! need no client, and `PROBE_AGENT` may be unset. See `docs/rules.md`.
//!
//! # Permission
//! The folder is its owner's alone (mode 0700), and is not used otherwise. A client must run as the
//! program's effective user, or as root. A program with raised rights (setuid, setgid,
//! capabilities) ignores the variable. Clients attach the same consumers as the variable `PROBES`,
//! but for the program's own that do not allow it (`Reporter::FOR_CLIENTS`). No file is written by
//! its name: a client opens its files, and passes them on.

#[cfg(probe_agent)]
mod client_rules;
#[cfg(probe_agent)]
mod live;

#[cfg(probe_agent)]
pub(crate) use client_rules::read_rules;
#[cfg(probe_agent)]
use live::start_here;
#[cfg(probe_agent)]
pub(crate) use live::{follow, heed_filters};

use std::path::PathBuf;

use crate::engine::error::Error;

/// Starts the agent of this process, and returns its socket's path. If there is one already,
/// nothing changes.
///
/// # Errors
/// [`Error::Agent`] if there is no safe folder for the socket, if its path is too long, if another
/// file has its name, on systems other than Linux, or in a program that was built without probes.
/// [`Error::Thread`] if its thread can't be started.
///
/// ```
/// # // Not in the folder of the user who runs this test.
/// # let folder = std::env::temp_dir().join(format!("agent-{}", std::process::id()));
/// # std::os::unix::fs::DirBuilderExt::mode(&mut std::fs::DirBuilder::new(), 0o700).create(&folder).unwrap();
/// # unsafe { std::env::set_var("XDG_RUNTIME_DIR", &folder) };
/// # #[cfg(target_os = "linux")] {
/// let socket = probe_runtime::agent::start()?;
/// assert!(socket.exists());
/// assert_eq!(probe_runtime::agent::start()?, socket);
/// # std::fs::remove_dir_all(folder).unwrap();
/// # }
/// # Ok::<(), probe_runtime::Error>(())
/// ```
pub fn start() -> Result<PathBuf, Error> {
    start_here()
}

/// Refuses: there are no probes, or no such sockets.
#[cfg(not(probe_agent))]
fn start_here() -> Result<PathBuf, Error> {
    let problem = if cfg!(probe_backend = "off") {
        "this program was built without probes"
    } else {
        "only Linux has the sockets that tell who connects"
    };
    Err(Error::Agent { problem: problem.to_owned() })
}
