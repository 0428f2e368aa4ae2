//! The pages that hold counting blocks ([`blocks`](super::blocks) makes them).

use std::ops::Range;

/// The pages of all blocks.
#[derive(Default)]
pub(super) struct Blocks {
    pub(super) mappings: Vec<Range<usize>>,
    pub(super) refusal: Option<NoMoreBlocks>,
}

/// The reason why there are no more blocks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum NoMoreBlocks {
    ForGood,
    UntilObjectsChange,
}

impl Blocks {
    /// Allows another try after objects changed, since free memory may be within reach now.
    pub(super) fn retry(&mut self) {
        self.refusal.take_if(|refusal| *refusal == NoMoreBlocks::UntilObjectsChange);
    }
}
