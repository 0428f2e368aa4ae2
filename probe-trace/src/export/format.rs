//! Formats, and the endings of their files.

use std::{fmt, path::Path};

use super::endings;
use crate::reader::Trace;

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

/// Each format in the order of [`Format`]: its name, which is that of its feature, too, and the
/// endings of its files.
const FORMATS: [(Format, &str, &[&str]); 4] = [
    (Format::Perfetto, "perfetto", endings::PERFETTO),
    (Format::Chrome, "chrome", endings::CHROME),
    (Format::Firefox, "firefox", endings::FIREFOX),
    (Format::Folded, "folded", endings::FOLDED),
];

impl Trace {
    /// The ending of the files that this crate reads, without a dot.
    ///
    /// ```
    /// assert_eq!(probe_trace::Trace::ENDING, "probetrace");
    /// ```
    pub const ENDING: &str = endings::TRACE;
}

impl Format {
    /// All formats.
    ///
    /// ```
    /// use probe_trace::export::Format;
    /// assert!(Format::ALL.contains(&Format::Folded));
    /// ```
    pub const ALL: [Self; FORMATS.len()] = [FORMATS[0].0, FORMATS[1].0, FORMATS[2].0, FORMATS[3].0];

    /// Returns the format that files with this ending have.
    ///
    /// # Errors
    /// If the ending is not one of those that [`Format`] lists.
    pub fn from_path(path: impl AsRef<Path>) -> Result<Self, UnknownFormat> {
        let path = path.as_ref();
        let name = path.file_name().map_or(&b""[..], |name| name.as_encoded_bytes());
        let has = |ending: &str| {
            let before = name.strip_suffix(ending.as_bytes()).and_then(|it| it.strip_suffix(b"."));
            before.is_some_and(|before| !before.is_empty())
        };
        // Of `.json` and `.firefox.json`, the longer one counts.
        let length = |endings: &[&str]| endings.iter().filter(|it| has(it)).map(|it| it.len()).max();
        let found = FORMATS.iter().filter_map(|(format, _, endings)| Some((length(endings)?, *format)));
        let found = found.max_by_key(|(length, _)| *length);
        found.map(|(_, format)| format).ok_or_else(|| UnknownFormat { path: path.display().to_string() })
    }

    /// Returns the ending of the format's files, without a dot.
    ///
    /// ```
    /// use probe_trace::export::Format;
    /// assert_eq!(Format::Firefox.ending(), "firefox.json");
    /// ```
    pub const fn ending(self) -> &'static str {
        FORMATS[self as usize].2[0]
    }

    /// Returns the format's name, which is that of its feature, too.
    #[cfg(not(all(feature = "chrome", feature = "firefox", feature = "perfetto")))]
    pub(super) const fn name(self) -> &'static str {
        FORMATS[self as usize].1
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
        let endings = FORMATS.iter().flat_map(|(_, _, endings)| *endings).map(|it| format!("`.{it}`"));
        let mut endings: Vec<_> = endings.collect();
        let last = endings.pop().unwrap_or_default();
        let (path, endings) = (&self.path, endings.join(", "));
        write!(f, "can't tell the format of `{path}` from its ending: use {endings}, or {last}")
    }
}

impl std::error::Error for UnknownFormat {}
