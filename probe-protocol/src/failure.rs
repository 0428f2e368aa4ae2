//! The reasons why requests fail.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The reason why a request failed.
///
/// ```
/// use probe_protocol::{Failure, FailureKind};
///
/// let failure = Failure::new(FailureKind::NoMatch, "no probe matches `net`");
/// assert_eq!(failure.to_string(), "no probe matches `net`");
/// ```
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Failure {
    /// The kind of the reason.
    pub kind: FailureKind,
    /// The failure, and the correct form or a remedy.
    pub message: String,
    /// For a malformed text, the byte where the mistake is.
    pub at: Option<u32>,
}

impl Failure {
    /// Makes one without a place.
    pub fn new(kind: FailureKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), at: None }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

/// Kinds of failures, for exit codes.
///
/// ```
/// use probe_protocol::FailureKind;
///
/// fn is_mine(kind: FailureKind) -> bool {
///     matches!(kind, FailureKind::Malformed | FailureKind::NoMatch)
/// }
/// # assert!(is_mine(FailureKind::NoMatch));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[non_exhaustive]
pub enum FailureKind {
    /// A text or a format is malformed.
    Malformed,
    /// A selector names no probe.
    NoMatch,
    /// No site could be activated.
    Refused,
    /// The consumer or the system refused.
    Unable,
    /// There is no such attachment, or no such consumer in it.
    Unknown,
    /// Another client has the attachment, or the client may not connect.
    Denied,
    /// Too many clients or attachments.
    Limit,
    /// The file of a trace can't be written.
    File,
    /// The frame or the message is malformed. The agent ends the connection.
    Protocol,
    /// The agent has a bug.
    Internal,
}
