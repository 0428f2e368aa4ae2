//! Formats of reports. Of a trace, they are those of `probe-trace`, whose file has their endings.

use std::path::Path;

use crate::endings::{CHROME, FIREFOX, FOLDED, PERFETTO, TRACE};

/// The format of a report. The ending of its file chooses it, see
/// `probe_runtime::init_from_env`.
///
/// ```
/// use probe_runtime::spec::Format;
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
    #[doc(hidden)]
    pub const ALL: [Self; 9] = [
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
    #[doc(hidden)]
    pub const RECORDED: [Self; 2] = [Self::Perfetto, Self::Trace];

    /// Formats that a flight recorder's snapshots have.
    #[doc(hidden)]
    pub const SNAPSHOTS: [Self; 5] = [Self::Perfetto, Self::Trace, Self::Json, Self::Firefox, Self::Folded];

    /// Returns which of these formats a file's name tells. `.firefox.json` is another format than
    /// `.json`.
    #[doc(hidden)]
    pub fn of_name(name: &str, formats: impl IntoIterator<Item = Self>) -> Option<Self> {
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
    #[doc(hidden)]
    pub fn is_joined(self) -> bool {
        matches!(self, Self::Text | Self::Prometheus)
    }
}

/// Returns the endings of these formats as a list for people.
pub fn endings(formats: &[Format]) -> String {
    formats.iter().map(|format| format.ending()).collect::<Vec<_>>().join(", ")
}
