//! A median, and the samples between which the true one lies.

/// A median with its confidence interval. The truth is within it in at least 95 of 100 cases, for
/// any distribution. It is computed from the order of the samples alone (a sign test).
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Interval {
    /// The median of the samples; the mean of the middle two of an even number.
    pub median: f64,
    /// The lower end; −∞ if the samples are too few to say.
    pub low: f64,
    /// The upper end; ∞ if the samples are too few to say.
    pub high: f64,
}

impl Interval {
    /// Computes the interval of these samples.
    ///
    /// # Panics
    /// If there are none.
    pub fn of(mut samples: Vec<f64>) -> Self {
        samples.sort_by(f64::total_cmp);
        let number = samples.len();
        let median = f64::midpoint(samples[(number - 1) / 2], samples[number / 2]);
        let (low, high) = match outer(number) {
            Some(rank) => (samples[rank], samples[number - 1 - rank]),
            None => (f64::NEG_INFINITY, f64::INFINITY),
        };
        Self { median, low, high }
    }

    /// Returns half its width.
    pub fn half(&self) -> f64 {
        (self.high - self.low) / 2.0
    }
}

/// Returns how many samples lie outside on each side: the largest number for which, in fewer than
/// 2.5 of 100 cases, this many samples are above (or below) the true median.
fn outer(samples: usize) -> Option<usize> {
    let (mut rank, mut sum) = (None, 0.0);
    // Binomial probabilities as logarithms, since 2^-n underflows for many samples.
    let mut term = -(f64::from(u32::try_from(samples).ok()?)) * std::f64::consts::LN_2;
    for below in 0..samples / 2 {
        sum += term.exp();
        if sum > 0.025 {
            break;
        }
        rank = Some(below);
        let (rest, next) = (u32::try_from(samples - below).ok()?, u32::try_from(below + 1).ok()?);
        term += (f64::from(rest) / f64::from(next)).ln();
    }
    rank
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_those_of_the_sign_test() {
        // Published tables: the first value with this many samples.
        assert_eq!(
            [5, 6, 9, 12, 20, 40, 100].map(outer),
            [None, Some(0), Some(1), Some(2), Some(5), Some(13), Some(39)]
        );
    }

    #[test]
    fn an_interval_is_of_the_samples_in_order() {
        let interval = Interval::of(vec![3.0, 1.0, 2.0, 9.0, 5.0, 4.0]);
        assert_eq!(interval, Interval { median: 3.5, low: 1.0, high: 9.0 });
        assert!((interval.half() - 4.0).abs() < 1e-9);
    }
}
