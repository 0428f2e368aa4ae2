//! Options in parentheses after a consumer: `profile(budget=1%, text=alias)`. Pure.

use crate::error::ParseError;

/// One option of a consumer in `PROBES`, such as `budget=1%` in `profile(budget=1%)`. It knows its
/// place in the text, so that errors point at it. See
/// `Reporter::from_settings`.
///
/// ```
/// use probe_runtime::spec::{ParseError, Setting};
///
/// fn is_reversed(order: &Setting<'_>) -> Result<bool, ParseError> {
///     match order.value() {
///         "first" => Ok(false),
///         "last" => Ok(true),
///         other => Err(order.invalid_value(format!("`{other}` is no order; there are first and last"))),
///     }
/// }
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Setting<'a> {
    name: &'a str,
    value: &'a str,
    /// Byte offset of the name in the options.
    at: usize,
    /// Byte offset of the value in the options.
    value_at: usize,
}

impl<'a> Setting<'a> {
    /// Returns the name: the text before the `=`, without spaces around it.
    pub fn name(&self) -> &'a str {
        self.name
    }

    /// Returns the value: the text after the `=`, without spaces around it. Empty if there is no
    /// `=`. Options end at the first `)`, and a comma ends each of them, so a value contains
    /// neither.
    pub fn value(&self) -> &'a str {
        self.value
    }

    /// Returns an error that points at the name. `problem` states the mistake and the correct form.
    pub fn invalid_name(&self, problem: impl Into<String>) -> ParseError {
        ParseError { at: self.at, problem: problem.into() }
    }

    /// Returns an error that points at the value. `problem` states the mistake and the correct
    /// form.
    pub fn invalid_value(&self, problem: impl Into<String>) -> ParseError {
        self.invalid_value_at(0, problem)
    }

    /// Returns an error that points at this byte of the value.
    pub fn invalid_value_at(&self, at: usize, problem: impl Into<String>) -> ParseError {
        ParseError { at: self.value_at + at, problem: problem.into() }
    }
}

/// Cuts the options at commas, and trims the spaces around names and values.
pub fn settings(options: &str) -> impl Iterator<Item = Setting<'_>> {
    let mut start = 0;
    options.split(',').map(move |option| {
        let before = start;
        start += option.len() + 1;
        let lead = |text: &str| text.len() - text.trim_start().len();
        let (name, value) = option.split_once('=').unwrap_or((option, ""));
        let value_at = (before + name.len() + 1 + lead(value)).min(before + option.len());
        Setting { name: name.trim(), value: value.trim(), at: before + lead(name), value_at }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_know_where_they_stand() {
        let cut = |options| -> Vec<_> {
            settings(options).map(|it| (it.name, it.value, it.at, it.value_at)).collect()
        };
        assert_eq!(
            cut("events=cycles+ipc, budget = 1%"),
            [("events", "cycles+ipc", 0, 7), ("budget", "1%", 19, 28)]
        );
        assert_eq!(cut(""), [("", "", 0, 0)]);
        assert_eq!(cut("a="), [("a", "", 0, 2)]);
        assert_eq!(cut("a,"), [("a", "", 0, 1), ("", "", 2, 2)]);
    }

    proptest::proptest! {
        #[test]
        fn a_setting_lies_in_its_options(options: String) {
            for it in settings(&options) {
                proptest::prop_assert!(options[it.at..].starts_with(it.name));
                proptest::prop_assert!(options[it.value_at..].starts_with(it.value));
            }
        }
    }
}
