//! Errors that make a build fail. A problem that only prevents sites is not an error but a
//! [`PlainReason`](crate::PlainReason), with a warning.

use std::path::PathBuf;
use std::{error, fmt, io};

/// Why [`Build::try_compile`](crate::Build::try_compile) failed.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The compiler or cc failed. The compiler's output has been shown in cc's way.
    Cc(cc::Error),
    /// A pattern of [`exclude_functions`](crate::Build::exclude_functions) or
    /// [`exclude_files`](crate::Build::exclude_files) is not a glob.
    Pattern {
        /// The method that got the pattern.
        setting: &'static str,
        /// The pattern.
        pattern: String,
        /// The problem with the pattern.
        error: String,
    },
    /// There is no directory for the objects: [`out_dir`](crate::Build::out_dir) was not called,
    /// and `OUT_DIR` is not set, as it is in build scripts.
    OutDir,
    /// A source has no file name.
    Source(PathBuf),
    /// A file or directory could not be read or written.
    File {
        /// The file or directory.
        path: PathBuf,
        /// The failed action: `create`, `read`, `write`.
        action: &'static str,
        /// The system's error.
        error: io::Error,
    },
}

impl Error {
    /// Returns a function for `map_err`.
    pub(crate) fn file(path: impl Into<PathBuf>, action: &'static str) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |error| Self::File { path, action, error }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cc(error) => write!(f, "{error}"),
            Self::Pattern { setting, pattern, error } => {
                write!(f, "{setting}(\"{pattern}\"): {error}; a pattern is a glob such as `geo::*` or `**/vendor/**`")
            }
            Self::OutDir => f.write_str(
                "there is no directory for the objects: OUT_DIR is not set, so this is no build script; call out_dir()",
            ),
            Self::Source(path) => {
                write!(f, "file(\"{}\"): this path has no file name; name a source file", path.display())
            }
            Self::File { path, action, error } => {
                write!(f, "can't {action} {}: {error}; see that it may be written there", path.display())
            }
        }
    }
}

impl error::Error for Error {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        match self {
            Self::Cc(error) => Some(error),
            Self::File { error, .. } => Some(error),
            Self::Pattern { .. } | Self::OutDir | Self::Source(_) => None,
        }
    }
}

impl From<cc::Error> for Error {
    fn from(error: cc::Error) -> Self {
        Self::Cc(error)
    }
}
