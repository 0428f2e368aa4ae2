//! Formats, and the endings of their files.

use std::{fmt, path::Path};

/// A format that other tools read.
///
/// ```
/// use probe_trace::export::Format;
/// assert_eq!(Format::from_path("run.pftrace"), Ok(Format::Perfetto));
/// assert_eq!(Format::from_path("run.json"), Ok(Format::Chrome));
/// assert_eq!(Format::from_path("run.firefox.json"), Ok(Format::Firefox));
/// let error = Format::from_path("run.svg").unwrap_err();
/// assert_eq!(
///     error.to_string(),
///     "can't tell the format of `run.svg` from its ending: use `.pftrace`, `.perfetto-trace`, `.json`, `.firefox.json`, or `.folded`"
/// );
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Format {
    /// Perfetto's protobuf, for <https://ui.perfetto.dev>: `.pftrace`, `.perfetto-trace`.
    Perfetto,
    /// Chrome's trace events as a JSON array, which many viewers read: `.json`.
    Chrome,
    /// Firefox Profiler's processed profile, for <https://profiler.firefox.com>: `.firefox.json`.
    Firefox,
    /// Folded stacks for flame graphs, weighted by self time in nanoseconds: `.folded`.
    Folded,
}

impl Format {
    /// Returns the format that files with this ending have.
    ///
    /// # Errors
    /// If the ending is not one of those that [`Format`] lists.
    pub fn from_path(path: impl AsRef<Path>) -> Result<Self, UnknownFormat> {
        let path = path.as_ref();
        let is_firefox =
            path.file_stem().is_some_and(|it| Path::new(it).extension() == Some("firefox".as_ref()));
        match path.extension().and_then(|ending| ending.to_str()) {
            Some("pftrace" | "perfetto-trace") => Ok(Self::Perfetto),
            Some("json") if is_firefox => Ok(Self::Firefox),
            Some("json") => Ok(Self::Chrome),
            Some("folded") => Ok(Self::Folded),
            _ => Err(UnknownFormat { path: path.display().to_string() }),
        }
    }

    /// Returns the ending of the format's files, without a dot.
    ///
    /// ```
    /// use probe_trace::export::Format;
    /// assert_eq!(Format::Firefox.ending(), "firefox.json");
    /// ```
    pub const fn ending(self) -> &'static str {
        match self {
            Self::Perfetto => "pftrace",
            Self::Chrome => "json",
            Self::Firefox => "firefox.json",
            Self::Folded => "folded",
        }
    }
}

/// A file's ending does not tell its format.
///
/// ```
/// use probe_trace::export::{Format, UnknownFormat};
/// let error: UnknownFormat = Format::from_path("trace").unwrap_err();
/// assert!(error.to_string().starts_with("can't tell the format of `trace`"));
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UnknownFormat {
    path: String,
}

impl fmt::Display for UnknownFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "can't tell the format of `{}` from its ending: \
             use `.pftrace`, `.perfetto-trace`, `.json`, `.firefox.json`, or `.folded`",
            self.path
        )
    }
}

impl std::error::Error for UnknownFormat {}
