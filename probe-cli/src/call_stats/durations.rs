//! The times of one function's calls: quantiles, the mean with its error, and their spread.

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

/// Most times that are kept one by one. More go into a histogram, so only functions with many calls
/// cost the memory of one.
const MAX_EXACT: usize = 256;
/// Most batches at a time. Pairs are joined when there are as many.
const MAX_BATCHES: usize = 64;
/// Fewest batches that give an error.
const MIN_BATCHES: usize = 8;

/// Times in nanoseconds, in the order in which calls ended.
pub struct Durations {
    count: u64,
    sum: u128,
    max: u64,
    times: Times,
    batches: Batches,
}

/// The times, for quantiles.
enum Times {
    Exact(Vec<u64>),
    /// To two digits.
    Histogram(Histogram<u64>),
}

/// Sums of batches of calls in a row. Calls that follow each other are alike: a cache is warm, a
/// disk is busy. So single calls tell too little about the error of their mean, and the means of
/// longer and longer batches tell more.
struct Batches {
    size: u64,
    full: Vec<Batch>,
    /// The batch that is not full, and its number of calls.
    open: Batch,
    calls: u64,
    /// Sum of the squares of all logarithms.
    squares: f64,
}

#[derive(Clone, Copy, Default)]
struct Batch {
    sum: f64,
    /// Sum of the logarithms, which rare long calls don't dominate.
    logarithms: f64,
    slowest: u64,
}

impl Batch {
    fn and(self, other: Self) -> Self {
        Self {
            sum: self.sum + other.sum,
            logarithms: self.logarithms + other.logarithms,
            slowest: self.slowest.max(other.slowest),
        }
    }
}

impl Default for Durations {
    fn default() -> Self {
        let batches = Batches { size: 1, full: Vec::new(), open: Batch::default(), calls: 0, squares: 0.0 };
        Self { count: 0, sum: 0, max: 0, times: Times::Exact(Vec::new()), batches }
    }
}

impl Durations {
    /// Adds a call's time.
    pub fn add(&mut self, time: u64) {
        self.count += 1;
        self.sum += u128::from(time);
        self.max = self.max.max(time);
        self.batches.add(time);
        match &mut self.times {
            Times::Exact(times) if times.len() < MAX_EXACT => times.push(time),
            Times::Exact(times) => {
                let Ok(mut histogram) = Histogram::new(2) else { return };
                for time in times.drain(..).chain([time]) {
                    // It grows to any time.
                    let _ = histogram.record(time);
                }
                self.times = Times::Histogram(histogram);
            }
            Times::Histogram(histogram) => _ = histogram.record(time),
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

    /// Returns the spread, by which runs are compared; `None` with too few calls.
    pub fn spread(&self) -> Option<Spread> {
        let mut times_ns = Vec::new();
        match &self.times {
            Times::Exact(times) => times_ns.extend(times.iter().map(|time| (*time, 1))),
            Times::Histogram(histogram) => times_ns
                .extend(histogram.iter_recorded().map(|it| (it.value_iterated_to(), it.count_at_value()))),
        }
        times_ns.sort_unstable();
        times_ns.dedup_by(|next, kept| {
            let is_same = next.0 == kept.0;
            kept.1 += if is_same { next.1 } else { 0 };
            is_same
        });
        let batches = &self.batches;
        let slowest_ns =
            batches.full.iter().chain((batches.calls != 0).then_some(&batches.open)).map(|it| it.slowest);
        Some(Spread {
            independent: batches.independent(self.count)?,
            times_ns,
            slowest_ns: slowest_ns.collect(),
        })
    }

    /// Returns the time that this fraction of the calls does not exceed: exactly for few calls, to
    /// two digits for many.
    pub fn quantile(&mut self, part: f64) -> u64 {
        match &mut self.times {
            Times::Exact(times) => {
                times.sort_unstable();
                #[expect(
                    clippy::cast_possible_truncation,
                    clippy::cast_sign_loss,
                    reason = "a part of at most 256"
                )]
                let rank = (part * times.len() as f64).ceil() as usize;
                times.get(rank.saturating_sub(1)).copied().unwrap_or_default()
            }
            Times::Histogram(histogram) => histogram.value_at_quantile(part).min(self.max),
        }
    }
}

impl Batches {
    fn add(&mut self, time: u64) {
        let logarithm = (time.max(1) as f64).ln();
        self.squares += logarithm * logarithm;
        self.open = self.open.and(Batch { sum: time as f64, logarithms: logarithm, slowest: time });
        self.calls += 1;
        if self.calls < self.size {
            return;
        }
        self.full.push(self.open);
        (self.open, self.calls) = (Batch::default(), 0);
        if self.full.len() == MAX_BATCHES {
            self.full = self.full.chunks(2).map(|pair| pair[0].and(pair[1])).collect();
            self.size *= 2;
        }
    }

    /// Returns the variance of the batches' means, corrected for their dependence on the batch
    /// before, which their covariance tells; `None` with too few batches.
    fn variance(&self, of: impl Fn(&Batch) -> f64) -> Option<f64> {
        const MOST: f64 = 0.9;
        if self.full.len() < MIN_BATCHES {
            return None;
        }
        let many = self.full.len() as f64;
        let means: Vec<_> = self.full.iter().map(|batch| of(batch) / self.size as f64).collect();
        let mean = means.iter().sum::<f64>() / many;
        let squares: f64 = means.iter().map(|it| (it - mean).powi(2)).sum();
        let products: f64 = means.windows(2).map(|it| (it[0] - mean) * (it[1] - mean)).sum();
        let dependence = (products / squares).clamp(0.0, MOST);
        let wider = if dependence > 0.0 { (1.0 + dependence) / (1.0 - dependence) } else { 1.0 };
        Some(squares / (many - 1.0) * wider)
    }

    fn error(&self) -> Option<f64> {
        let many = self.full.len() as f64;
        let variance = self.variance(|it| it.sum)?;
        // Student's t for 95 %, within 1 % from 7 degrees of freedom on.
        let freedom = many - 1.0;
        let t = 1.96 + 2.5 / freedom + 3.0 / (freedom * freedom);
        Some(t * (variance / many).sqrt())
    }

    /// Returns the number of independent calls that would tell as much. It is less than the number
    /// of calls by the factor by which batches vary more than batches of independent calls would.
    fn independent(&self, calls: u64) -> Option<f64> {
        let of_batches = self.variance(|it| it.logarithms)? * self.size as f64;
        let calls = calls as f64;
        let all = self.full.iter().chain([&self.open]).map(|it| it.logarithms).sum::<f64>();
        let of_calls = (self.squares - all * all / calls) / (calls - 1.0);
        Some(if of_batches > of_calls { calls * of_calls.max(0.0) / of_batches } else { calls }.max(1.0))
    }
}

/// The times of one function's calls.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Spread {
    /// The number of independent calls that would tell as much.
    pub independent: f64,
    /// Times from the shortest up, each with its number of calls.
    pub times_ns: Vec<(u64, u64)>,
    /// The longest time of each part of the run. Parts have equal numbers of calls.
    pub slowest_ns: Vec<u64>,
}

impl Spread {
    /// Returns the time that this fraction of the calls does not exceed.
    pub fn quantile(&self, part: f64) -> u64 {
        quantile(&self.times_ns, part)
    }

    /// Returns a quantile between its bounds, which are this number of standard errors away. A
    /// bound is `None` beyond the shortest call, or the longest.
    pub fn bounds(&self, part: f64, errors: f64) -> (Option<u64>, u64, Option<u64>) {
        let half = errors * (part * (1.0 - part) / self.independent).sqrt();
        let (low, high) = (part - half, part + half);
        let low = (low > 0.0).then(|| self.quantile(low));
        (low, self.quantile(part), (high < 1.0).then(|| self.quantile(high)))
    }

    /// Returns the number of the run's parts that have a call of more than this time, and the sum
    /// of the times of such calls.
    pub fn beyond(&self, limit: f64) -> (f64, f64) {
        let is_beyond = |time: u64| time as f64 > limit;
        let parts = self.slowest_ns.iter().filter(|it| is_beyond(**it)).count();
        let times = self.times_ns.iter().filter(|it| is_beyond(it.0));
        (parts as f64, times.map(|(time, calls)| *time as f64 * *calls as f64).sum())
    }
}

/// Returns the time that this fraction of the calls of both runs together does not exceed.
pub fn pooled_quantile(one: &Spread, other: &Spread, part: f64) -> u64 {
    let mut times = [&one.times_ns[..], &other.times_ns[..]].concat();
    times.sort_unstable();
    quantile(&times, part)
}

fn quantile(times: &[(u64, u64)], part: f64) -> u64 {
    let all: u64 = times.iter().map(|it| it.1).sum();
    let mut left = part * all as f64;
    for (time, calls) in times {
        left -= *calls as f64;
        // Tolerates rounding errors, which are far below one call.
        if left <= 1e-6 {
            return *time;
        }
    }
    times.last().map_or(0, |it| it.0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::Rng;
    use proptest::test_runner::{RngAlgorithm, TestRng};

    use super::*;

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
