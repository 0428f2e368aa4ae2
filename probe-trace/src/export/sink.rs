//! The interface of all formats' writers.

use std::io;

use crate::calls::Step;

/// One format's writer.
pub(super) trait Sink {
    fn step(&mut self, step: &Step) -> io::Result<()>;
    /// Writes the end.
    fn finish(&mut self) -> io::Result<()>;
}
