#![doc = include_str!("../README.md")]
//!
//! # A session
//! 1. The client connects, and sends [`greeting`] as its first frame.
//! 2. The agent answers with a [welcome](decode_welcome): its [`Hello`], or a [`Failure`] and the
//!    connection's end.
//! 3. The client sends a [`Call`]; the agent answers with one [`Reply`] or several of the same
//!    number. The last one's body [is the end](Body::is_last). The agent handles one request after
//!    another, in their order.
//! 4. The client ends the connection, or its process ends. The agent detaches all of its
//!    attachments that are not kept.
//!
//! [`Client`] does all of that. A client that begins a frame finishes it within five seconds, and
//! reads an answer within five seconds; the agent ends the connection otherwise. Between requests a
//! client may wait for as long as it likes.
//!
//! | limit | |
//! |---|---|
//! | a frame's payload | [`MAX_FRAME`], 128 KiB |
//! | descriptors with a frame | one, with its first byte |
//! | clients of a program | 8 |
//! | consumers of all clients, those of kept attachments included | 64 |
//! | a text to attach, a selector | 64 KiB |
//!
//! # Platforms
//! The messages and frames are the same everywhere. The socket, and with it [`Client`], is for
//! Linux.
#![deny(unsafe_code)]

mod error;
mod frame;
mod message;
mod output_file;

#[cfg(target_os = "linux")]
mod channel;
#[cfg(target_os = "linux")]
mod client;
#[cfg(target_os = "linux")]
mod directory;
#[cfg(target_os = "linux")]
mod discovery;
#[cfg(target_os = "linux")]
mod listener;
#[cfg(target_os = "linux")]
mod socket;

pub use error::{ClientError, DirectoryError, MAX_PATH};
pub use frame::{
    FrameError, MAGIC, MAX_FRAME, VERSION, after_greeting, decode_call, decode_reply, decode_welcome,
    encode_call, encode_part, encode_reply, encode_welcome, frame, greeting, payload_len,
};
pub use message::{
    Attach, Attached, AttachedConsumer, AttachmentInfo, Body, Call, ConsumerInfo, Done, Failure, FailureKind,
    Hello, OwnRules, Probe, ProbeField, Reply, ReportForm, Request, Status,
};
pub use output_file::OutputFile;
/// The values of reports, from `probe-report`.
pub use probe_report::{Cell, Document, Part, Row, View};
#[cfg(target_os = "linux")]
pub use {
    channel::{Channel, ChannelError, ReceivedFrame, writable_file},
    client::{Client, Liveness, Report, ReportValues},
    directory::{is_stale, own_directory, remove_all_stale, socket_path},
    discovery::{AgentSocket, sockets},
    listener::{BindError, Listener},
    socket::Peer,
};
