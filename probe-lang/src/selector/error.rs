//! Mistakes in selectors.

use std::error;
use std::fmt;

use super::pointed::pointed;
use crate::ParseError;

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
    pub(super) selector: String,
    pub(super) at: usize,
    pub(super) problem: String,
}

impl SelectorError {
    /// Returns the column of the mistake, in characters, from 1.
    pub fn column(&self) -> usize {
        self.selector[..self.at].chars().count() + 1
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
        writeln!(f, "malformed selector, column {}: {}", self.column(), self.problem)?;
        pointed(&self.selector, self.at, f)
    }
}

impl error::Error for SelectorError {}
