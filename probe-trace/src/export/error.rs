//! Errors of exports.

use std::{fmt, io};

/// Why an export stopped.
///
/// ```
/// use probe_trace::export::Error;
/// let error: Error<std::fmt::Error> = Error::Disabled { feature: "perfetto" };
/// assert_eq!(
///     error.to_string(),
///     "`probe-trace` was built without this format: enable its feature `perfetto`"
/// );
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum Error<E> {
    /// The trace can't be read further. The items before are written, and the output is whole.
    Items(E),
    /// The output can't be written.
    Write(io::Error),
    /// The format is not built in.
    Disabled {
        /// The feature of `probe-trace` that has it.
        feature: &'static str,
    },
}

impl<E: fmt::Display> fmt::Display for Error<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Items(error) => write!(f, "can't read the trace further, so the export ends here: {error}"),
            Self::Write(error) => write!(f, "can't write the export: {error}"),
            Self::Disabled { feature } => {
                write!(f, "`probe-trace` was built without this format: enable its feature `{feature}`")
            }
        }
    }
}

impl<E: std::error::Error + 'static> std::error::Error for Error<E> {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Items(error) => Some(error),
            Self::Write(error) => Some(error),
            Self::Disabled { .. } => None,
        }
    }
}

impl<E> From<io::Error> for Error<E> {
    fn from(error: io::Error) -> Self {
        Self::Write(error)
    }
}
