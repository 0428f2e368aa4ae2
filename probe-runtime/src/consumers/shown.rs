//! Attachments that print as what their consumer reports.

use std::fmt;

use crate::control::{Attachment, Consumer};
use crate::report::{footnotes, notes};

/// A consumer with a report of its own.
pub(super) trait Shown: Consumer {
    /// The report, as of now.
    fn shown(&self) -> impl fmt::Display;
}

impl<C: Shown> fmt::Display for Attachment<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // With the width that was asked for.
        self.shown().fmt(f)?;
        footnotes(&notes(self.untyped()), f)
    }
}
