//! Formats of reports. Of a trace, they are those of `probe-trace`, whose file has their endings.

#[cfg(probe_agent)]
use std::path::Path;

#[cfg(feature = "trace")]
use probe_trace::export;

use super::endings::{CHROME, FIREFOX, FOLDED, PERFETTO, TRACE};

/// The format of a report. The ending of its file chooses it, see
/// [`init_from_env`](crate::init_from_env).
///
/// ```
/// use probe_runtime::Format;
/// assert_eq!(Format::Json.ending(), "json");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Format {
    /// A table for people.
    Text,
    /// JSON: one object; a trace is an array of Chrome's trace events.
    Json,
    /// Comma-separated values (RFC 4180).
    Csv,
    /// A picture, such as a flame graph.
    Svg,
    /// Folded stacks, as flame graph tools read them.
    Folded,
    /// Prometheus's text, with the feature `metrics`.
    Prometheus,
    /// A trace for Perfetto (<https://ui.perfetto.dev>).
    Perfetto,
    /// A trace for the Firefox Profiler (<https://profiler.firefox.com>).
    Firefox,
    /// A trace as the crate `probe-trace` reads it.
    Trace,
}

impl Format {
    pub(crate) const ALL: [Self; 9] = [
        Self::Text,
        Self::Json,
        Self::Csv,
        Self::Svg,
        Self::Folded,
        Self::Prometheus,
        Self::Perfetto,
        Self::Firefox,
        Self::Trace,
    ];

    /// Formats that a trace is written in while the program runs.
    #[cfg(probe_agent)]
    pub(crate) const RECORDED: [Self; 2] = [Self::Perfetto, Self::Trace];

    /// Formats that a flight recorder's snapshots have.
    #[cfg(any(probe_agent, feature = "trace"))]
    pub(crate) const SNAPSHOTS: [Self; 5] =
        [Self::Perfetto, Self::Trace, Self::Json, Self::Firefox, Self::Folded];

    /// Returns the format in which `probe-trace` exports a trace; `None` if it is not an export.
    #[cfg(feature = "trace")]
    pub(crate) fn export(self) -> Option<export::Format> {
        match self {
            Self::Json => Some(export::Format::Chrome),
            Self::Folded => Some(export::Format::Folded),
            Self::Perfetto => Some(export::Format::Perfetto),
            Self::Firefox => Some(export::Format::Firefox),
            _ => None,
        }
    }

    /// Returns which of these formats a file's name tells. `.firefox.json` is another format than
    /// `.json`.
    #[cfg(probe_agent)]
    pub(crate) fn of_name(name: &str, formats: impl IntoIterator<Item = Self>) -> Option<Self> {
        let name = Path::new(name).file_name()?.to_str()?;
        let stem = |it: Self| name.strip_suffix(it.ending())?.strip_suffix('.').filter(|it| !it.is_empty());
        let told = formats.into_iter().filter_map(|it| Some((stem(it)?.len(), it)));
        told.min_by_key(|(stem, _)| *stem).map(|(_, it)| it)
    }

    /// Returns the ending of the format's files, without a dot.
    pub fn ending(self) -> &'static str {
        match self {
            Self::Text => "txt",
            Self::Json => CHROME[0],
            Self::Csv => "csv",
            Self::Svg => "svg",
            Self::Folded => FOLDED[0],
            Self::Prometheus => "prom",
            Self::Perfetto => PERFETTO[0],
            Self::Firefox => FIREFOX[0],
            Self::Trace => TRACE,
        }
    }

    /// Returns whether several reports may share a file.
    pub(crate) fn is_joined(self) -> bool {
        matches!(self, Self::Text | Self::Prometheus)
    }
}

/// Returns the endings of these formats as a list for people.
pub(crate) fn endings(formats: &[Format]) -> String {
    formats.iter().map(|format| format.ending()).collect::<Vec<_>>().join(", ")
}

#[cfg(all(test, feature = "trace"))]
mod tests {
    use super::*;

    #[test]
    fn exports_have_the_endings_of_their_formats() {
        let exports = Format::ALL.iter().filter_map(|it| Some((it.ending(), it.export()?)));
        let (endings, exports): (Vec<_>, Vec<_>) = exports.unzip();
        assert_eq!(exports.iter().map(|it| it.ending()).collect::<Vec<_>>(), endings);
        assert!(export::Format::ALL.iter().all(|it| exports.contains(it)));
    }
}
