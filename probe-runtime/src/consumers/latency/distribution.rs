//! The calls of a function by their time: the buckets with calls, and on request an `hdrhistogram`
//! of them, which is a thousand times as large.

use std::sync::OnceLock;

use hdrhistogram::Histogram;

/// Significant digits of the returned histograms: far finer than the buckets.
const DIGITS: u8 = 3;

/// Times in nanoseconds.
#[derive(Clone, Debug)]
pub(super) struct Distribution {
    /// The middle of each bucket with calls, ascending, and the number of its calls.
    pub(super) buckets: Vec<(u64, u64)>,
    pub(super) calls: u64,
    histogram: OnceLock<Histogram<u64>>,
}

impl Distribution {
    pub(super) fn new(buckets: Vec<(u64, u64)>) -> Self {
        let calls = buckets.iter().map(|(_, calls)| calls).sum();
        Self { buckets, calls, histogram: OnceLock::new() }
    }

    pub(super) fn histogram(&self) -> &Histogram<u64> {
        self.histogram.get_or_init(|| {
            let mut histogram = Histogram::new(DIGITS).expect("as many digits as there can be");
            for (time, calls) in &self.buckets {
                histogram.record_n(*time, *calls).expect("it grows");
            }
            histogram
        })
    }
}

/// Whether the histogram has been built makes no difference.
impl PartialEq for Distribution {
    fn eq(&self, other: &Self) -> bool {
        self.buckets == other.buckets
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn building_the_histogram_changes_nothing() {
        let (asked, other) =
            (Distribution::new(vec![(7, 2), (90, 1)]), Distribution::new(vec![(7, 2), (90, 1)]));
        let histogram = asked.histogram();
        assert_eq!((histogram.len(), histogram.count_at(7), histogram.max()), (3, 2, 90));
        assert_eq!((asked.calls, &asked.buckets), (3, &other.buckets));
        assert_eq!(asked, other);
        assert_ne!(asked, Distribution::new(vec![(7, 3)]));
    }
}
