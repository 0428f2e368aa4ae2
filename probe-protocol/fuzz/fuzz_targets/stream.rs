//! Reads any bytes as frames, from a socket whose other end has gone.
#![no_main]

use std::io::Write;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use probe_protocol::{Channel, MAX_FRAME};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let (mut writer, reader) = UnixStream::pair().expect("two sockets");
    // More than the socket holds would wait for a reader.
    writer.write_all(&bytes[..bytes.len().min(64 << 10)]).expect("room");
    drop(writer);
    let channel = Channel::new(reader.into()).expect("a socket");
    let mut taken = 0;
    while let Ok(Some(received)) = channel.receive(Some(Duration::ZERO), Duration::ZERO) {
        assert!(received.payload.len() <= MAX_FRAME && received.file.is_none());
        taken += 4 + received.payload.len();
    }
    assert!(taken <= bytes.len());
});
