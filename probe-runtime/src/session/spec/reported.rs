//! Attachments of consumers that report, whatever their types.

use std::any::Any;
use std::io::{self, Write};

use super::Format;
use super::reporter::{Rendered, Reporter};
use crate::engine::control::Attachment;
#[cfg(probe_agent)]
use crate::engine::control::Untyped;
#[cfg(probe_agent)]
use crate::engine::registry::ProbeId;
#[cfg(feature = "metrics")]
use crate::report::metrics::Metrics;
use crate::report::{ReportSource, json, view};
use probe_report::{array, quoted};

/// An attachment that reports, as its consumer's [`Reporter`] says.
pub(crate) trait Reported: Any + Send + Sync {
    /// Returns the current report. A format that its consumer lacks is replaced by text.
    fn report(&self, format: Format) -> Rendered;

    /// Returns the values of the report, if its consumer has them. See [`Reporter::source`].
    #[cfg(probe_agent)]
    fn source(&self, only: &[ProbeId]) -> Option<Box<dyn ReportSource>>;

    fn report_within(&self, columns: usize) -> Rendered;

    /// Returns whether reports in this format are written to a file step by step.
    fn is_streamed(&self, format: Format) -> bool;

    /// Writes the current report in such a format.
    fn write(&self, format: Format, out: &mut dyn Write) -> io::Result<Vec<String>>;

    fn notes(&self) -> Vec<String>;

    /// Makes the sites latent.
    fn pause(&self);

    #[cfg(probe_agent)]
    fn untyped(&self) -> &Untyped;

    #[cfg(feature = "metrics")]
    fn measure(&self, into: &mut Metrics);
}

impl<C: Reporter> Reported for Attachment<C> {
    fn report(&self, format: Format) -> Rendered {
        let has = format != Format::Prometheus && C::FORMATS.contains(&format);
        let format = if has { format } else { Format::Text };
        let source = match format {
            Format::Text | Format::Json | Format::Csv => C::source(self, &[]),
            _ => None,
        };
        match (source, format) {
            (Some(source), format) => rendered(&*source, format, C::notes(self)),
            (None, Format::Text) => with_notes(self, C::report(self, Format::Text)),
            (None, Format::Json) => with_notes_in_json(self, C::report(self, format)),
            (None, format) => C::report(self, format),
        }
    }

    #[cfg(probe_agent)]
    fn source(&self, only: &[ProbeId]) -> Option<Box<dyn ReportSource>> {
        C::source(self, only)
    }

    fn report_within(&self, columns: usize) -> Rendered {
        match C::source(self, &[]) {
            Some(source) => format!("{:columns$}", view(&*source, C::notes(self))).into(),
            None => with_notes(self, C::report_within(self, columns)),
        }
    }

    fn is_streamed(&self, format: Format) -> bool {
        C::STREAMED.contains(&format)
    }

    fn write(&self, format: Format, out: &mut dyn Write) -> io::Result<Vec<String>> {
        C::write(self, format, out)
    }

    fn notes(&self) -> Vec<String> {
        C::notes(self)
    }

    fn pause(&self) {
        // Sites that are refused stay as they are. The consumer's report is written by now.
        let _ = Attachment::pause(self);
    }

    #[cfg(probe_agent)]
    fn untyped(&self) -> &Untyped {
        Attachment::untyped(self)
    }

    #[cfg(feature = "metrics")]
    fn measure(&self, into: &mut Metrics) {
        if let Some(measure) = C::MEASURE {
            measure(self, into);
        }
    }
}

/// Renders values: as text, unless JSON or CSV is asked for.
pub(super) fn rendered(source: &dyn ReportSource, format: Format, notes: Vec<String>) -> Rendered {
    match format {
        Format::Json => json(source, &notes).into(),
        Format::Csv => Rendered { content: source.csv(), missing: source.missing() },
        _ => view(source, notes).to_string().into(),
    }
}

/// Adds the notes to a report that is a JSON object, as its last member.
fn with_notes_in_json<C: Reporter>(attachment: &Attachment<C>, mut rendered: Rendered) -> Rendered {
    let notes = C::notes(attachment);
    if !notes.is_empty()
        && let Some(open) = rendered.content.strip_suffix('}')
    {
        let notes = array(notes.iter().map(|note| quoted(note)));
        rendered.content = format!("{open},\"notes\":{notes}}}");
    }
    rendered
}

/// Adds the notes to a text report that does not end with them.
fn with_notes<C: Reporter>(attachment: &Attachment<C>, mut rendered: Rendered) -> Rendered {
    if !C::TEXT_HAS_NOTES {
        for note in C::notes(attachment) {
            if !rendered.content.is_empty() && !rendered.content.ends_with('\n') {
                rendered.content.push('\n');
            }
            rendered.content.push_str(&note);
        }
    }
    rendered
}
