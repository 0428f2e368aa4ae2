//! Prints an attachment as the report of its consumer.

use std::fmt;

use crate::control::{Attachment, Consumer};
use crate::report::{footnotes, notes};

/// A consumer whose attachment prints as a report.
pub(super) trait Shown: Consumer {
    /// Returns the report as of now.
    fn shown(&self) -> impl fmt::Display;
}

impl<C: Shown> fmt::Display for Attachment<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The report gets the formatter's width.
        self.shown().fmt(f)?;
        footnotes(&notes(self.untyped()), f)
    }
}
