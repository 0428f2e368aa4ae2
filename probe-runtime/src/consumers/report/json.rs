//! JSON, as RFC 8259 has it.

use std::fmt::Write;

/// An object that is being written, member by member.
pub(crate) struct Object(String);

impl Object {
    pub(crate) fn new() -> Self {
        Self("{".to_owned())
    }

    pub(crate) fn text(mut self, name: &str, value: &str) -> Self {
        self.name(name);
        push_text(&mut self.0, value);
        self
    }

    pub(crate) fn number(mut self, name: &str, value: u64) -> Self {
        self.name(name);
        // Writing to a `String` can't fail.
        let _ = write!(self.0, "{value}");
        self
    }

    #[cfg(any(test, feature = "latency"))]
    pub(crate) fn flag(mut self, name: &str, value: bool) -> Self {
        self.name(name);
        self.0.push_str(if value { "true" } else { "false" });
        self
    }

    /// What is JSON already.
    pub(crate) fn json(mut self, name: &str, value: &str) -> Self {
        self.name(name);
        self.0.push_str(value);
        self
    }

    pub(crate) fn finish(mut self) -> String {
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

/// An array of elements that are JSON already; a line each.
pub(crate) fn array(elements: impl IntoIterator<Item = String>) -> String {
    let mut array = "[".to_owned();
    for element in elements {
        array.push_str(if array.len() > 1 { ",\n" } else { "\n" });
        array.push_str(&element);
    }
    array.push_str("\n]");
    array
}

fn push_text(json: &mut String, text: &str) {
    json.push('"');
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    proptest! {
        #[test]
        fn what_was_written_is_read(name: String, text: String, number: u64, flag: bool) {
            let object = || Object::new().text(&name, &text).number("number", number).flag("flag", flag);
            let elements = array([object().finish(), Object::new().finish()]);
            let whole = object().json("elements", &elements).finish();
            let read: serde_json::Value = serde_json::from_str(&whole).unwrap();
            let mut expected = json!({ "number": number, "flag": flag });
            if !["number", "flag"].contains(&name.as_str()) {
                expected[&name] = json!(text);
            }
            let elements = json!([expected.clone(), {}]);
            if name == "elements" {
                return Ok(());
            }
            expected["elements"] = elements;
            prop_assert_eq!(read, expected);
        }
    }
}
