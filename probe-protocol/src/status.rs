//! The state of a program, in the answer to a request for it.

use serde::{Deserialize, Serialize};

/// The program's state.
///
/// ```
/// use probe_protocol::Status;
///
/// let status = Status { probes: 4, ..Status::default() };
/// assert!(status.attachments.is_empty());
/// ```
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub struct Status {
    /// Number of probes.
    pub probes: u32,
    /// Number of threads; 0 if that is not known.
    pub threads: u32,
    /// Number of connected clients, this one included.
    pub clients: u32,
    /// The attachments of all clients, and those that were kept.
    pub attachments: Vec<AttachmentInfo>,
    /// Number of attachments that the program itself has made, and of those that are being made for
    /// clients.
    pub of_program: u32,
    /// Hits that the runtime could not deliver to any consumer.
    pub lost_hits: u64,
    /// Sites whose records can't be read.
    pub unreadable_records: u64,
    /// Objects whose probes have a later version.
    pub unreadable_objects: Vec<String>,
    /// The rules that the program follows by itself.
    pub rules: Option<OwnRules>,
}

/// The rules that a program follows by itself.
///
/// ```
/// use probe_protocol::OwnRules;
///
/// let rules = OwnRules { file: "/etc/app.rules".to_owned(), rules: 2, firings: 3 };
/// assert_eq!(format!("{} of {}", rules.rules, rules.file), "2 of /etc/app.rules");
/// ```
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub struct OwnRules {
    /// The file that they are read from.
    pub file: String,
    /// Number of rules.
    pub rules: u32,
    /// Number of firings of all of them so far.
    pub firings: u64,
}

/// One attachment of a client.
///
/// ```
/// use probe_protocol::AttachmentInfo;
///
/// fn shown(it: &AttachmentInfo) -> String {
///     format!("{} {}{}", it.id, it.spec, if it.is_kept { " (kept)" } else { "" })
/// }
/// # let it = AttachmentInfo { id: 3, spec: "**=count".into(), is_kept: true, ..Default::default() };
/// # assert_eq!(shown(&it), "3 **=count (kept)");
/// ```
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub struct AttachmentInfo {
    /// Its number.
    pub id: u32,
    /// Its text.
    pub spec: String,
    /// Whether it outlives the connection of its client.
    pub is_kept: bool,
    /// The process id of its client, as the program sees it.
    pub client: u32,
    /// Whether that client is connected.
    pub is_connected: bool,
    /// Milliseconds since it was attached.
    pub milliseconds: u64,
    /// Its consumers, in the order of the text.
    pub consumers: Vec<ConsumerInfo>,
}

/// One consumer of an attachment.
///
/// ```
/// use probe_protocol::ConsumerInfo;
///
/// let recorder = ConsumerInfo { name: "trace".into(), has_snapshots: true, ..Default::default() };
/// assert!(recorder.formats.is_empty());
/// ```
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub struct ConsumerInfo {
    /// Its name.
    pub name: String,
    /// The endings of the formats of its reports.
    pub formats: Vec<String>,
    /// Whether it is a flight recorder. [`Snapshot`](crate::Request::Snapshot) writes a copy of one
    /// to a file.
    pub has_snapshots: bool,
}
