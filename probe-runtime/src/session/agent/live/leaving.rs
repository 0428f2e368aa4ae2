//! The agent's end, which a client asks for: nothing of it stays, but the library. An agent that
//! was brought for clients ends by itself with the last one.
//!
//! Life cycle: the listener ends, and its thread notices ▸ other clients' connections end ▸ all
//! attachments are detached ▸ the client that has asked gets its answer, and its thread ends with
//! the connection. Another agent may be started then.

use std::thread;
use std::time::{Duration, Instant};

use probe_protocol::FailureKind;

use super::PATIENCE;
use super::answer::{Stop, failed};
use super::attachments::detach;
use super::state::{Session, lock};

/// The time between two looks at the listener's thread.
const LOOK: Duration = Duration::from_millis(1);

/// Ends the agent. Returns notes on the attachments that were detached.
pub(super) fn leave(session: Session, only_unused: bool) -> Result<Vec<String>, Stop> {
    let (others, attachments) = {
        let mut state = lock();
        let others = state.others(session.number);
        let attachments: Vec<_> = state.all().cloned().collect();
        let is_used = state.stays || !others.is_empty() || !attachments.is_empty();
        if only_unused && is_used {
            let why = "other clients use the agent, or have kept attachments, or it is to stay";
            return Err(failed(FailureKind::Denied, why));
        }
        if state.listener.is_some() && !state.end() {
            let why = "the program has closed the agent's socket, so its thread can't be told to end";
            return Err(failed(FailureKind::Unable, why));
        }
        (others, attachments)
    };
    others.iter().for_each(|channel| channel.end());
    let notes = attachments.into_iter().flat_map(detach).collect();
    let begun = Instant::now();
    while lock().listener.is_some() {
        if begun.elapsed() > PATIENCE {
            return Err(failed(FailureKind::Unable, "the agent's thread gets no time to end"));
        }
        thread::sleep(LOOK);
    }
    Ok(notes)
}
