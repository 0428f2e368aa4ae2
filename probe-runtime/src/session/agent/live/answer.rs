//! Answers: the way to a client, the ways in which a request ends early, and bounds of texts.

use std::time::Duration;

use probe_protocol::{
    Body, Channel, ChannelError, Done, Failure, FailureKind, Reply, encode_reply, encode_welcome,
};

use super::PATIENCE;
use crate::engine::error::Error;
use probe_lang::error::floor_char_boundary;

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

/// A request that ends early.
#[derive(Debug)]
pub(super) enum Stop {
    /// The client is told why.
    Failed(Failure),
    /// The connection has ended.
    Channel(ChannelError),
}

impl From<Failure> for Stop {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        let message = bounded(error.to_string());
        let (kind, at) = match error {
            Error::Selector(error) => (FailureKind::Malformed, Some(error.parse_error().at)),
            Error::Spec { at, .. } => (FailureKind::Malformed, Some(at)),
            Error::NoMatch { .. } | Error::Skipped { .. } => (FailureKind::NoMatch, None),
            Error::Refused(_) => (FailureKind::Refused, None),
            _ => (FailureKind::Unable, None),
        };
        let at = at.and_then(|at| u32::try_from(at).ok());
        Self::Failed(Failure { kind, message, at })
    }
}

pub(super) fn failed(kind: FailureKind, message: impl Into<String>) -> Stop {
    Stop::Failed(Failure::new(kind, message))
}

/// The most bytes of a text of one line, or of a few.
const MOST: usize = 8 << 10;

const MOST_LINES: usize = 8;

/// Cuts a text, so that it fits into a frame with others.
pub(super) fn bounded(text: String) -> String {
    cut(text, MOST)
}

pub(super) fn cut(mut text: String, most: usize) -> String {
    if text.len() > most {
        text.truncate(floor_char_boundary(&text, most));
        text.push('…');
    }
    text
}

/// Cuts lines, and says how many are left out.
pub(super) fn bounded_lines(lines: impl IntoIterator<Item = String>) -> Vec<String> {
    let mut lines = lines.into_iter();
    let mut some: Vec<_> = lines.by_ref().take(MOST_LINES).map(bounded).collect();
    let more = lines.count();
    if more != 0 {
        some.push(format!("and {more} more notes"));
    }
    some
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_are_cut_between_characters() {
        assert_eq!(cut("éé".to_owned(), 3), "é…");
        assert_eq!(cut("abc".to_owned(), 3), "abc");
        let lines = bounded_lines((0..10).map(|it| it.to_string()));
        assert_eq!((lines.len(), lines[8].as_str()), (9, "and 2 more notes"));
    }
}
