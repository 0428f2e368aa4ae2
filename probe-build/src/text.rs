//! Assembly as text, whatever bytes it has.
//!
//! Compilers write UTF-8, but clang puts a byte's character into the comment beside it, as one raw
//! byte. Such bytes become characters that Unicode leaves to private use, one for each byte, and
//! bytes again when the text is written.

/// The character for the byte 0.
const BASE: u32 = 0xf_7f00;

/// The byte that all of these characters begin with, in UTF-8; few others do.
const LEAD: u8 = 0xf3;

/// The text of these bytes; `None` if it has characters of those that stand for bytes.
pub(crate) fn decode(bytes: Vec<u8>) -> Option<String> {
    let bytes = match String::from_utf8(bytes) {
        // Nearly always: nothing is copied.
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

/// The bytes of this text.
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

/// The byte that a character stands for.
fn byte(character: char) -> Option<u8> {
    u32::from(character).checked_sub(BASE).and_then(|byte| u8::try_from(byte).ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn utf8_stays_itself() {
        assert_eq!(decode("été:\n\tret # ø".into()).as_deref(), Some("été:\n\tret # ø"));
        assert_eq!(decode(b"\t.byte 248 # \xf8\n".to_vec()).unwrap().chars().count(), 15);
        assert_eq!(decode("\u{f7ff8}".into()), None);
    }

    proptest! {
        #[test]
        fn every_byte_comes_back(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            if let Some(text) = decode(bytes.clone()) {
                prop_assert_eq!(encode(text), bytes);
            }
        }
    }
}
