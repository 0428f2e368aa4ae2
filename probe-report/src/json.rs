//! JSON, as specified in RFC 8259. It is written here and not by a crate: the reports are flat, and
//! the rules for escaping fit on one screen. They are tested against parsers by other authors.

use std::fmt::Write;

/// An object that is being written, member by member.
pub struct JsonObject(String);

impl JsonObject {
    #[expect(clippy::new_without_default, reason = "an object without members says nothing")]
    pub fn new() -> Self {
        // A row fits: it is not moved as it grows.
        let mut text = String::with_capacity(512);
        text.push('{');
        Self(text)
    }

    #[must_use]
    pub fn text(mut self, name: &str, value: &str) -> Self {
        self.name(name);
        push_text(&mut self.0, value);
        self
    }

    #[must_use]
    pub fn number(mut self, name: &str, value: u64) -> Self {
        self.name(name);
        // Writing to a `String` can't fail.
        let _ = write!(self.0, "{value}");
        self
    }

    #[must_use]
    pub fn flag(mut self, name: &str, value: bool) -> Self {
        self.name(name);
        self.0.push_str(if value { "true" } else { "false" });
        self
    }

    /// Adds a member whose value is JSON already.
    #[must_use]
    pub fn json(mut self, name: &str, value: &str) -> Self {
        self.name(name);
        self.0.push_str(value);
        self
    }

    pub fn finish(mut self) -> String {
        self.0.push('}');
        self.0
    }

    fn name(&mut self, name: &str) {
        if self.0.len() > 1 {
            self.0.push(',');
        }
        push_text(&mut self.0, name);
        self.0.push(':');
    }
}

/// Returns an array of elements that are JSON already, one per line.
pub fn array(elements: impl IntoIterator<Item = String>) -> String {
    let mut array = "[".to_owned();
    elements.into_iter().for_each(|element| push_element(&mut array, &element));
    array.push_str("\n]");
    array
}

#[inline(never)]
fn push_element(array: &mut String, element: &str) {
    array.push_str(if array.len() > 1 { ",\n" } else { "\n" });
    array.push_str(element);
}

pub fn quoted(text: &str) -> String {
    let mut json = String::new();
    push_text(&mut json, text);
    json
}

fn push_text(json: &mut String, text: &str) {
    json.push('"');
    // As all names, and most texts.
    if text.bytes().all(|byte| byte >= b' ' && byte != b'"' && byte != b'\\') {
        json.push_str(text);
        json.push('"');
        return;
    }
    for c in text.chars() {
        match c {
            '"' => json.push_str("\\\""),
            '\\' => json.push_str("\\\\"),
            '\n' => json.push_str("\\n"),
            '\r' => json.push_str("\\r"),
            '\t' => json.push_str("\\t"),
            c if c < ' ' => {
                let _ = write!(json, "\\u{:04x}", u32::from(c));
            }
            c => json.push(c),
        }
    }
    json.push('"');
}

/// Formats a number as in JSON, without trailing zeros.
pub fn decimal(number: f64) -> String {
    // Most are whole, and these are formatted in a fraction of the time.
    if number.fract() == 0.0 && number.abs() < 1e15 {
        #[expect(clippy::cast_possible_truncation, reason = "whole, and far below the largest")]
        return (number as i64).to_string();
    }
    let mut text = format!("{number:.4}");
    text.truncate(text.trim_end_matches('0').trim_end_matches('.').len());
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn members_and_elements() {
        let object =
            || JsonObject::new().text("name", "a\"b\\c\n\u{1}é").number("n", u64::MAX).flag("is", true);
        let object = object().json("all", &array([JsonObject::new().finish(), "7".to_owned()])).finish();
        let text = r#""a\"b\\c\n\u0001é""#;
        let expected =
            format!("{{\"name\":{text},\"n\":18446744073709551615,\"is\":true,\"all\":[\n{{}},\n7\n]}}");
        assert_eq!(object, expected);
        assert_eq!(array([]), "[\n]");
    }

    /// Reads a string back, as the RFC says; `None` if it is not a string.
    fn parse_json(json: &str) -> Option<String> {
        let mut chars = json.strip_prefix('"')?.strip_suffix('"')?.chars();
        let mut text = String::new();
        while let Some(c) = chars.next() {
            text.push(match c {
                '"' => return None,
                c if c < ' ' => return None,
                '\\' => match chars.next()? {
                    'n' => '\n',
                    'r' => '\r',
                    't' => '\t',
                    'u' => {
                        let digits: String = chars.by_ref().take(4).collect();
                        char::from_u32(u32::from_str_radix(&digits, 16).ok()?)?
                    }
                    c @ ('"' | '\\') => c,
                    _ => return None,
                },
                c => c,
            });
        }
        Some(text)
    }

    proptest! {
        #[test]
        fn written_text_is_read_back(text: String) {
            let mut json = String::new();
            push_text(&mut json, &text);
            prop_assert_eq!(parse_json(&json), Some(text));
        }
    }
}
