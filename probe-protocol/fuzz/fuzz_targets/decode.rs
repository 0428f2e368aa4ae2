//! Reads any bytes as each kind of message. A message that was read is the same once it was written
//! and read again.
#![no_main]

use probe_protocol::{
    after_greeting, decode_call, decode_reply, decode_values, decode_welcome, encode_call, encode_reply,
    encode_welcome, greeting,
};
use probe_report::{Document, View};

libfuzzer_sys::fuzz_target!(|payload: &[u8]| {
    let _ = after_greeting(payload);
    if let Ok(call) = decode_call(payload) {
        assert_eq!(decode_call(&encode_call(&call)), Ok(call));
    }
    if let Ok(reply) = decode_reply(payload) {
        assert_eq!(decode_reply(&encode_reply(&reply)), Ok(reply));
    }
    if let Ok(document) = decode_values::<Document<'_>>(payload) {
        let _ = document.json(&[]);
    }
    if let Ok(view) = decode_values::<View<'_>>(payload) {
        let _ = (view.to_string(), format!("{view:80}"));
    }
    if let Ok(welcome) = decode_welcome(&[&greeting()[..], payload].concat()) {
        assert_eq!(decode_welcome(&encode_welcome(&welcome)), Ok(welcome));
    }
});
