//! Calls grouped by their time.

use std::sync::Arc;

/// Calls grouped by their time: the number of calls below each of some bounds.
///
/// ```
/// use probe_runtime::metrics::{Metrics, MetricValue};
/// let mut metrics = Metrics::default();
/// // Two calls of 800 ns, and one of 20 s.
/// metrics.histogram("query_seconds", "Queries.", &[], 20_000_001_600, &[(800, 2), (20_000_000_000, 1)]);
/// let series = metrics.families().next().unwrap().series().next().unwrap();
/// let MetricValue::Histogram(histogram) = series.value else { panic!("{series:?}") };
/// assert_eq!(histogram.cumulative().next(), Some((1_000, 2))); // two took at most 1 µs
/// assert_eq!(histogram.cumulative().last(), Some((10_000_000_000, 2)));
/// assert_eq!((histogram.calls(), histogram.sum()), (3, 20_000_001_600));
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Histogram {
    bounds: Arc<[u64]>,
    cumulative: Vec<u64>,
    calls: u64,
    sum: u64,
}

/// 1, 2.5 and 5 of each decade from a microsecond to ten seconds, in nanoseconds.
pub(super) const BOUNDS: [u64; 22] = [
    1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000, 1_000_000, 2_500_000, 5_000_000,
    10_000_000, 25_000_000, 50_000_000, 100_000_000, 250_000_000, 500_000_000, 1_000_000_000, 2_500_000_000,
    5_000_000_000, 10_000_000_000,
];

impl Histogram {
    /// Creates a histogram. `times` are times in nanoseconds, each with its number of calls, in any
    /// order.
    pub(super) fn new(bounds: Arc<[u64]>, sum: u64, times: &[(u64, u64)]) -> Self {
        let mut cumulative = vec![0; bounds.len()];
        let mut calls = 0;
        for (time, of_it) in times {
            calls += of_it;
            // The first bound that is not below the time. A time above the last bound counts only
            // in `calls`.
            if let Some(count) = cumulative.get_mut(bounds.partition_point(|bound| bound < time)) {
                *count += of_it;
            }
        }
        let mut below = 0;
        for count in &mut cumulative {
            below += *count;
            *count = below;
        }
        Self { bounds, cumulative, calls, sum }
    }

    /// Adds the calls of another histogram, with the same bounds.
    pub(super) fn add(&mut self, other: &Self) {
        self.cumulative.iter_mut().zip(&other.cumulative).for_each(|(a, b)| *a += b);
        self.calls += other.calls;
        self.sum += other.sum;
    }

    /// Keeps each number from falling below its former value. The result is still cumulative: the
    /// larger of two ascending sequences, number by number, ascends.
    pub(super) fn raise(&mut self, before: &Self) {
        self.cumulative.iter_mut().zip(&before.cumulative).for_each(|(now, it)| *now = (*now).max(*it));
        self.calls = self.calls.max(before.calls);
        self.sum = self.sum.max(before.sum);
    }

    /// Iterates over the bounds in nanoseconds, ascending, with the number of calls that took at
    /// most that long. A call is counted at each bound that it stays below.
    pub fn cumulative(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.bounds.iter().copied().zip(self.cumulative.iter().copied())
    }

    /// Returns the number of all calls, those above the last bound included.
    pub fn calls(&self) -> u64 {
        self.calls
    }

    /// Returns the time of all calls together, in nanoseconds.
    pub fn sum(&self) -> u64 {
        self.sum
    }
}
