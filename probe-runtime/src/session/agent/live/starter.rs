//! The client that has started this program, such as `probectl latency '**' -- ./app`: it sees all,
//! from the program's first hit to its last one.
//!
//! The program's parent is that client if `PROBECTL_PID` has the parent's id. Such a program waits
//! - at its agent's start, until the client has attached something,
//! - at its exit, until the client has its last reports, and ends the connection.
//!
//! It waits for no other client, and no longer than [`START_TIMEOUT`] and [`PATIENCE`].

use std::env;
use std::os::unix::process::parent_id;
use std::time::Duration;

use probe_protocol::{Body, Done};

use super::answer::Out;
use super::state::lock;
use super::{PATIENCE, say, wait_until};
use crate::engine::os::{fork, process};

/// The variable with the id of the process that is about to ask this program, or one below it.
const VARIABLE: &str = "PROBECTL_PID";
/// The time for the client to attach something.
const START_TIMEOUT: Duration = Duration::from_secs(10);

/// Returns the client, while it is this process's parent.
fn starter() -> Option<u32> {
    let parent = parent_id();
    let is_named = || env::var(VARIABLE).is_ok_and(|it| it.parse() == Ok(parent));
    (parent > 1 && is_named() && !process::has_raised_rights()).then_some(parent)
}

/// Waits until the client has attached something.
pub(super) fn await_attachment() {
    let Some(client) = starter() else { return };
    let is_done = || lock().was_used || parent_id() != client;
    if !wait_until(START_TIMEOUT, is_done) {
        say(&format!(
            "process {client} has attached nothing for {} s; the program goes on",
            START_TIMEOUT.as_secs()
        ));
    }
}

/// Tells the client that the program is about to exit, and waits until it has gone.
pub(super) fn await_last_report() {
    let Some(client) = starter() else { return };
    let connected = {
        let state = lock();
        if state.process != fork::process() {
            return;
        }
        state.client_of(client)
    };
    let Some((number, channel)) = connected else { return };
    // A client that has gone needs no report.
    if (Out { channel: &channel, id: 0 }).last(Body::Done(Done::default())).is_err() {
        return;
    }
    let is_done = || !lock().is_connected(number) || parent_id() != client;
    if !wait_until(PATIENCE, is_done) {
        say(&format!("process {client} has not taken its last report for {} s", PATIENCE.as_secs()));
    }
}
