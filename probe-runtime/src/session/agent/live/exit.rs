//! The program's end: the socket's file goes, and the files of traces are whole, unless a file
//! takes nothing for five seconds.

use std::mem;
use std::sync::Once;
use std::time::Instant;

use super::state::lock;
use super::{PATIENCE, say};
use crate::engine::os;
use crate::engine::os::cancel::Uncancellable;
use crate::engine::os::fork;

/// Makes [`at_exit`] run.
pub(super) fn prepare() {
    static AT_EXIT: Once = Once::new();
    AT_EXIT.call_once(|| {
        // Without it, the file stays as one that nobody serves.
        let _ = os::process::at_exit(at_exit);
    });
}

extern "C" fn at_exit() {
    let _whole = Uncancellable::new();
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
