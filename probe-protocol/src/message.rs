//! The messages. A new version of the protocol may change them; see [`VERSION`](crate::VERSION).

use std::fmt;

use probe_report::Part;
use serde::{Deserialize, Serialize};

/// The program that answers, in its first frame.
///
/// ```
/// use probe_protocol::Hello;
///
/// fn shown(hello: &Hello) -> String {
///     format!("{} ({}), probe-runtime {}", hello.executable, hello.pid, hello.runtime)
/// }
/// # let hello = Hello { runtime: "0.1.0".into(), pid: 7, executable: "/bin/app".into() };
/// # assert_eq!(shown(&hello), "/bin/app (7), probe-runtime 0.1.0");
/// ```
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Hello {
    /// The version of `probe-runtime` in the program.
    pub runtime: String,
    /// The program's own process id. It differs from the client's view if the program runs in
    /// another namespace of processes.
    pub pid: u32,
    /// The program's file.
    pub executable: String,
}

/// A request, and the number that its replies carry.
///
/// ```
/// use probe_protocol::{Call, Request};
///
/// let call = Call { id: 1, request: Request::Status };
/// assert_eq!(call.id, 1);
/// ```
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Call {
    /// Chosen by the client. Replies carry the same number.
    pub id: u32,
    /// The request.
    pub request: Request,
}

/// A client's request.
///
/// ```
/// use probe_protocol::Request;
///
/// let all = Request::List { selector: String::new() };
/// assert_ne!(all, Request::List { selector: "net::**".to_owned() });
/// ```
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Request {
    /// Lists probes: [`Body::Probes`] several times, then [`Body::Done`].
    List {
        /// Selects probes; empty for all, also for functions that a block left out.
        selector: String,
    },
    /// Asks for the program's [`Status`].
    Status,
    /// Attaches consumers. The answer is [`Body::Attached`].
    Attach(Attach),
    /// Asks for a report: [`Body::Report`] or [`Body::Text`] several times, then [`Body::Done`]
    /// with its notes.
    Report {
        /// The attachment's number.
        attachment: u32,
        /// The consumer's place in the attachment's text, from 0.
        consumer: u32,
        /// The form in which it travels.
        form: ReportForm,
    },
    /// Writes what a flight recorder holds to the file whose descriptor comes with this frame. The
    /// answer is [`Body::Done`] with notes.
    Snapshot {
        /// The attachment's number.
        attachment: u32,
        /// The consumer's place in the attachment's text, from 0.
        consumer: u32,
        /// The ending of a trace's file: `pftrace`, `probetrace`, `json`, `firefox.json` or
        /// `folded`.
        format: String,
    },
    /// Makes the sites of an attachment latent, so that its reports no longer change. The answer is
    /// [`Body::Done`].
    Pause {
        /// The attachment's number.
        attachment: u32,
    },
    /// Makes the sites of a paused attachment active again. The answer is [`Body::Done`].
    Resume {
        /// The attachment's number.
        attachment: u32,
    },
    /// Ends an attachment. Its sites are latent when the answer comes, unless others use them:
    /// [`Body::Done`], with notes on anything that is missing from a trace's file.
    Detach {
        /// The attachment's number.
        attachment: u32,
    },
    /// Keeps an attachment when the connection ends. The answer is [`Body::Done`].
    Keep {
        /// The attachment's number.
        attachment: u32,
    },
    /// Ends the agent: detaches all attachments of clients, ends their connections, and removes the
    /// socket. The answer is [`Body::Done`], and then this connection ends, too.
    Shutdown {
        /// Refuses if there is another client or an attachment, or if the agent is kept.
        only_unused: bool,
    },
    /// Keeps an agent that was injected for clients, and would end with the last of them. The
    /// answer is [`Body::Done`].
    KeepAgent,
}

/// How a report travels.
///
/// ```
/// use probe_protocol::ReportForm;
///
/// let flame_graph = ReportForm::File { format: "svg".to_owned() };
/// assert_ne!(flame_graph, ReportForm::View);
/// ```
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[non_exhaustive]
pub enum ReportForm {
    /// The values that programs read: a [`Document`](probe_report::Document). A consumer of the
    /// program's own has none: its report in JSON comes as text.
    Document {
        /// Numbers of probes: the report may leave out the functions that have none of these, and
        /// has no notes about sites. Empty for all functions.
        only: Vec<u32>,
    },
    /// The report for people: a [`View`](probe_report::View), to be drawn.
    View,
    /// The content of a report's file, as text.
    File {
        /// The file's ending: one of the consumer's formats, such as `csv` or `svg`.
        format: String,
    },
}

/// Consumers to attach.
///
/// ```
/// use probe_protocol::Attach;
///
/// let attach = Attach { keep: true, ..Attach::new("net::**=latency, db::**=count") };
/// assert_eq!(attach.output, None);
/// ```
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Attach {
    /// Selectors and consumers, in the grammar of the variable `PROBES`, without triggers.
    pub spec: String,
    /// Whether the attachment outlives the connection.
    pub keep: bool,
    /// The name of the file whose descriptor comes with this frame. The text then asks for one
    /// `trace`, which is written to that file while the program runs. The ending chooses the
    /// format: `.pftrace` or `.probetrace`. It has at most 4096 bytes, and no control character.
    pub output: Option<String>,
}

impl Attach {
    /// Asks for these consumers, for as long as the connection lasts.
    pub fn new(spec: impl Into<String>) -> Self {
        Self { spec: spec.into(), keep: false, output: None }
    }
}

/// A reply, or a part of one.
///
/// ```
/// use probe_protocol::{Body, Done, Reply};
///
/// let reply = Reply { id: 1, body: Body::Done(Done::default()) };
/// assert!(reply.body.is_last());
/// ```
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Reply {
    /// The number of the request; 0 if the agent could not read one.
    pub id: u32,
    /// The content.
    pub body: Body,
}

/// The content of a reply.
///
/// ```
/// use probe_protocol::Body;
///
/// assert!(!Body::Text("a part of a report".to_owned()).is_last());
/// ```
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Body {
    /// Some of the probes of a list. More follow.
    Probes(Vec<Probe>),
    /// A part of a report. More follows.
    Text(String),
    /// The end of an answer.
    Done(Done),
    /// The program's status.
    Status(Status),
    /// The consumers are attached.
    Attached(Attached),
    /// The request failed.
    Failed(Failure),
    /// A part of a document or of a view. More follows.
    Report(Part<'static>),
}

impl Body {
    /// Returns whether this is the end of an answer.
    pub fn is_last(&self) -> bool {
        !matches!(self, Self::Probes(_) | Self::Text(_) | Self::Report(_))
    }
}

/// The end of an answer, and what the client should show beside it.
///
/// ```
/// assert!(probe_protocol::Done::default().notes.is_empty());
/// ```
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub struct Done {
    /// Lines that complete a report: a consumer that failed, hits that were not delivered, sites
    /// that were refused.
    pub notes: Vec<String>,
    /// Nanoseconds of CPU time that the program has used for this client since the end of the last
    /// such answer, but for sending this end.
    pub cpu_ns: u64,
}

/// One probe.
///
/// ```
/// use probe_protocol::Probe;
///
/// fn place(probe: &Probe) -> String {
///     format!("{}:{}", probe.file, probe.line)
/// }
/// # let probe = Probe { file: "a.rs".into(), line: 3, ..Probe::default() };
/// # assert_eq!(place(&probe), "a.rs:3");
/// ```
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub struct Probe {
    /// Its number in this run of the program.
    pub number: u32,
    /// The module path and the name, joined by `::`.
    pub path: String,
    /// `entry`, `exit` or `point`.
    pub kind: String,
    /// The source file.
    pub file: String,
    /// The source line, from 1.
    pub line: u32,
    /// The fields, in the order of a hit's values.
    pub fields: Vec<ProbeField>,
    /// Number of machine-code copies.
    pub sites: u32,
    /// `latent`, `active`, `held` or `foreign`.
    pub state: String,
    /// The file of the object that has it; empty for the executable, or if that is not known.
    pub object: String,
    /// Its group.
    pub group: Option<String>,
    /// The meaning of a hit.
    pub doc: Option<String>,
    /// The reason why a function in a block has no probe; `None` for a real probe.
    pub skipped: Option<String>,
}

/// One field of a probe.
///
/// ```
/// use probe_protocol::ProbeField;
///
/// let bytes = ProbeField { name: "bytes".to_owned(), ty: Some("u64".to_owned()) };
/// assert_eq!(bytes.ty.as_deref(), Some("u64"));
/// ```
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub struct ProbeField {
    /// Its name.
    pub name: String,
    /// The type of its values, such as `u64`; `None` if it is not known.
    pub ty: Option<String>,
}

/// Consumers that were attached.
///
/// ```
/// use probe_protocol::Attached;
///
/// let attached = Attached::default();
/// assert_eq!(attached.consumers.iter().map(|it| it.sites).sum::<u64>(), 0);
/// ```
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub struct Attached {
    /// The attachment's number.
    pub id: u32,
    /// The consumers, in the order of the text.
    pub consumers: Vec<AttachedConsumer>,
}

/// One consumer that was attached.
///
/// ```
/// use probe_protocol::AttachedConsumer;
///
/// let count = AttachedConsumer { consumer: "count".to_owned(), ..AttachedConsumer::default() };
/// assert_eq!(count.refused, 0);
/// ```
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub struct AttachedConsumer {
    /// Its selector.
    pub selector: String,
    /// Its name.
    pub consumer: String,
    /// The endings of the formats of its reports.
    pub formats: Vec<String>,
    /// Number of its probes.
    pub probes: u64,
    /// Number of its sites that are active.
    pub sites: u64,
    /// Number of its sites that were refused.
    pub refused: u64,
    /// Lines that the client should show: refused sites, and terms that match no probe.
    pub notes: Vec<String>,
}

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
    /// Whether it is a flight recorder. [`Snapshot`](Request::Snapshot) writes a copy of one
    /// to a file.
    pub has_snapshots: bool,
}

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
