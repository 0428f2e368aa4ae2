//! The times of one function's calls: quantiles, and the mean with its error.

use hdrhistogram::Histogram;

/// Times that are kept one by one. More go into a histogram, which a trace can't ask for with less
/// than this many calls.
const EXACT: usize = 256;
/// Most batches at a time, and half as many after two of them were made one.
const BATCHES: usize = 64;
/// Fewest batches for an error.
const FEWEST: usize = 8;

/// Times in nanoseconds, in the order in which calls ended.
pub struct Durations {
    count: u64,
    sum: u128,
    max: u64,
    kept: Kept,
    batches: Batches,
}

/// The times, for quantiles.
enum Kept {
    Exact(Vec<u64>),
    /// To two digits.
    Histogram(Histogram<u64>),
}

/// Sums of so many calls in a row each. Calls that follow each other are alike: a cache is warm, a
/// disk is busy. So calls by themselves tell too little about the error of their mean, and means of
/// longer and longer batches tell more.
struct Batches {
    size: u64,
    sums: Vec<f64>,
    /// Calls and sum of the batch that is not full.
    open: (u64, f64),
}

impl Default for Durations {
    fn default() -> Self {
        let batches = Batches { size: 1, sums: Vec::new(), open: (0, 0.0) };
        Self { count: 0, sum: 0, max: 0, kept: Kept::Exact(Vec::new()), batches }
    }
}

impl Durations {
    /// Adds a call's time.
    pub fn add(&mut self, time: u64) {
        self.count += 1;
        self.sum += u128::from(time);
        self.max = self.max.max(time);
        self.batches.add(time);
        match &mut self.kept {
            Kept::Exact(times) if times.len() < EXACT => times.push(time),
            Kept::Exact(times) => {
                let Ok(mut histogram) = Histogram::new(2) else { return };
                for time in times.drain(..).chain([time]) {
                    // It grows to any time.
                    let _ = histogram.record(time);
                }
                self.kept = Kept::Histogram(histogram);
            }
            Kept::Histogram(histogram) => _ = histogram.record(time),
        }
    }

    /// Returns the number of calls.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Returns the longest time.
    pub fn max(&self) -> u64 {
        self.max
    }

    /// Returns the mean; 0 without a call.
    pub fn mean(&self) -> f64 {
        if self.count == 0 { 0.0 } else { self.sum as f64 / self.count as f64 }
    }

    /// Returns half the width of the mean's interval of 95 % confidence; `None` with too few calls.
    pub fn error(&self) -> Option<f64> {
        self.batches.error()
    }

    /// Returns the time that this part of the calls does not exceed: exactly of few calls, to two
    /// digits of many.
    pub fn quantile(&mut self, part: f64) -> u64 {
        match &mut self.kept {
            Kept::Exact(times) => {
                times.sort_unstable();
                #[expect(
                    clippy::cast_possible_truncation,
                    clippy::cast_sign_loss,
                    reason = "a part of at most 256"
                )]
                let rank = (part * times.len() as f64).ceil() as usize;
                times.get(rank.saturating_sub(1)).copied().unwrap_or_default()
            }
            Kept::Histogram(histogram) => histogram.value_at_quantile(part).min(self.max),
        }
    }
}

impl Batches {
    fn add(&mut self, time: u64) {
        self.open = (self.open.0 + 1, self.open.1 + time as f64);
        if self.open.0 < self.size {
            return;
        }
        self.sums.push(self.open.1);
        self.open = (0, 0.0);
        if self.sums.len() == BATCHES {
            self.sums = self.sums.chunks(2).map(|pair| pair.iter().sum()).collect();
            self.size *= 2;
        }
    }

    fn error(&self) -> Option<f64> {
        if self.sums.len() < FEWEST {
            return None;
        }
        let many = self.sums.len() as f64;
        let means = || self.sums.iter().map(|sum| sum / self.size as f64);
        let mean = means().sum::<f64>() / many;
        let variance = means().map(|it| (it - mean).powi(2)).sum::<f64>() / (many - 1.0);
        // Student's t for 95 %, within 1 % from 7 degrees of freedom on.
        let freedom = many - 1.0;
        let t = 1.96 + 2.5 / freedom + 3.0 / (freedom * freedom);
        Some(t * (variance / many).sqrt())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::Rng;
    use proptest::test_runner::{RngAlgorithm, TestRng};

    fn of(times: impl IntoIterator<Item = u64>) -> Durations {
        let mut durations = Durations::default();
        times.into_iter().for_each(|time| durations.add(time));
        durations
    }

    #[test]
    fn quantiles_of_few_calls_are_exact_and_those_of_many_close() {
        let mut few = of((1..=200).rev());
        assert_eq!([0.5, 0.99, 1.0].map(|part| few.quantile(part)), [100, 198, 200]);
        assert_eq!((few.count(), few.max(), few.mean()), (200, 200, 100.5));
        let mut many = of((1..=100_000).map(|time| time * 10));
        let near = |value: u64, exact: u64| value.abs_diff(exact) * 100 <= exact;
        assert!(near(many.quantile(0.5), 500_000) && near(many.quantile(0.99), 990_000));
        assert_eq!(many.quantile(1.0), 1_000_000);
        let mut none = of([]);
        assert_eq!((none.quantile(0.5), none.mean(), none.error()), (0, 0.0, None));
        assert!(of([u64::MAX; 300]).quantile(0.5) >= u64::MAX - 1);
    }

    #[test]
    fn equal_calls_have_no_error_and_few_have_none_that_is_known() {
        assert_eq!(of([7; 7]).error(), None);
        assert_eq!(of([7; 1000]).error(), Some(0.0));
    }

    /// Calls whose times wander, as those of programs do. Their own spread would promise errors
    /// that hold in a third of the cases.
    #[test]
    fn errors_hold_as_often_as_they_say() {
        let mut random = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
        let mut holds = 0;
        for _ in 0..400 {
            let mut level = 0.0;
            let times = (0..8_000).map(|_| {
                let step = f64::from(random.next_u32()) / f64::from(u32::MAX) - 0.5;
                level = 0.9 * level + step;
                #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "small")]
                let time = (1000.0 + 100.0 * level) as u64;
                time
            });
            let durations = of(times);
            // Half a nanosecond is cut off each.
            holds += u32::from((durations.mean() - 999.5).abs() <= durations.error().unwrap());
        }
        assert!((368..=392).contains(&holds), "{holds} of 400");
    }
}
