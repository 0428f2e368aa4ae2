//! Frames and messages as bytes. Pure.
//!
//! A frame is its payload's length, as four bytes with the lowest first, and the payload. The first
//! frame of each side begins with [`MAGIC`] and the version, in every version of the protocol.

use std::error::Error;
use std::fmt;

use probe_report::Part;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::message::{Call, Failure, Hello, Reply};

/// The version of the protocol. Both sides must have the same one: messages do not describe
/// themselves.
///
/// ```
/// assert_eq!(probe_protocol::VERSION, 3);
/// ```
pub const VERSION: u16 = 3;

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
/// assert_eq!(probe_protocol::greeting(), *b"lprobes\0\x03\x00");
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
/// assert_eq!(after_greeting(b"lprobes\0\x03\x00rest"), Ok(&b"rest"[..]));
/// assert_eq!(after_greeting(b"lprobes\0\x02\x00"), Err(FrameError::Version(2)));
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
/// assert_eq!(decode_welcome(b"lprobes\0\x02\x00"), Err(FrameError::Version(2)));
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

/// Returns the payload of a reply with a part of a report, without a copy of its values.
///
/// ```
/// use probe_protocol::{Body, Part, Reply, encode_part, encode_reply};
///
/// let part = Part::Notes(vec!["3 calls were not measured".to_owned()]);
/// let copied = Reply { id: 7, body: Body::Report(part.clone()) };
/// assert_eq!(encode_part(7, &part), encode_reply(&copied));
/// ```
pub fn encode_part(id: u32, part: &Part<'_>) -> Vec<u8> {
    /// The number of `Body::Report` among its choices.
    const REPORT: u32 = 6;
    encode(&(id, REPORT, part))
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
    use crate::message::{Attach, Body, FailureKind, Probe, ProbeField, ReportForm, Request, Status};
    use probe_report::{Bound, Cell, Document, Histogram, Place, Row, Shown, TableCell, View};
    use proptest::prelude::*;
    use std::time::Duration;

    /// The frames of the example in `docs/protocol.md`, and each choice's number there.
    #[test]
    fn messages_are_as_documented() {
        let document = include_str!("../docs/protocol.md");
        let documented = |side: &str| -> Vec<Vec<u8>> {
            let frames = document.lines().filter_map(|line| line.strip_prefix(side)?.strip_prefix(' '));
            let digits = |line: &str| line.split_whitespace().collect::<String>();
            let byte = |at: &[u8]| u8::from_str_radix(str::from_utf8(at).unwrap(), 16).unwrap();
            frames.map(|line| digits(line).as_bytes().chunks(2).map(byte).collect()).collect()
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
        let forms = [
            (ReportForm::Document { only: vec![9] }, &[0, 1, 9][..]),
            (ReportForm::View, &[1]),
            (ReportForm::File { format: "csv".into() }, &[2, 3, b'c', b's', b'v']),
        ];
        for (form, bytes) in forms {
            let request = Request::Report { attachment: 4, consumer: 0, form };
            assert_eq!(encode_call(&Call { id: 1, request }), [&[1, 3, 4, 0][..], bytes].concat());
        }
        let failure = Failure { kind: FailureKind::Internal, message: "a".into(), at: Some(3) };
        let failed = Reply { id: 0, body: Body::Failed(failure) };
        assert_eq!(encode_reply(&failed), [0, 5, 9, 1, b'a', 1, 3]);
        let field = ProbeField { name: "n".into(), ty: None };
        let probe = Probe { fields: vec![field], group: Some("g".into()), ..Probe::default() };
        let probes = Reply { id: 1, body: Body::Probes(vec![probe]) };
        let of_probe = [0, 0, 0, 0, 0, 1, 1, b'n', 0, 0, 0, 0, 1, 1, b'g', 0, 0];
        assert_eq!(encode_reply(&probes), [&[1, 0, 1][..], &of_probe].concat());
    }

    /// The structures of reports, by the numbers that the document has.
    #[test]
    fn reports_are_as_documented() {
        let sent = |part: Part<'static>, bytes: &[u8]| {
            let reply = Reply { id: 1, body: Body::Report(part) };
            let expected = [&[1, 6], bytes].concat();
            assert_eq!(encode_reply(&reply), expected);
            assert_eq!(decode_reply(&expected), Ok(reply));
        };
        let cells = [
            (Cell::Nothing, &[0][..]),
            (Cell::from("a"), &[1, 1, b'a']),
            (Cell::Number(300), &[2, 0xac, 2]),
            (Cell::Integer(-1), &[3, 1]),
            (Cell::Decimal(1.0), &[4, 0, 0, 0, 0, 0, 0, 0xf0, 0x3f]),
            (Cell::Flag(true), &[5, 1]),
            (Cell::Seconds(Duration::new(3, 7)), &[6, 3, 7]),
            (Cell::Texts(vec!["a".into()]), &[7, 1, 1, b'a']),
            (Cell::Row(Row::new().with("b", true)), &[8, 1, 1, b'b', 5, 1]),
            (Cell::Rows(vec![Row::new()]), &[9, 1, 0]),
        ];
        for (cell, bytes) in cells {
            sent(Part::Head(Row::new().with("n", cell)), &[&[0, 1, 1, b'n'], bytes].concat());
        }
        sent(Part::Rows(vec![Row::new(), Row::new()]), &[1, 2, 0, 0]);
        sent(Part::Rest(Row::new()), &[2, 0]);
        sent(Part::Text("a".into()), &[3, 1, b'a']);
        sent(Part::Heading(vec!["h".into()]), &[4, 1, 1, b'h']);
        let shown = [
            (Shown::Nothing, &[0][..]),
            (Shown::Text("a".into()), &[1, 1, b'a']),
            (Shown::Name { path: "p".into(), file: "f".into(), line: 3 }, &[2, 1, b'p', 1, b'f', 3]),
            (Shown::Number(7), &[3, 7]),
            (Shown::Integer(1), &[4, 2]),
            (Shown::Decimal(0.0), &[5, 0, 0, 0, 0, 0, 0, 0, 0]),
            (Shown::Mean(0.0), &[6, 0, 0, 0, 0, 0, 0, 0, 0]),
            (Shown::Fixed(0.0), &[7, 0, 0, 0, 0, 0, 0, 0, 0]),
            (Shown::Share(0.0), &[8, 0, 0, 0, 0, 0, 0, 0, 0]),
            (Shown::Time(9), &[9, 9]),
            (Shown::Rate(9), &[10, 9]),
            (Shown::Bar(9), &[11, 9]),
        ];
        for (value, bytes) in shown {
            let cell = TableCell::bounded(Bound::AtLeast, value);
            sent(Part::Cells(vec![cell]), &[&[5, 1, 2], bytes].concat());
        }
        let place = Place { name: "a".into(), depth: 2, is_thread: true, below: 9, ..Place::default() };
        sent(Part::Places(vec![place]), &[6, 1, 1, b'a', 0, 0, 1, 2, 0, 0, 0, 0, 0, 0, 0, 9]);
        let histogram = Histogram {
            path: "p".into(),
            file: "".into(),
            line: 1,
            keys: vec![("k".into(), "v".into())],
            hits: 3,
            buckets: vec![(1_u64.into(), 2_u64.into(), 3)],
        };
        let bytes = [7, 1, 1, b'p', 0, 1, 1, 1, b'k', 1, b'v', 3, 1, 0, 3, 1, 0, 3, 2, 3];
        sent(Part::Histograms(vec![histogram]), &bytes);
        sent(Part::Notes(vec!["n".into()]), &[8, 1, 1, b'n']);
    }

    /// Rows in rows in rows would take as much of the reader's stack as a program likes.
    #[test]
    fn rows_in_cells_have_no_rows() {
        let inner = Row::new().with("a", Row::new());
        let part = Part::Head(Row::new().with("b", inner));
        let reply = Reply { id: 1, body: Body::Report(part) };
        assert_eq!(decode_reply(&encode_reply(&reply)), Err(FrameError::Malformed));
    }

    proptest! {
        /// A report of any bytes is drawn.
        #[test]
        fn any_bytes_are_a_report_or_an_error(
            parts in proptest::collection::vec(
                proptest::collection::vec(prop_oneof![0..12_u8, any::<u8>()], 0..60), 0..6),
            width in 0..90_usize,
        ) {
            let (mut document, mut view) = (Document::default(), View::text(""));
            for bytes in parts {
                let bytes = [&[1, 6][..], &bytes].concat();
                if let Ok(Reply { body: Body::Report(part), .. }) = decode_reply(&bytes) {
                    let _ = (document.add(part.clone()), view.add(part));
                }
            }
            let _ = (document.json(), view.to_string(), format!("{view:width$}"));
        }

        /// A message that was read is the same once it was written and read again; nothing panics.
        #[test]
        fn any_bytes_are_a_message_or_an_error(payload in proptest::collection::vec(any::<u8>(), 0..200)) {
            if let Ok(call) = decode_call(&payload) {
                prop_assert_eq!(decode_call(&encode_call(&call)), Ok(call));
            }
            if let Ok(reply) = decode_reply(&payload) {
                let again = encode_reply(&reply);
                prop_assert_eq!(decode_reply(&again).map(|it| encode_reply(&it)), Ok(again));
            }
            let _ = decode_welcome(&[&greeting()[..], &payload].concat());
            let _ = after_greeting(&payload);
        }
    }
}
