//! The agent, on Linux.
//!
//! ```text
//! listening (a thread) ──▶ session (a thread for each client) ──▶ requests ──▶ control, spec
//!                  └──▶ state ◀──┘                                   └──▶ attachments
//! ```
//! One lock guards [the state](state): the connected clients, and their attachments. No thread
//! waits for another one while it holds the lock, and no consumer runs. The start makes the socket
//! under it, so that no forked child has one of which it knows nothing.

mod answer;
mod attachments;
mod described;
mod end;
mod filtered;
mod listening;
mod listing;
#[cfg(probe_backend = "patched")]
mod outside;
mod reporting;
mod requests;
mod ruling;
mod session;
mod starter;
mod state;

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::thread;
use std::time::{Duration, Instant};

use crate::engine::os;

pub(crate) use filtered::heed as heed_filters;
pub(super) use listening::start_here;
pub(crate) use ruling::follow;

/// The time within which a client must finish a frame that it has begun, and read an answer.
const PATIENCE: Duration = Duration::from_secs(5);

const MOST_CLIENTS: usize = 8;

/// The most consumers of all clients, those of kept attachments included. A status with all of them
/// fits into a frame, and so does the answer to a text with as many.
const MOST_CONSUMERS: usize = 64;

/// Bytes of probes, or of a report, in one frame. One more probe fits.
const PART: usize = 32 << 10;

/// The time between two looks of a thread that waits for others.
const POLL_INTERVAL: Duration = Duration::from_millis(1);

/// Waits until something is so, at most for this time. Returns whether it is.
fn wait_until(at_most: Duration, is_so: impl Fn() -> bool) -> bool {
    let begun = Instant::now();
    while !is_so() {
        if begun.elapsed() > at_most {
            return false;
        }
        thread::sleep(POLL_INTERVAL);
    }
    true
}

/// Writes a line to stderr.
fn say(line: &str) {
    os::stderr::print_line(&format!("PROBE_AGENT: {line}"));
}

/// Returns the number of threads of this process; 0 if it is not known.
fn threads() -> u64 {
    // A folder has a link from its parent, one from itself, and one from each folder in it.
    fs::metadata("/proc/self/task").map_or(0, |it| it.nlink().saturating_sub(2))
}
