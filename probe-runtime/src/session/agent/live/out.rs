//! The way to a client.

use std::time::Duration;

use probe_protocol::{Body, Channel, ChannelError, Done, Failure, Peer, Reply, encode_reply, encode_welcome};

use super::PATIENCE;
use super::stop::{Stop, bounded_lines};

/// A connected client.
#[derive(Clone, Copy)]
pub(super) struct Session {
    pub(super) number: u64,
    pub(super) peer: Peer,
}

/// The way to a client, for the answer to one request.
pub(super) struct Out<'a> {
    pub(super) channel: &'a Channel,
    pub(super) id: u32,
}

impl Out<'_> {
    /// Sends a part of the answer.
    pub(super) fn send(&self, body: Body) -> Result<(), Stop> {
        self.last(body).map_err(Stop::Channel)
    }

    /// Sends the end of the answer.
    pub(super) fn last(&self, body: Body) -> Result<(), ChannelError> {
        self.send_payload(&encode_reply(&Reply { id: self.id, body }))
    }

    pub(super) fn send_payload(&self, payload: &[u8]) -> Result<(), ChannelError> {
        self.channel.send(payload, None, PATIENCE)
    }
}

/// Returns the end of an answer. The session adds its CPU time.
pub(super) fn done(notes: impl IntoIterator<Item = String>) -> Body {
    Body::Done(Done { notes: bounded_lines(notes), cpu_ns: 0 })
}

/// Says why a client is not served. It need not read that.
pub(super) fn refuse(channel: &Channel, failure: Failure) {
    let _ = channel.send(&encode_welcome(&Err(failure)), None, Duration::ZERO);
    channel.end();
}
