//! Estimates and their errors. Pure.
//!
//! - What was counted, or timed, at each call needs none.
//! - What was counted in windows: the ratio of their calls to the processors' time that the program
//!   has used in them, times all of that time. Each window stands at a random instant of its own
//!   stretch of time, so the ratio is right whatever the program does. (Cochran, *Sampling
//!   Techniques*, 1977, 6: ratio estimates.)
//! - What was timed in windows: the ratio of the windows' times to their calls, each weighted by
//!   what it stands for. (The same, 9: calls of a window are a cluster.)
//! - Errors come from the spread between windows, as far as Student's distribution says for a third
//!   of their number, or for as many as would say as much if they were alike: few that are unlike the
//!   others lean to one side. Too few windows say nothing: then an estimate is a lower bound.
//! - What no window has seen may be there all the same ([`hidden`]): windows begin at random instants,
//!   so the part of them that begins inside of calls that are longer than any timed one is the part of
//!   time that such calls take.

/// A number and its error.
///
/// ```
/// use probe_runtime::{Profiler, probe, select};
///
/// #[probe]
/// fn decode() {}
///
/// let profiler = select("**::decode")?.attach(Profiler::new())?;
/// decode();
/// let profile = profiler.profile();
/// for function in profile.iter() {
///     let calls = function.calls();
///     match () {
///         () if calls.is_exact() => println!("{:.0} calls", calls.value),
///         () if calls.is_at_least() => println!("{:.0} calls or more", calls.value),
///         () => println!("{:.0} ± {:.0} calls", calls.value, calls.error),
///     }
/// }
/// # Ok::<(), probe_runtime::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Default, Debug)]
pub struct Estimated {
    /// The best estimate; of a lower bound, that.
    pub value: f64,
    /// In 95 of 100 cases, the true number is no farther from the value than this. 0 if it is
    /// exact; infinite if the value is a lower bound, and nothing is known above.
    pub error: f64,
}

impl Estimated {
    /// A number without an error.
    pub(crate) fn exactly(value: f64) -> Self {
        Self { value, error: 0.0 }
    }

    /// A lower bound.
    pub(super) fn at_least(value: f64) -> Self {
        Self { value, error: f64::INFINITY }
    }

    /// Whether it is exact.
    pub fn is_exact(self) -> bool {
        self.error == 0.0
    }

    /// Whether it is a lower bound, and nothing is known above.
    pub fn is_at_least(self) -> bool {
        self.error == f64::INFINITY
    }

    /// The error, if one is known.
    pub(in crate::consumers) fn known_error(self) -> Option<f64> {
        Some(self.error).filter(|error| error.is_finite())
    }

    /// The number and its error, for a table.
    pub(in crate::consumers) fn cells(self, text: impl Fn(f64) -> String) -> [String; 2] {
        match () {
            () if self.is_exact() => [text(self.value), "exact".to_owned()],
            () if self.is_at_least() => [format!("≥ {}", text(self.value)), String::new()],
            () => [text(self.value), text(self.error)],
        }
    }

    /// The same in another unit.
    pub(super) fn times(self, factor: f64) -> Self {
        Self { value: self.value * factor, error: self.error * factor }
    }

    /// The same, or more by so much.
    pub(super) fn or_more(self, by: f64) -> Self {
        Self { error: self.error + by, ..self }
    }

    /// What is left of one that may be nothing, or twice as much: what it is at least, as it was
    /// before it became so uncertain; `None` if that is nothing.
    pub(super) fn or_at_least(self, before: Self) -> Option<Self> {
        let least = before.value - before.error;
        match () {
            () if self.value > 0.0 && self.error <= self.value => Some(self),
            () => (least > 0.0).then(|| Self::at_least(least)),
        }
    }
}

/// The part of time, at most, that is in what `seen` of `looks` at random instants have met: in 95 of
/// 100 cases. (That is 3 / `looks` if it was never met.)
pub(super) fn hidden(seen: f64, looks: f64) -> f64 {
    if looks > 0.0 { ((seen + 2.0 * seen.sqrt() + 3.0) / looks).min(1.0) } else { 1.0 }
}

/// How many standard errors it takes to cover 95 of 100 cases, after so many degrees of freedom.
fn reach(freedom: f64) -> f64 {
    const FIRST: [f64; 4] = [12.71, 4.30, 3.18, 2.78];
    if freedom < 4.0 {
        let freedom = freedom.max(1.0);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "1 to 3")]
        let (below, part) = (freedom as usize, freedom.fract());
        return FIRST[below - 1] * (FIRST[below] / FIRST[below - 1]).powf(part);
    }
    // Within 0.01 of Student's.
    1.96 + 2.37 / freedom + 2.82 / freedom.powi(2) + 2.56 / freedom.powi(3)
}

/// Calls that windows have counted, by the time that the program has worked in them.
#[derive(Clone, Copy, PartialEq, Default, Debug)]
pub(super) struct Rates {
    ratio: Ratio,
    counted: f64,
    /// By how much hits have made windows longer, of all that they counted.
    disturbed: f64,
}

/// So many windows, and so many calls in them, are needed for an estimate.
const LEAST_WINDOWS: f64 = 4.0;
const LEAST_CALLS: f64 = 10.0;
/// How uncertain it is by how much hits have disturbed a window, and by how much the switching before
/// it has: the program's code and data come back to the caches in it.
const DOUBT: f64 = 0.8;
const DISTURBED: f64 = 0.06;

impl Rates {
    /// Adds a window. The program has worked in it for `worked`, of which hits took a part.
    pub(super) fn add(&mut self, weight: f64, calls: f64, worked: f64, hits: f64) {
        let left = (worked - hits).max(0.2 * worked);
        if left > 0.0 || calls > 0.0 {
            let left = left.max(f64::MIN_POSITIVE);
            self.ratio.add(weight, left, calls);
            self.counted += calls;
            self.disturbed += calls * (worked / left - 1.0).max(0.0);
        }
    }

    /// Calls while the program has worked for so long; `None` if windows say too little.
    pub(super) fn over(&self, worked: f64) -> Option<Estimated> {
        let Estimated { value: rate, error } = self.ratio.mean().filter(|_| self.counted >= LEAST_CALLS)?;
        // Windows of whole calls are no better than their number.
        let by_chance = error.max(2.0 * rate / self.counted.sqrt());
        let by_hits = DOUBT * rate * self.disturbed / self.counted;
        let error = by_chance.hypot(by_hits).hypot(DISTURBED * rate);
        Some(Estimated { value: rate, error }.times(worked))
    }
}

/// A mean from windows, each weighted by what it stands for: of times by calls, or of calls by time.
#[derive(Clone, Copy, PartialEq, Default, Debug)]
pub(super) struct Ratio {
    windows: f64,
    calls: f64,
    time: f64,
    calls_squared: f64,
    time_squared: f64,
    product: f64,
}

impl Ratio {
    /// Adds a window, if it has calls.
    pub(super) fn add(&mut self, weight: f64, calls: f64, time: f64) {
        if calls > 0.0 {
            let (calls, time) = (weight * calls, weight * time);
            self.windows += 1.0;
            self.calls += calls;
            self.time += time;
            self.calls_squared += calls * calls;
            self.time_squared += time * time;
            self.product += calls * time;
        }
    }

    /// The mean; `None` if windows say too little.
    pub(super) fn mean(&self) -> Option<Estimated> {
        if self.windows < LEAST_WINDOWS {
            return None;
        }
        let mean = self.time / self.calls;
        let spread = self.time_squared - 2.0 * mean * self.product + mean * mean * self.calls_squared;
        // How many windows would say as much, if they were alike. (Kish, *Survey Sampling*, 1965, 11.7.)
        let alike = |sum: f64, squares: f64| if squares > 0.0 { sum * sum / squares } else { 0.0 };
        let alike = alike(self.calls, self.calls_squared).min(alike(self.time, self.time_squared));
        let deviation = (spread.max(0.0) * self.windows / (self.windows - 1.0)).sqrt() / self.calls;
        Some(Estimated { value: mean, error: reach((alike - 1.0).min(self.windows / 3.0)) * deviation })
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::float_cmp, reason = "numbers that are exact")]

    use super::*;

    #[test]
    fn students_distribution() {
        for (freedom, expected) in
            [(0.5, 12.706), (1.0, 12.706), (2.0, 4.303), (3.0, 3.182), (4.0, 2.776), (30.0, 2.042)]
        {
            assert!((reach(freedom) - expected).abs() < 0.01, "{freedom}: {}", reach(freedom));
        }
    }

    #[test]
    fn windows_stand_for_their_time() {
        let mut rates = Rates::default();
        for calls in [10.0, 30.0, 20.0] {
            rates.add(25.0, calls, 2.0, 0.0);
        }
        // In which the program did not work.
        rates.add(25.0, 0.0, 0.0, 0.0);
        assert_eq!(rates.over(150.0), None, "too few");
        rates.add(25.0, 20.0, 2.0, 0.0);
        // Rates of 5, 15, 10 and 10: a variance of 50 / 3, and a third of the windows: 10 ± 8.86 * 2.04, and 0.6.
        let Estimated { value, error } = rates.over(200.0).unwrap();
        assert!((value - 2000.0).abs() < 1e-9 && (error / 200.0 - 18.09).abs() < 0.05, "{error}");
        // Half of a window was hits: it tells of the other half, not well.
        let mut disturbed = Rates::default();
        (0..50).for_each(|_| disturbed.add(5.0, 1e6, 2.0, 1.0));
        let Estimated { value, error } = disturbed.over(500.0).unwrap();
        assert!((value - 5e8).abs() < 1.0 && (error / value - 0.8).abs() < 0.01, "{error}");
    }

    #[test]
    fn times_are_weighted_by_calls() {
        let mut ratio = Ratio::default();
        ratio.add(10.0, 0.0, 0.0);
        (0..3).for_each(|_| ratio.add(10.0, 4.0, 40.0));
        assert_eq!(ratio.mean(), None);
        ratio.add(10.0, 4.0, 40.0);
        assert_eq!(ratio.mean(), Some(Estimated::exactly(10.0)));
        ratio.add(160.0, 1.0, 110.0);
        let Estimated { value, error } = ratio.mean().unwrap();
        assert!((value - 60.0).abs() < 1e-9 && error > 60.0, "one of them is unlike the others: {error}");
    }

    #[test]
    fn what_was_never_met_may_be_hidden() {
        assert_eq!([hidden(0.0, 300.0), hidden(25.0, 100.0)], [0.01, 0.38]);
        assert_eq!([hidden(0.0, 0.0), hidden(50.0, 50.0)], [1.0, 1.0]);
    }

    #[test]
    fn what_says_too_little_is_a_lower_bound() {
        let sure = Estimated { value: 10.0, error: 2.0 };
        assert_eq!(sure.or_more(8.0).or_at_least(sure), Some(Estimated { value: 10.0, error: 10.0 }));
        assert_eq!(sure.or_more(8.1).or_at_least(sure), Some(Estimated::at_least(8.0)));
        assert_eq!(
            Estimated { error: 10.0, ..sure }.or_more(1.0).or_at_least(Estimated { error: 10.0, ..sure }),
            None
        );
    }
}
