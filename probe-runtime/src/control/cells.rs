//! Words in every thread's slot that a consumer keeps for itself, from the same stock as counters.

use std::ops::Range;

use super::lock::lock;
use crate::dispatch::TallyAt;
use crate::error::Error;

/// A few words of each slot, zero at first; given back when it is dropped, when nobody uses them any more.
#[derive(Debug)]
pub(crate) struct Cells(Range<usize>);

impl Cells {
    /// Takes them.
    ///
    /// # Errors
    /// [`Error::OutOfCounters`] where there are not as many left.
    pub(crate) fn take(wanted: usize) -> Result<Self, Error> {
        lock().tallies.take(wanted).map(Self).ok_or(Error::OutOfCounters { wanted })
    }

    /// One of them.
    pub(crate) fn at(&self, number: usize) -> TallyAt {
        assert!(number < self.0.len(), "there are {} words", self.0.len());
        TallyAt::new(self.0.start + number)
    }
}

impl Drop for Cells {
    fn drop(&mut self) {
        lock().tallies.give_back(self.0.clone());
    }
}
