//! The disk space that a trace's file may take.
//!
//! A reader may give back the parts that it has read (`FALLOC_FL_PUNCH_HOLE`), so that the file
//! goes on. As long as there is no space, the thread copies nothing: the rings get full, and hits
//! without room are lost and counted, as always. The part of a ring that reaches the limit goes
//! beyond it, with the room for what the file says if it has to end: 10 KiB for 64 new rings.
//!
//! Cost: two system calls of the trace's thread for each part of a ring, if there is a limit.

use crate::engine::os::guarded_file::GuardedFile;

/// The limit of one file, in bytes.
#[derive(Clone, Copy)]
pub(super) struct Limit(pub(super) u64);

impl Limit {
    /// Returns whether the file takes so much space that it shall not grow. One that tells nothing
    /// grows.
    pub(super) fn is_reached(self, file: &mut GuardedFile) -> bool {
        file.taken().is_some_and(|taken| taken >= self.0)
    }
}
