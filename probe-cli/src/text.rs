//! Escapes text of unknown origin: names in a file, in a trace, of a process. It may hold any
//! character, also those that control a terminal.

use std::borrow::Cow;
use std::fmt::Write;

pub(crate) use probe_report::{count, was};

/// Returns whether a character could control a terminal, or change the order of the text around it:
/// control characters, separators of lines and paragraphs, marks of direction.
fn is_control(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Escapes control characters as Rust does in a string: `\n`, `\u{1b}`.
///
/// ```
/// assert_eq!(probe_cli::text::escape("app::handle"), "app::handle");
/// assert_eq!(probe_cli::text::escape("\x1b[2J\n"), "\\u{1b}[2J\\n");
/// ```
pub fn escape(text: &str) -> Cow<'_, str> {
    escape_with(text, None, |c| c.escape_default().collect())
}

/// Escapes the same, but for line feeds.
///
/// ```
/// assert_eq!(probe_cli::text::escape_lines("one\ntwo\r"), "one\ntwo\\r");
/// ```
pub fn escape_lines(text: &str) -> Cow<'_, str> {
    escape_with(text, Some('\n'), |c| c.escape_default().collect())
}

/// Escapes the same in a JSON document, where only strings can hold such characters.
///
/// ```
/// assert_eq!(probe_cli::text::escape_json("\"\u{9b}2J\""), "\"\\u009b2J\"");
/// ```
pub fn escape_json(text: &str) -> Cow<'_, str> {
    escape_with(text, Some('\n'), |c| format!("\\u{:04x}", u32::from(c)))
}

fn escape_with(text: &str, but: Option<char>, escape_char: impl Fn(char) -> String) -> Cow<'_, str> {
    let is_plain = |byte: u8| (b' '..0x7f).contains(&byte) || but == Some(char::from(byte));
    // A fold goes to the end, so that many bytes are compared at a time.
    if text.bytes().fold(true, |all, byte| all & is_plain(byte)) {
        return text.into();
    }
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if is_control(c) && but != Some(c) {
            out.push_str(&escape_char(c));
        } else {
            out.push(c);
        }
    }
    out.into()
}

/// Returns bytes in hexadecimal, with a space between two.
///
/// ```
/// assert_eq!(probe_cli::text::hex(&[0x0f, 0x1f]), "0f 1f");
/// ```
pub fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(3 * bytes.len());
    for (at, byte) in bytes.iter().enumerate() {
        let space = if at == 0 { "" } else { " " };
        // Writing to a string never fails.
        let _ = write!(text, "{space}{byte:02x}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn control_characters_are_escaped() {
        for (text, shown) in [
            ("é::ß", "é::ß"),
            ("\u{7f}\u{9b}31m", "\\u{7f}\\u{9b}31m"),
            ("a\u{202e}b\u{2066}", "a\\u{202e}b\\u{2066}"),
            ("\u{2028}\t", "\\u{2028}\\t"),
        ] {
            assert_eq!(escape(text), shown);
        }
        assert_eq!(escape_lines("\x1b]0;x\x07\n"), "\\u{1b}]0;x\\u{7}\n");
    }

    proptest! {
        #[test]
        fn no_control_character_is_left(text: String) {
            prop_assert!(!escape(&text).chars().any(is_control));
            prop_assert!(!escape_lines(&text).chars().any(|c| c != '\n' && is_control(c)));
            let document = serde_json::to_string(&text).unwrap();
            let shown = escape_json(&document);
            prop_assert!(!shown.chars().any(is_control));
            prop_assert_eq!(serde_json::from_str::<String>(&shown).unwrap(), text);
        }
    }
}
