//! Assembly as text, with arbitrary bytes, and names that all assemblers accept.
//!
//! Compilers write UTF-8, but clang puts a byte's character into the comment beside it, as one raw
//! byte. Such bytes are decoded to characters from Unicode's private use area, one for each byte,
//! and encoded as bytes again in the output.
//!
//! clang names a `vectorcall` function `f@@16`, after the size of its arguments, and prints that
//! name unquoted. No assembler, not even clang's, accepts it in an expression. In quotes, all of
//! them do.

use super::line::symbolic;
use std::borrow::Cow;

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

/// Returns the text with names such as `f@@16` in quotes.
pub(crate) fn quoted(source: &str) -> Cow<'_, str> {
    if !source.contains("@@") {
        return Cow::Borrowed(source);
    }
    let is_plain = |line: &&str| !line.contains("@@") || line.contains('"') || line.contains(".symver");
    let mut text = String::with_capacity(source.len());
    for line in source.split_inclusive('\n') {
        if is_plain(&line) {
            text.push_str(line);
            continue;
        }
        let code = line.find('#').unwrap_or(line.len());
        let mut done = 0;
        for (at, _) in line[..code].match_indices("@@") {
            let before = line[done..at].rfind(|c| !symbolic(c)).map_or(done, |last| done + last + 1);
            let digits = line[at + 2..code].find(|c: char| !c.is_ascii_digit()).unwrap_or(code - at - 2);
            let end = at + 2 + digits;
            if before < at && digits > 0 && !line[end..].starts_with(symbolic) {
                text.extend([&line[done..before], "\"", &line[before..end], "\""]);
                done = end;
            }
        }
        text.push_str(&line[done..]);
    }
    Cow::Owned(text)
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

    #[test]
    fn names_with_their_bytes_are_quoted() {
        for (line, expected) in [
            ("f@@16: # @f\n", "\"f@@16\": # @f\n"),
            ("\t.size\tf@@16, .Lend-f@@16\n", "\t.size\t\"f@@16\", .Lend-\"f@@16\"\n"),
            ("\tcallq\tf@@8@PLT # f@@8\n", "\tcallq\t\"f@@8\"@PLT # f@@8\n"),
            ("\t.symver\tf, f@@2\n", "\t.symver\tf, f@@2\n"),
            ("f@@VERS_2", "f@@VERS_2"),
            ("\t.ascii \"f@@16\"", "\t.ascii \"f@@16\""),
        ] {
            assert_eq!(quoted(line), expected);
        }
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
