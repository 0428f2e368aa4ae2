//! The parts of a report, and how each is written.

use std::path::{Path, PathBuf};

pub(super) use crate::engine::os::stderr::print_line;
use crate::report::{Staged, file};

/// A part of a report that is ready to be written.
#[derive(Debug)]
pub(super) enum Piece {
    /// Text for stderr.
    Said(String),
    File(PathBuf, String),
    /// A report whose content is written already.
    Staged(Staged),
}

impl Piece {
    /// Writes it, or says why it can't.
    pub(super) fn write(self) {
        match self {
            Self::Said(text) => print_line(&text),
            Self::File(path, content) => write(&path, &content),
            Self::Staged(staged) => {
                let path = staged.path.clone();
                if let Err(error) = staged.finish() {
                    print_line(&format!("PROBES_OUT: {} can't be written: {error}", path.display()));
                }
            }
        }
    }
}

/// Writes a file. If that fails, writes the reason and the content to stderr.
pub(super) fn write(path: &Path, content: &str) {
    if let Err(error) = file::write(path, content) {
        print_line(&format!("PROBES_OUT: {} can't be written: {error}; it would say:", path.display()));
        print_line(content.trim_end_matches('\n'));
    }
}
