//! The agent's end.
//!
//! As the program exits, the client that has [started](starter) it gets its last reports. The
//! socket's file goes, and the files of traces are whole, unless a file takes nothing for five
//! seconds.
//!
//! A client may ask for the end: nothing of the agent stays, but the library. An agent that was
//! brought for clients ends by itself with the last one. Life cycle: the listener ends, and its
//! thread notices ▸ other clients' connections end ▸ all attachments are detached ▸ the client that
//! has asked gets its answer, and its thread ends with the connection. Another agent may be started
//! then.

use std::mem;
use std::sync::Once;
use std::time::Instant;

use probe_protocol::FailureKind;

use super::answer::{Stop, failed};
use super::attachments::detach;
use super::state::{Session, lock};
use super::{PATIENCE, say, starter, wait_until};
use crate::engine::os;
use crate::engine::os::cancel::Uncancellable;
use crate::engine::os::fork;

/// Makes [`at_exit`] run.
pub(super) fn prepare_exit() {
    static AT_EXIT: Once = Once::new();
    AT_EXIT.call_once(|| {
        // Without it, the file stays as one that nobody serves.
        let _ = os::process::at_exit(at_exit);
    });
}

extern "C" fn at_exit() {
    let _whole = Uncancellable::new();
    starter::await_last_report();
    let (listener, attachments) = {
        let mut state = lock();
        if state.process != fork::process() {
            return;
        }
        (state.listener.take(), state.all().cloned().collect::<Vec<_>>())
    };
    if let Some(listener) = listener {
        listener.remove();
        // Its thread has a share of it, and still runs.
        mem::forget(listener);
    }
    // A file of a client's own file system may never take its last events.
    let begun = Instant::now();
    let left = || PATIENCE.saturating_sub(begun.elapsed());
    attachments.iter().flat_map(|it| it.flush(left())).for_each(|line| say(&line));
    // Other threads may still hit probes. The process ends, so nothing needs to be detached.
    mem::forget(attachments);
}

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
    if !wait_until(PATIENCE, || lock().listener.is_none()) {
        return Err(failed(FailureKind::Unable, "the agent's thread gets no time to end"));
    }
    Ok(notes)
}
