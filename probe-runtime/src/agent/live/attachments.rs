//! One attachment of a client.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use probe_protocol::Peer;

#[cfg(feature = "trace")]
use crate::consumers::Trace;
use crate::spec::{SpecAttachment, SpecAttachments};

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

    /// Writes the events so far to the files of traces. Returns a line about each that can't be
    /// written.
    pub(super) fn flush(&self) -> Vec<String> {
        self.consumers.iter().filter_map(flush).collect()
    }

    /// Makes the sites latent, unless others use them, and detaches, unless another thread is about
    /// to: one that writes a report. Returns lines about missing parts of traces' files.
    pub(super) fn detach(self: Arc<Self>) -> Vec<String> {
        let writes = self.consumers.iter().any(is_written);
        if writes || Arc::strong_count(&self) != 1 {
            self.pause();
        }
        if writes { self.flush() } else { Vec::new() }
    }
}

#[cfg(feature = "trace")]
fn flush(consumer: &SpecAttachment) -> Option<String> {
    consumer.attachment::<Trace>()?.flush().err().map(|error| error.to_string())
}

/// Returns whether it writes a file while it runs.
#[cfg(feature = "trace")]
fn is_written(consumer: &SpecAttachment) -> bool {
    consumer.attachment::<Trace>().is_some_and(|trace| !trace.is_in_memory())
}

/// Returns whether it has events in memory, for a file.
#[cfg(feature = "trace")]
pub(super) fn has_snapshots(consumer: &SpecAttachment) -> bool {
    consumer.attachment::<Trace>().is_some_and(|trace| trace.is_in_memory())
}

#[cfg(not(feature = "trace"))]
fn flush(_: &SpecAttachment) -> Option<String> {
    None
}

#[cfg(not(feature = "trace"))]
fn is_written(_: &SpecAttachment) -> bool {
    false
}

#[cfg(not(feature = "trace"))]
pub(super) fn has_snapshots(_: &SpecAttachment) -> bool {
    false
}
