//! The error of texts that people write.

use std::error;
use std::fmt;

/// A mistake in a text, and the byte where it is. Consumers return it for their options: see
/// [`Setting`](crate::Setting). It prints as a description of the mistake.
///
/// ```
/// use probe_runtime::{ParseError, Setting};
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
    /// use probe_runtime::{ParseError, Setting};
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
        self.at = floor(text, self.at);
        self
    }
}

/// Returns the last place to cut a text at, up to this byte.
pub fn floor(text: &str, at: usize) -> usize {
    (0..=at.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0)
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.problem)
    }
}

impl error::Error for ParseError {}
