//! One attachment of a client.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use probe_protocol::Peer;

use super::state::lock;
#[cfg(feature = "trace")]
use crate::consumers::Trace;
use crate::session::spec::{SpecAttachment, SpecAttachments};

/// The consumers of one request.
pub(super) struct ClientAttachment {
    pub(super) id: u32,
    pub(super) spec: String,
    /// The number of its client.
    pub(super) client: u64,
    pub(super) peer: Peer,
    pub(super) since: Instant,
    is_kept: AtomicBool,
    pub(super) consumers: SpecAttachments,
}

impl ClientAttachment {
    pub(super) fn new(
        id: u32,
        spec: String,
        client: u64,
        peer: Peer,
        is_kept: bool,
        consumers: SpecAttachments,
    ) -> Self {
        Self { id, spec, client, peer, since: Instant::now(), is_kept: AtomicBool::new(is_kept), consumers }
    }

    pub(super) fn is_kept(&self) -> bool {
        self.is_kept.load(Ordering::Relaxed)
    }

    pub(super) fn keep(&self) {
        self.is_kept.store(true, Ordering::Relaxed);
    }

    pub(super) fn pause(&self) {
        self.consumers.iter().for_each(|it| it.reported().pause());
    }

    /// Writes the events so far to the files of traces, within this time each. Returns a line about
    /// each file that lacks some.
    pub(super) fn flush(&self, at_most: Duration) -> Vec<String> {
        self.consumers.iter().filter_map(|it| flush(it, at_most)).collect()
    }
}

/// Detaches, unless another thread is about to: one that writes a report. The attachment is in the
/// list until its sites are latent, or are others'. Returns lines about missing parts of traces'
/// files.
pub(super) fn detach(attachment: Arc<ClientAttachment>) -> Vec<String> {
    attachment.pause();
    let missing = attachment.flush(Duration::MAX);
    // The list's share goes first, so that this one is the last: the lock is not held while
    // detaching waits for hits.
    lock().remove(attachment.id);
    drop(attachment);
    missing
}

/// Writes the events so far to a trace's file. Returns a line if the file lacks some.
#[cfg(feature = "trace")]
pub(super) fn flush(consumer: &SpecAttachment, at_most: Duration) -> Option<String> {
    consumer.attachment::<Trace>()?.flush_within(at_most).err().map(|error| error.to_string())
}

/// Returns whether it has events in memory, for a file.
#[cfg(feature = "trace")]
pub(super) fn has_snapshots(consumer: &SpecAttachment) -> bool {
    consumer.attachment::<Trace>().is_some_and(|trace| trace.is_in_memory())
}

#[cfg(not(feature = "trace"))]
pub(super) fn flush(_: &SpecAttachment, _: Duration) -> Option<String> {
    None
}

#[cfg(not(feature = "trace"))]
pub(super) fn has_snapshots(_: &SpecAttachment) -> bool {
    false
}
