//! The error of texts that people write.

use std::error;
use std::fmt;

/// A mistake in a text, and the byte where it is. Consumers return it for their options: see
/// [`Setting`](super::Setting). It prints as a description of the mistake.
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
    pub(crate) at: usize,
    pub(crate) problem: String,
}

impl ParseError {
    /// Returns the error with its place moved by this many bytes.
    pub(crate) fn after(self, bytes: usize) -> Self {
        Self { at: bytes + self.at, ..self }
    }
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.problem)
    }
}

impl error::Error for ParseError {}
