//! Assembly as text, with arbitrary bytes.
//!
//! Compilers write UTF-8, but clang puts a byte's character into the comment beside it, as one raw
//! byte. Such bytes are decoded to characters from Unicode's private use area, one for each byte,
//! and encoded as bytes again in the output.

/// The character for byte 0.
const BASE: u32 = 0xf_7f00;

/// The first byte of all these characters in UTF-8; few other characters begin with it.
const LEAD: u8 = 0xf3;

/// Decodes bytes; `None` if they contain a character that represents a byte.
pub(crate) fn decode(bytes: Vec<u8>) -> Option<String> {
    let bytes = match String::from_utf8(bytes) {
        // The usual case: nothing is copied.
        Ok(text) if !text.as_bytes().contains(&LEAD) => return Some(text),
        Ok(text) => text.into_bytes(),
        Err(error) => error.into_bytes(),
    };
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        if chunk.valid().chars().any(|character| byte(character).is_some()) {
            return None;
        }
        text.push_str(chunk.valid());
        text.extend(chunk.invalid().iter().filter_map(|byte| char::from_u32(BASE + u32::from(*byte))));
    }
    Some(text)
}

pub(crate) fn encode(text: String) -> Vec<u8> {
    if !text.as_bytes().contains(&LEAD) {
        return text.into_bytes();
    }
    let mut bytes = Vec::with_capacity(text.len());
    for character in text.chars() {
        match byte(character) {
            Some(byte) => bytes.push(byte),
            None => bytes.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
    bytes
}

fn byte(character: char) -> Option<u8> {
    u32::from(character).checked_sub(BASE).and_then(|byte| u8::try_from(byte).ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn utf8_is_unchanged() {
        assert_eq!(decode("été:\n\tret # ø".into()).as_deref(), Some("été:\n\tret # ø"));
        assert_eq!(decode(b"\t.byte 248 # \xf8\n".to_vec()).unwrap().chars().count(), 15);
        assert_eq!(decode("\u{f7ff8}".into()), None);
    }

    proptest! {
        #[test]
        fn every_byte_survives_a_round_trip(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            if let Some(text) = decode(bytes.clone()) {
                prop_assert_eq!(encode(text), bytes);
            }
        }
    }
}
