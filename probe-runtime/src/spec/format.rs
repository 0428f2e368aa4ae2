//! What a report may look like.

/// What a report looks like.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Format {
    Text,
    Json,
    Csv,
    Svg,
    Folded,
    /// With the feature `metrics`.
    Prometheus,
}

impl Format {
    pub(crate) const ALL: [Self; 6] =
        [Self::Text, Self::Json, Self::Csv, Self::Svg, Self::Folded, Self::Prometheus];

    /// The ending of its files.
    pub(crate) fn ending(self) -> &'static str {
        match self {
            Self::Text => "txt",
            Self::Json => "json",
            Self::Csv => "csv",
            Self::Svg => "svg",
            Self::Folded => "folded",
            Self::Prometheus => "prom",
        }
    }

    /// Whether several reports may share a file.
    pub(crate) fn is_joined(self) -> bool {
        matches!(self, Self::Text | Self::Prometheus)
    }
}

/// The endings of these, for people.
pub(crate) fn endings(formats: &[Format]) -> String {
    formats.iter().map(|format| format.ending()).collect::<Vec<_>>().join(", ")
}
