//! A histogram of fixed size that hits write: 32 buckets for each doubling, as in `HdrHistogram`.
//!
//! ```text
//! value     0 … 31   32 … 63   64 … 127    …   2⁴⁷ … 2⁴⁸−1
//! bucket    0 … 31   32 … 63   64 … 95     …   1376 … 1407       each 1, 1, 2, … 2⁴² wide
//! ```
//! So a bucket is at most as wide as a thirty-second of its values. Recording takes a count of
//! leading zeros, a shift and an addition.

use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The number of buckets for each doubling, as a power of two.
const BITS: u32 = 5;
/// The largest value with a bucket of its own: a day, in ticks of 3 GHz. Larger values count in the
/// last bucket.
const MAX: u64 = (1 << 48) - 1;

pub(super) const BUCKETS: usize = index(MAX) + 1;

/// The counts of one thread.
#[repr(C)]
pub(super) struct Buckets([AtomicU64; BUCKETS]);

#[inline(always)]
pub(super) const fn index(value: u64) -> usize {
    let value = if value < MAX { value } else { MAX };
    let shift = (value | (1 << BITS)).ilog2() - BITS;
    #[expect(clippy::cast_possible_truncation, reason = "less than `BUCKETS`")]
    let place = (value >> shift) as usize;
    ((shift as usize) << BITS) + place
}

pub(super) fn values(bucket: usize) -> RangeInclusive<u64> {
    let shift = (bucket >> BITS).saturating_sub(1);
    let place = (bucket - (shift << BITS)) as u64;
    (place << shift)..=((place + 1) << shift) - 1
}

/// Clamps a time to the values of a bucket. The last bucket has no upper end.
pub(super) fn within(bucket: usize, time: u64) -> u64 {
    let values = values(bucket);
    let end = if bucket + 1 == BUCKETS { u64::MAX } else { *values.end() };
    time.clamp(*values.start(), end)
}

impl Buckets {
    /// Counts a value. Only the thread that owns the histogram may call this, so no locked
    /// instruction is needed.
    #[inline(always)]
    pub(super) fn record(&self, value: u64) {
        let Some(count) = self.0.get(index(value)) else { return };
        count.store(count.load(Relaxed).wrapping_add(1), Relaxed);
    }

    /// Adds the counts to those of other threads.
    pub(super) fn add_to(&self, sums: &mut [u64; BUCKETS]) {
        sums.iter_mut().zip(&self.0).for_each(|(sum, count)| *sum += count.load(Relaxed));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn buckets_follow_each_other() {
        assert_eq!(BUCKETS, 1408);
        let mut next = 0;
        for bucket in 0..BUCKETS {
            let values = values(bucket);
            assert_eq!(*values.start(), next);
            assert_eq!([index(*values.start()), index(*values.end())], [bucket, bucket]);
            next = values.end() + 1;
        }
        assert_eq!(next, MAX + 1);
        assert_eq!([index(MAX + 1), index(u64::MAX)], [BUCKETS - 1; 2]);
    }

    proptest! {
        #[test]
        fn a_bucket_is_a_thirty_second_of_its_values_wide(value in 0..=MAX) {
            let values = values(index(value));
            prop_assert!(values.contains(&value));
            prop_assert!(values.end() - values.start() <= values.start() / 32);
        }
    }
}
