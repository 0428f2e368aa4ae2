//! Why a text that somebody wrote can't be read.

use std::error;
use std::fmt;

/// Why a text can't be read: what is wrong with it, and at which byte. A consumer's options return it:
/// see [`Setting`](super::Setting). It prints as what is wrong.
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
    /// The same in a text that has so many bytes before this one.
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
