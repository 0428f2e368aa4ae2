//! Formats of reports.

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

    /// Returns the ending of the format's files, without a dot.
    pub fn ending(self) -> &'static str {
        match self {
            Self::Text => "txt",
            Self::Json => "json",
            Self::Csv => "csv",
            Self::Svg => "svg",
            Self::Folded => "folded",
            Self::Prometheus => "prom",
            Self::Perfetto => "pftrace",
            Self::Firefox => "firefox.json",
            Self::Trace => "probetrace",
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
