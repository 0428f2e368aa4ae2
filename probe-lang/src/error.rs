//! Mistakes in the texts that people write, and how messages show such a text: with a caret below
//! the place of the mistake, or cut to a length.

use std::borrow::Cow;
use std::{error, fmt};

/// A mistake in a text, and the byte where it is. Consumers return it for their options: see
/// [`Setting`](crate::Setting). It prints as a description of the mistake.
///
/// ```
/// use probe_runtime::spec::{ParseError, Setting};
///
/// fn limit(setting: &Setting<'_>) -> Result<u32, ParseError> {
///     setting.value().parse().map_err(|_| setting.invalid_value("a limit is a number"))
/// }
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ParseError {
    /// Byte offset of the mistake in the text.
    pub at: usize,
    /// The mistake, and the correct form.
    pub problem: String,
}

impl ParseError {
    /// An error about all options of a consumer: one is missing, or two contradict each other. It
    /// points at the place where they begin.
    ///
    /// ```
    /// use probe_runtime::spec::{ParseError, Setting};
    ///
    /// fn limit<'a>(settings: &[Setting<'a>]) -> Result<Setting<'a>, ParseError> {
    ///     settings.first().copied().ok_or_else(|| ParseError::new("write `first(limit=10)`"))
    /// }
    /// # assert!(limit(&[]).is_err());
    /// ```
    pub fn new(problem: impl Into<String>) -> Self {
        Self { at: 0, problem: problem.into() }
    }

    /// Returns the error with its place moved by this many bytes.
    #[must_use]
    pub fn after(self, bytes: usize) -> Self {
        Self { at: bytes + self.at, ..self }
    }

    /// Returns the error with a place in this text, at most at its end. A consumer may return an
    /// error that it made for another text.
    #[must_use]
    pub fn within(mut self, text: &str) -> Self {
        self.at = floor_char_boundary(text, self.at);
        self
    }
}

/// Returns the last place to cut a text at, up to this byte.
pub fn floor_char_boundary(text: &str, at: usize) -> usize {
    (0..=at.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0)
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.problem)
    }
}

impl error::Error for ParseError {}

/// A mistake in a selector, and its place. It prints with the text and a caret below the place.
///
/// ```
/// use probe_runtime::Selector;
///
/// let error = Selector::parse("net::*, !").unwrap_err();
/// println!("column {}: {}", error.column(), error.problem());
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SelectorError {
    pub(crate) selector: String,
    pub(crate) at: usize,
    pub(crate) problem: String,
}

impl SelectorError {
    /// Returns the column of the mistake, in characters, from 1.
    pub fn column(&self) -> usize {
        column(&self.selector, self.at)
    }

    /// Returns a description of the mistake and of the correct form.
    pub fn problem(&self) -> &str {
        &self.problem
    }

    /// Converts to a [`ParseError`], which has a byte offset in place of a column.
    pub fn parse_error(self) -> ParseError {
        ParseError { at: self.at, problem: self.problem }
    }
}

impl fmt::Display for SelectorError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        mistake("malformed selector", &self.selector, self.at, &self.problem, f)
    }
}

impl error::Error for SelectorError {}

/// Writes the name of a mistaken text, the column and the problem, and then the text with a caret
/// below the byte `at`.
pub fn mistake(what: &str, text: &str, at: usize, problem: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    writeln!(f, "{what}, column {}: {problem}", column(text, at))?;
    caret(text, at, f)
}

/// Returns the column of a byte, in characters, from 1.
fn column(text: &str, at: usize) -> usize {
    text[..at].chars().count() + 1
}

/// Characters of a long text that are shown on each side of the place.
const AROUND: usize = 72;

/// Writes two indented lines: the text, and a caret below the byte `at`. Of a long text, only the
/// part around that byte is shown.
fn caret(text: &str, at: usize, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let (before, after) = text.split_at(at);
    let start = before.char_indices().rev().nth(AROUND - 1).map_or(0, |(at, _)| at);
    let end = after.char_indices().nth(AROUND).map_or(after.len(), |(at, _)| at);
    let (before, after) = (&before[start..], &after[..end]);
    let lead = if start == 0 { "" } else { "…" };
    let trail = if at + end == text.len() { "" } else { "…" };
    let shown = [lead, before, after, trail].concat().replace(char::is_control, " ");
    let column = lead.chars().count() + before.chars().count() + 1;
    writeln!(f, "  {shown}")?;
    write!(f, "  {:>column$}", "^")
}

/// Returns the selector, cut to a length that people still read.
pub fn shortened(selector: &str) -> Cow<'_, str> {
    const SHOWN: usize = 200;
    match selector.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", &selector[..end]).into(),
        None => selector.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Shown<'a>(&'a str, usize);

    impl fmt::Display for Shown<'_> {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            caret(self.0, self.1, f)
        }
    }

    #[test]
    fn a_short_text_is_shown_whole() {
        assert_eq!(Shown("é::b\tc", 5).to_string(), "  é::b c\n      ^");
        assert_eq!(Shown("", 0).to_string(), "  \n  ^");
    }

    #[test]
    fn a_long_text_is_shown_around_the_place() {
        let long = "é".repeat(100_000);
        for (at, shown, column) in [
            (0, format!("{}…", "é".repeat(AROUND)), 1),
            (150_000, format!("…{}…", "é".repeat(2 * AROUND)), AROUND + 2),
            (200_000, format!("…{}", "é".repeat(AROUND)), AROUND + 2),
        ] {
            assert_eq!(Shown(&long, at).to_string(), format!("  {shown}\n  {:>column$}", "^"));
        }
    }
}
