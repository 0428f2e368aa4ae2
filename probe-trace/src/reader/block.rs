//! The headers of a file's blocks.

use std::io::{self, SeekFrom};

use super::file::{Source, words_of};
use crate::layout::{block, reading, ring, sub_buffer};

/// Bytes of a block's header.
pub(super) const BLOCK_HEADER_BYTES: u64 = block::WORDS as u64 * 8;

/// A block's header.
#[derive(Clone, Copy)]
pub(super) struct BlockHeader {
    pub(super) magic: u64,
    pub(super) kind: u64,
    pub(super) bytes: u64,
    pub(super) ring: u64,
}

impl BlockHeader {
    /// Returns the first byte after the block at this place.
    pub(super) fn end(self, at: u64) -> Option<u64> {
        self.bytes.checked_next_multiple_of(8)?.checked_add(at)?.checked_add(BLOCK_HEADER_BYTES)
    }

    /// Returns whether a block of its kind may have its length. `longest` is the words of a
    /// sub-buffer.
    pub(super) fn is_possible(self, longest: u64) -> bool {
        let words = self.bytes / 8;
        match self.kind {
            block::SUB_BUFFER => (sub_buffer::WORDS as u64..=longest).contains(&words),
            block::READING => words >= reading::WORDS as u64,
            block::RING => words >= ring::WORDS as u64,
            block::UNSEEN => words >= 2,
            block::DEFINITIONS => self.bytes <= block::MOST_DEFINITIONS,
            _ => true,
        }
    }
}

/// Returns the header of the block at this place; `None` if the file ends before.
pub(super) fn block_at(source: &mut dyn Source, at: u64, length: u64) -> io::Result<Option<BlockHeader>> {
    if at.checked_add(BLOCK_HEADER_BYTES).is_none_or(|end| end > length) {
        return Ok(None);
    }
    let words = words_of(&bytes_at(source, at, block::WORDS * 8)?);
    let [magic, kind, bytes, ring] =
        [block::MAGIC_AT, block::KIND_AT, block::BYTES_AT, block::RING_AT].map(|at| words[at]);
    Ok(Some(BlockHeader { magic, kind, bytes, ring }))
}

/// Returns some bytes of the file; an error if it ends before.
pub(super) fn bytes_at(source: &mut dyn Source, at: u64, bytes: usize) -> io::Result<Vec<u8>> {
    let mut content = vec![0; bytes];
    source.seek(SeekFrom::Start(at))?;
    source.read_exact(&mut content)?;
    Ok(content)
}
