//! Frames and messages as bytes. Pure.
//!
//! A frame is its payload's length, as four bytes with the lowest first, and the payload. The first
//! frame of each side begins with [`MAGIC`] and the version, in every version of the protocol.

use std::error::Error;
use std::fmt;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::message::{Call, Failure, Hello, Reply};

/// The version of the protocol. Both sides must have the same one: messages do not describe
/// themselves.
///
/// ```
/// assert_eq!(probe_protocol::VERSION, 2);
/// ```
pub const VERSION: u16 = 2;

/// The first bytes of both sides' first frames.
///
/// ```
/// assert!(probe_protocol::greeting().starts_with(probe_protocol::MAGIC));
/// ```
pub const MAGIC: &[u8; 8] = b"lprobes\0";

/// The longest payload of a frame, in bytes. A longer one ends the connection.
///
/// ```
/// assert_eq!(probe_protocol::MAX_FRAME, 131_072);
/// ```
pub const MAX_FRAME: usize = 128 << 10;

/// The bytes of a frame's length.
pub(crate) const HEADER_BYTES: usize = 4;

/// The reason why bytes are no frame or no message.
///
/// ```
/// use probe_protocol::{FrameError, decode_call};
///
/// assert_eq!(decode_call(&[]), Err(FrameError::Malformed));
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum FrameError {
    /// The payload is longer than [`MAX_FRAME`].
    TooLong(usize),
    /// The payload is not a message, or more than one.
    Malformed,
    /// The first frame does not begin with [`MAGIC`].
    Foreign,
    /// The other side speaks this version of the protocol.
    Version(u16),
}

impl fmt::Display for FrameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLong(bytes) => write!(f, "a frame of {bytes} bytes; {MAX_FRAME} are the most"),
            Self::Malformed => f.write_str("a message that can't be read"),
            Self::Foreign => f.write_str("the other side does not speak this protocol"),
            Self::Version(other) => {
                let newer = if *other > VERSION { "this side" } else { "the other side" };
                write!(
                    f,
                    "the other side speaks version {other} of the protocol, and this side {VERSION}; update {newer}"
                )
            }
        }
    }
}

impl Error for FrameError {}

/// Returns the payload's length from a frame's first bytes.
///
/// # Errors
/// [`FrameError::TooLong`].
///
/// ```
/// use probe_protocol::{FrameError, payload_len};
///
/// assert_eq!(payload_len([3, 1, 0, 0]), Ok(259));
/// assert_eq!(payload_len([0, 0, 16, 0]), Err(FrameError::TooLong(1 << 20)));
/// ```
pub fn payload_len(header: [u8; 4]) -> Result<usize, FrameError> {
    let len = u32::from_le_bytes(header) as usize;
    if len > MAX_FRAME { Err(FrameError::TooLong(len)) } else { Ok(len) }
}

/// Returns a frame with this payload.
///
/// # Errors
/// [`FrameError::TooLong`].
///
/// ```
/// assert_eq!(probe_protocol::frame(b"ab").unwrap(), [2, 0, 0, 0, b'a', b'b']);
/// ```
pub fn frame(payload: &[u8]) -> Result<Vec<u8>, FrameError> {
    let too_long = FrameError::TooLong(payload.len());
    let len = u32::try_from(payload.len()).ok().filter(|_| payload.len() <= MAX_FRAME).ok_or(too_long)?;
    Ok([&len.to_le_bytes(), payload].concat())
}

/// Returns the payload of a client's first frame.
///
/// ```
/// assert_eq!(probe_protocol::greeting(), *b"lprobes\0\x02\x00");
/// ```
pub fn greeting() -> [u8; 10] {
    let mut greeting = [0; 10];
    greeting[..8].copy_from_slice(MAGIC);
    greeting[8..].copy_from_slice(&VERSION.to_le_bytes());
    greeting
}

/// Checks the beginning of a first frame, and returns the rest of its payload.
///
/// # Errors
/// [`FrameError::Foreign`] and [`FrameError::Version`].
///
/// ```
/// use probe_protocol::{FrameError, after_greeting};
///
/// assert_eq!(after_greeting(b"lprobes\0\x02\x00rest"), Ok(&b"rest"[..]));
/// assert_eq!(after_greeting(b"lprobes\0\x01\x00"), Err(FrameError::Version(1)));
/// assert_eq!(after_greeting(b"GET / HTTP/1.1"), Err(FrameError::Foreign));
/// ```
pub fn after_greeting(payload: &[u8]) -> Result<&[u8], FrameError> {
    let rest = payload.strip_prefix(MAGIC).ok_or(FrameError::Foreign)?;
    let (version, rest) = rest.split_first_chunk().ok_or(FrameError::Foreign)?;
    match u16::from_le_bytes(*version) {
        VERSION => Ok(rest),
        other => Err(FrameError::Version(other)),
    }
}

/// Returns the payload of the agent's first frame: its greeting, or why it does not serve this
/// client.
///
/// ```
/// use probe_protocol::{Failure, FailureKind, decode_welcome, encode_welcome};
///
/// let refused = Err(Failure::new(FailureKind::Limit, "8 clients are connected"));
/// assert_eq!(decode_welcome(&encode_welcome(&refused)), Ok(refused));
/// ```
pub fn encode_welcome(welcome: &Result<Hello, Failure>) -> Vec<u8> {
    [&greeting()[..], &encode(welcome)].concat()
}

/// Reads the payload of the agent's first frame.
///
/// # Errors
/// [`FrameError`], but for [`FrameError::TooLong`].
///
/// ```
/// use probe_protocol::{FrameError, decode_welcome};
///
/// assert_eq!(decode_welcome(b"lprobes\0\x01\x00"), Err(FrameError::Version(1)));
/// ```
pub fn decode_welcome(payload: &[u8]) -> Result<Result<Hello, Failure>, FrameError> {
    decode(after_greeting(payload)?)
}

/// Returns the payload of a request's frame.
///
/// ```
/// use probe_protocol::{Call, Request, decode_call, encode_call};
///
/// let call = Call { id: 7, request: Request::Detach { attachment: 3 } };
/// assert_eq!(decode_call(&encode_call(&call)), Ok(call));
/// ```
pub fn encode_call(call: &Call) -> Vec<u8> {
    encode(call)
}

/// Reads a request.
///
/// # Errors
/// [`FrameError::Malformed`].
///
/// ```
/// use probe_protocol::{Request, decode_call};
///
/// assert_eq!(decode_call(&[7, 1]).unwrap().request, Request::Status);
/// assert!(decode_call(&[7, 1, 0]).is_err());
/// ```
pub fn decode_call(payload: &[u8]) -> Result<Call, FrameError> {
    decode(payload)
}

/// Returns the payload of a reply's frame.
///
/// ```
/// use probe_protocol::{Body, Reply, decode_reply, encode_reply};
///
/// let reply = Reply { id: 7, body: Body::Text("3 hits".to_owned()) };
/// assert_eq!(decode_reply(&encode_reply(&reply)), Ok(reply));
/// ```
pub fn encode_reply(reply: &Reply) -> Vec<u8> {
    encode(reply)
}

/// Reads a reply.
///
/// # Errors
/// [`FrameError::Malformed`].
///
/// ```
/// assert!(probe_protocol::decode_reply(&[1, 99]).is_err());
/// ```
pub fn decode_reply(payload: &[u8]) -> Result<Reply, FrameError> {
    decode(payload)
}

fn encode(message: &impl Serialize) -> Vec<u8> {
    postcard::to_allocvec(message)
        .expect("messages consist of numbers, texts and lists, whose lengths are known")
}

fn decode<M: DeserializeOwned>(payload: &[u8]) -> Result<M, FrameError> {
    match postcard::take_from_bytes(payload) {
        Ok((message, [])) => Ok(message),
        _ => Err(FrameError::Malformed),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{Attach, Body, FailureKind, Probe, ProbeField, Request, Status};
    use proptest::prelude::*;

    /// The frames of the example in `docs/protocol.md`, and each choice's number there.
    #[test]
    fn messages_are_as_documented() {
        let document = include_str!("../docs/protocol.md");
        let documented = |side: &str| -> Vec<Vec<u8>> {
            let frames = document.lines().filter_map(|line| line.strip_prefix(side)?.strip_prefix(' '));
            let bytes =
                |line: &str| line.split_whitespace().map(|it| u8::from_str_radix(it, 16).unwrap()).collect();
            frames.map(bytes).collect()
        };
        let hello = Hello { runtime: "0.1.0".into(), pid: 7, executable: "/bin/app".into() };
        let status = Status { probes: 3, threads: 4, clients: 1, ..Status::default() };
        let calls = [greeting().to_vec(), encode_call(&Call { id: 1, request: Request::Status })];
        let replies =
            [encode_welcome(&Ok(hello)), encode_reply(&Reply { id: 1, body: Body::Status(status) })];
        assert_eq!(documented("client "), calls.map(|it| frame(&it).unwrap()));
        assert_eq!(documented("agent "), replies.map(|it| frame(&it).unwrap()));
        assert_eq!(encode_call(&Call { id: 300, request: Request::Keep { attachment: 1 } }), [0xac, 2, 8, 1]);
        let attach = Request::Attach(Attach { keep: true, output: Some("b".into()), ..Attach::new("a") });
        assert_eq!(encode_call(&Call { id: 1, request: attach }), [1, 2, 1, b'a', 1, 1, 1, b'b']);
        let failure = Failure { kind: FailureKind::Internal, message: "a".into(), at: Some(3) };
        let failed = Reply { id: 0, body: Body::Failed(failure) };
        assert_eq!(encode_reply(&failed), [0, 5, 9, 1, b'a', 1, 3]);
        let field = ProbeField { name: "n".into(), ty: None };
        let probe = Probe { fields: vec![field], group: Some("g".into()), ..Probe::default() };
        let probes = Reply { id: 1, body: Body::Probes(vec![probe]) };
        let of_probe = [0, 0, 0, 0, 0, 1, 1, b'n', 0, 0, 0, 0, 1, 1, b'g', 0, 0];
        assert_eq!(encode_reply(&probes), [&[1, 0, 1][..], &of_probe].concat());
    }

    proptest! {
        /// A message that was read is the same once it was written and read again; nothing panics.
        #[test]
        fn any_bytes_are_a_message_or_an_error(payload in proptest::collection::vec(any::<u8>(), 0..200)) {
            if let Ok(call) = decode_call(&payload) {
                prop_assert_eq!(decode_call(&encode_call(&call)), Ok(call));
            }
            if let Ok(reply) = decode_reply(&payload) {
                prop_assert_eq!(decode_reply(&encode_reply(&reply)), Ok(reply));
            }
            let _ = decode_welcome(&[&greeting()[..], &payload].concat());
            let _ = after_greeting(&payload);
        }
    }
}
