//! Why a file can't be patched.

use std::fmt;

/// Why a file can't be patched: what follows the file's name in a message.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Error(String);

impl Error {
    /// The file is of another kind, or lacks what a table of sites needs.
    pub(crate) fn unsuitable(why: impl Into<String>) -> Self {
        Self(why.into())
    }

    /// The file's own numbers contradict each other.
    pub(crate) fn damaged(what: impl fmt::Display) -> Self {
        Self(format!("is damaged: {what}"))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Error {}
