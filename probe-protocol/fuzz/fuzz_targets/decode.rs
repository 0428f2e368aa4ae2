//! Reads any bytes as each kind of message. A message that was read is the same once it was written
//! and read again.
#![no_main]

use probe_protocol::{
    Body, Document, Reply, View, after_greeting, decode_call, decode_reply, decode_welcome, encode_call, encode_reply,
    encode_welcome, greeting,
};

libfuzzer_sys::fuzz_target!(|payload: &[u8]| {
    let _ = after_greeting(payload);
    if let Ok(call) = decode_call(payload) {
        assert_eq!(decode_call(&encode_call(&call)), Ok(call));
    }
    if let Ok(reply) = decode_reply(payload) {
        // A NaN does not equal itself; its bytes do.
        let again = encode_reply(&reply);
        assert_eq!(decode_reply(&again).map(|it| encode_reply(&it)), Ok(again));
    }
    let (mut document, mut view) = (Document::default(), View::text(""));
    for part in payload.split(|byte| *byte == 0xff) {
        if let Ok(Reply { body: Body::Report(part), .. }) = decode_reply(&[&[1, 6], part].concat()) {
            let _ = (document.add(part.clone()), view.add(part));
        }
    }
    let _ = (document.json(), view.to_string(), format!("{view:80}"));
    if let Ok(welcome) = decode_welcome(&[&greeting()[..], payload].concat()) {
        assert_eq!(decode_welcome(&encode_welcome(&welcome)), Ok(welcome));
    }
});
