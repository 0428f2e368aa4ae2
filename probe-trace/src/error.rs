//! Reasons why a file can't be read.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// The reason why a trace can't be read. It names the file, the fault and the remedy.
///
/// ```
/// let error = probe_trace::Trace::open(&["Cargo.toml"]).unwrap_err();
/// assert!(error.to_string().starts_with("Cargo.toml is no trace"));
/// ```
#[derive(Debug)]
pub struct ReadError {
    path: PathBuf,
    problem: Problem,
}

#[derive(Debug)]
pub(crate) enum Problem {
    System(io::Error),
    /// The file does not begin as a trace does.
    Foreign,
    /// The words' bytes are in the other order.
    ByteOrder,
    Version(u64),
    /// The header says something impossible.
    Header(&'static str),
    /// The block at this byte is none.
    Block(u64),
}

impl ReadError {
    pub(crate) fn new(path: &Path, problem: Problem) -> Self {
        Self { path: path.to_owned(), problem }
    }

    /// Returns the file.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.path.display();
        match &self.problem {
            Problem::System(error) => write!(f, "{path} can't be read: {error}"),
            Problem::Foreign => {
                write!(f, "{path} is no trace of latent probes: it does not begin with `probetrc`")
            }
            Problem::ByteOrder => write!(
                f,
                "{path} has the bytes of its words in reverse: a copy or a conversion has changed it; traces are \
                 little-endian on all machines"
            ),
            Problem::Version(version) => {
                let own = crate::layout::VERSION;
                write!(
                    f,
                    "{path} has version {version} of the format, and this reader knows version {own}; use the \
                           `probe-trace` of the program that wrote it"
                )
            }
            Problem::Block(at) => write!(f, "{path} can't be read: the block at byte {at} is damaged"),
            Problem::Header(what) => write!(f, "{path} can't be read: its header has {what}"),
        }
    }
}

impl std::error::Error for ReadError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        if let Problem::System(error) = &self.problem { Some(error) } else { None }
    }
}
