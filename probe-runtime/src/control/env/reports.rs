//! What each consumer can report, in which formats.

use super::destination::Format;
#[cfg(feature = "call-tree")]
use crate::consumers::CallTree;
use crate::consumers::Count;
#[cfg(feature = "latency")]
use crate::consumers::Latency;
#[cfg(feature = "perf")]
use crate::consumers::Perf;
#[cfg(feature = "profiler")]
use crate::consumers::Profiler;
#[cfg(any(feature = "latency", feature = "call-tree", feature = "profiler"))]
use crate::consumers::report::notes;
use crate::consumers::report::notes_of_counts;
use crate::control::Attachment;
#[cfg(feature = "metrics")]
use crate::metrics::{Measured, Metrics};

/// An attachment that reports.
pub(super) trait Reported: Send {
    /// The report as it is now. In a format that its consumer [does not have](formats), as text.
    fn report(&self, format: Format) -> String;

    /// What a reader of the report has to know besides; its text ends with it, other formats have no place for it.
    fn notes(&self) -> Vec<String>;

    /// The report for a fleet's collector, if its consumer has that.
    #[cfg(feature = "metrics")]
    fn measure(&self, into: &mut Metrics) {
        let _ = into;
    }
}

/// The formats that the consumer of this name has.
pub(super) fn formats(consumer: &str) -> &'static [Format] {
    match consumer {
        "call-tree" => &[Format::Text, Format::Json, Format::Csv, Format::Svg, Format::Folded],
        #[cfg(feature = "metrics")]
        "count" | "latency" => &[Format::Text, Format::Json, Format::Csv, Format::Prometheus],
        _ => &[Format::Text, Format::Json, Format::Csv],
    }
}

impl Reported for Attachment<Count> {
    fn notes(&self) -> Vec<String> {
        notes_of_counts(self)
    }

    fn report(&self, format: Format) -> String {
        match format {
            Format::Json => self.counts().to_json(),
            Format::Csv => self.counts().to_csv(),
            _ => self.to_string(),
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
        notes(self)
    }

    fn report(&self, format: Format) -> String {
        match format {
            Format::Json => self.latencies().to_json(),
            Format::Csv => self.latencies().to_csv(),
            _ => self.to_string(),
        }
    }

    #[cfg(feature = "metrics")]
    fn measure(&self, into: &mut Metrics) {
        Latency::measure(self, into);
    }
}

#[cfg(feature = "call-tree")]
impl Reported for Attachment<CallTree> {
    fn notes(&self) -> Vec<String> {
        notes(self)
    }

    fn report(&self, format: Format) -> String {
        match format {
            Format::Json => self.tree().to_json(),
            Format::Csv => self.tree().to_csv(),
            Format::Svg => self.tree().to_svg(),
            Format::Folded => self.tree().to_folded(),
            _ => self.to_string(),
        }
    }
}

#[cfg(feature = "profiler")]
impl Reported for Attachment<Profiler> {
    fn notes(&self) -> Vec<String> {
        notes(self)
    }

    fn report(&self, format: Format) -> String {
        match format {
            Format::Json => self.profile().to_json(),
            Format::Csv => self.profile().to_csv(),
            _ => self.to_string(),
        }
    }
}

#[cfg(feature = "perf")]
impl Reported for Attachment<Perf> {
    fn notes(&self) -> Vec<String> {
        notes(self)
    }

    fn report(&self, format: Format) -> String {
        match format {
            Format::Json => self.event_counts().to_json(),
            Format::Csv => self.event_counts().to_csv(),
            _ => self.to_string(),
        }
    }
}
