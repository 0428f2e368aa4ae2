//! Words in every thread's slot for a consumer's own use, from the same stock as counters.

use std::ops::Range;

use super::lock::lock;
use crate::engine::dispatch::CounterAt;
use crate::engine::error::Error;

/// A few words of each slot, zero at first. Dropping it gives them back; no thread may use them any
/// more then.
#[derive(Debug)]
pub(crate) struct Cells<const N: usize> {
    range: Range<usize>,
    at: [CounterAt; N],
}

impl<const N: usize> Cells<N> {
    /// Takes `N` words of each slot.
    ///
    /// # Errors
    /// [`Error::OutOfCounters`] if fewer than `N` are left.
    pub(crate) fn take() -> Result<Self, Error> {
        let range = lock().attachments.counters.take(N).ok_or(Error::OutOfCounters { wanted: N })?;
        let at = std::array::from_fn(|number| CounterAt::new(range.start + number));
        Ok(Self { range, at })
    }

    /// Returns their places in each slot.
    #[inline(always)]
    pub(crate) fn at(&self) -> [CounterAt; N] {
        self.at
    }
}

impl<const N: usize> Drop for Cells<N> {
    fn drop(&mut self) {
        lock().attachments.counters.give_back(self.range.clone(), N);
    }
}
