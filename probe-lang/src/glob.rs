//! Patterns of text: `*` is any text, `?` is one character, a backslash escapes.

/// Returns whether a pattern matches a text as a whole. Takes at most the product of both lengths.
pub(crate) fn matches(pattern: &[u8], text: &[u8]) -> bool {
    let (mut at, mut from) = (0, 0);
    // The place after the last `*`, and the text that it has not taken yet.
    let mut star: Option<(usize, usize)> = None;
    loop {
        let step = match pattern.get(at) {
            Some(b'*') => {
                star = Some((at + 1, from));
                at += 1;
                continue;
            }
            None if from == text.len() => return true,
            None => None,
            Some(b'?') => char_len(&text[from..]).map(|len| (1, len)),
            Some(b'\\') if at + 1 < pattern.len() => {
                (text.get(from) == pattern.get(at + 1)).then_some((2, 1))
            }
            Some(byte) => (text.get(from) == Some(byte)).then_some((1, 1)),
        };
        match (step, star) {
            (Some((pattern, text)), _) => (at, from) = (at + pattern, from + text),
            (None, Some((after, taken))) if taken < text.len() => {
                // The last `*` takes one more byte. An earlier one needs not take more.
                star = Some((after, taken + 1));
                (at, from) = (after, taken + 1);
            }
            (None, _) => return false,
        }
    }
}

/// Returns the bytes of the first character; of text that is not UTF-8, one.
fn char_len(text: &[u8]) -> Option<usize> {
    let first = *text.first()?;
    let len = match first {
        0xf0.. => 4,
        0xe0.. => 3,
        0xc0.. => 2,
        _ => 1,
    };
    let is_whole = text.get(1..len).is_some_and(|rest| rest.iter().all(|byte| byte & 0xc0 == 0x80));
    Some(if is_whole { len } else { 1 })
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn a_pattern_matches_a_whole_text() {
        for (pattern, text, is_match) in [
            ("10.*", "10.0.0.1", true),
            ("10.*", "110.0.0.1", false),
            ("*", "", true),
            ("", "", true),
            ("", "a", false),
            ("a?c", "abc", true),
            ("a?c", "aéc", true),
            ("a?c", "ac", false),
            ("*a*b*", "xxaxxbxx", true),
            ("*a*b", "xxaxxbxx", false),
            ("*ab", "aab", true),
            (r"a\*", "a*", true),
            (r"a\*", "ab", false),
            (r"a\", r"a\", true),
            ("?", "é", true),
        ] {
            assert_eq!(matches(pattern.as_bytes(), text.as_bytes()), is_match, "{pattern} {text}");
        }
    }

    /// The definition in its simplest form.
    fn reference(pattern: &[u8], text: &[u8]) -> bool {
        match pattern.split_first() {
            None => text.is_empty(),
            Some((b'*', rest)) => (0..=text.len()).any(|at| reference(rest, &text[at..])),
            Some((b'?', rest)) => !text.is_empty() && reference(rest, &text[1..]),
            Some((byte, rest)) => text.first() == Some(byte) && reference(rest, &text[1..]),
        }
    }

    proptest::proptest! {
        #[test]
        fn it_matches_as_the_simplest_form_does(pattern in "[ab*?]{0,8}", text in "[ab]{0,12}") {
            let (pattern, text) = (pattern.as_bytes(), text.as_bytes());
            proptest::prop_assert_eq!(matches(pattern, text), reference(pattern, text));
        }
    }
}
