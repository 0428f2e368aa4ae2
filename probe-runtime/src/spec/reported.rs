//! What each consumer can report, in which formats.

use std::any::Any;

use super::format::Format;
use crate::consumers::Count;
#[cfg(feature = "perf")]
use crate::consumers::Perf;
#[cfg(feature = "profiler")]
use crate::consumers::Profiler;
#[cfg(feature = "call-tree")]
use crate::consumers::{CallTree, Tree};
#[cfg(feature = "latency")]
use crate::consumers::{Latency, Slow};
use crate::control::Attachment;
#[cfg(feature = "metrics")]
use crate::metrics::{Measured, Metrics};
use crate::report::notes_of_counts;
#[cfg(any(feature = "latency", feature = "call-tree", feature = "profiler"))]
use crate::report::{missing_lines, notes};

/// What a consumer has to say, in one format.
pub(crate) struct Report {
    pub(crate) content: String,
    /// Calls and functions that are missing from it, where the format has no place to say so.
    pub(crate) missing: Vec<String>,
}

impl From<String> for Report {
    /// One that is whole, or says itself what is missing.
    fn from(content: String) -> Self {
        Self { content, missing: Vec::new() }
    }
}

/// An attachment that reports.
pub(crate) trait Reported: Any + Send {
    /// The report as it is now. In a format that its consumer does not have, as text.
    fn report(&self, format: Format) -> Report;

    /// The report as text for a terminal of so many columns.
    fn text_within(&self, columns: usize) -> String {
        let _ = columns;
        self.report(Format::Text).content
    }

    /// What a reader of the report has to know besides; its text ends with it, other formats have no place for it.
    fn notes(&self) -> Vec<String>;

    /// The report for a fleet's collector, if its consumer has that.
    #[cfg(feature = "metrics")]
    fn measure(&self, into: &mut Metrics) {
        let _ = into;
    }
}

impl Reported for Attachment<Count> {
    fn notes(&self) -> Vec<String> {
        notes_of_counts(self.untyped())
    }

    fn report(&self, format: Format) -> Report {
        match format {
            Format::Json => self.counts().to_json().into(),
            Format::Csv => self.counts().to_csv().into(),
            _ => self.to_string().into(),
        }
    }

    #[cfg(feature = "metrics")]
    fn measure(&self, into: &mut Metrics) {
        Count::measure(self, into);
    }
}

#[cfg(feature = "latency")]
impl Reported for Attachment<Latency> {
    fn notes(&self) -> Vec<String> {
        notes(self.untyped())
    }

    fn report(&self, format: Format) -> Report {
        match format {
            Format::Json => self.latencies().to_json().into(),
            Format::Csv => {
                let it = self.latencies();
                Report { content: it.to_csv(), missing: missing_lines(it.lost(), it.left_out()) }
            }
            _ => self.to_string().into(),
        }
    }

    #[cfg(feature = "metrics")]
    fn measure(&self, into: &mut Metrics) {
        Latency::measure(self, into);
    }
}

#[cfg(feature = "latency")]
impl Reported for Attachment<Slow> {
    fn notes(&self) -> Vec<String> {
        notes(self.untyped())
    }

    fn report(&self, format: Format) -> Report {
        match format {
            Format::Json => self.slow_calls().to_json().into(),
            Format::Csv => {
                let it = self.slow_calls();
                Report { content: it.to_csv(), missing: missing_lines(it.lost(), it.left_out()) }
            }
            _ => self.to_string().into(),
        }
    }
}

#[cfg(feature = "call-tree")]
impl Reported for Attachment<CallTree> {
    fn notes(&self) -> Vec<String> {
        notes(self.untyped())
    }

    fn text_within(&self, columns: usize) -> String {
        format!("{self:columns$}")
    }

    fn report(&self, format: Format) -> Report {
        let write = match format {
            Format::Json => return self.tree().to_json().into(),
            Format::Csv => Tree::to_csv,
            Format::Svg => Tree::to_svg,
            Format::Folded => Tree::to_folded,
            _ => return self.to_string().into(),
        };
        let tree = self.tree();
        Report { content: write(&tree), missing: missing_lines(tree.lost(), tree.left_out()) }
    }
}

#[cfg(feature = "profiler")]
impl Reported for Attachment<Profiler> {
    fn notes(&self) -> Vec<String> {
        notes(self.untyped())
    }

    fn report(&self, format: Format) -> Report {
        match format {
            Format::Json => self.profile().to_json().into(),
            Format::Csv => {
                let it = self.profile();
                Report { content: it.to_csv(), missing: missing_lines(it.lost(), it.left_out()) }
            }
            _ => self.to_string().into(),
        }
    }
}

#[cfg(feature = "perf")]
impl Reported for Attachment<Perf> {
    fn notes(&self) -> Vec<String> {
        notes(self.untyped())
    }

    fn report(&self, format: Format) -> Report {
        match format {
            Format::Json => self.event_counts().to_json().into(),
            Format::Csv => {
                let it = self.event_counts();
                Report { content: it.to_csv(), missing: missing_lines(it.lost(), it.left_out()) }
            }
            _ => self.to_string().into(),
        }
    }
}
