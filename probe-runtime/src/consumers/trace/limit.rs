//! The disk space that a trace's file may take.
//!
//! A reader may give back the parts that it has read (`FALLOC_FL_PUNCH_HOLE`), so that the file
//! goes on. As long as there is no space, the thread copies nothing: the rings get full, and hits
//! without room are lost and counted, as always.
//!
//! Cost: a system call of the trace's thread for each part of a ring, if there is a limit.

use std::fs::{File, Metadata};
use std::io;

/// The limit of one file.
pub(super) struct Limit {
    file: File,
    bytes: u64,
}

impl Limit {
    pub(super) fn new(file: &File, bytes: u64) -> io::Result<Self> {
        Ok(Self { file: file.try_clone()?, bytes })
    }

    /// Returns whether the file takes so much space that it shall not grow. One that tells nothing
    /// grows.
    pub(super) fn is_reached(&self) -> bool {
        self.file.metadata().is_ok_and(|it| taken(&it) >= self.bytes)
    }
}

/// Returns the bytes on the disk: holes take none.
#[cfg(unix)]
fn taken(metadata: &Metadata) -> u64 {
    use std::os::unix::fs::MetadataExt;

    metadata.blocks() * 512
}

#[cfg(not(unix))]
fn taken(metadata: &Metadata) -> u64 {
    metadata.len()
}
