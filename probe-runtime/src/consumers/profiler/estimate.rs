//! Estimates and their errors. Pure.
//!
//! - Calls that were counted or timed one by one need no estimate.
//! - Calls that were counted in windows: the estimate is their number per CPU time of the program
//!   in the windows, times all CPU time of the program. Each window begins at a random instant of
//!   its own stretch of time, so the ratio is right whatever the program does. (Cochran, *Sampling
//!   Techniques*, 1977, 6: ratio estimates.)
//! - Calls that were timed in windows: the estimate is the ratio of the windows' times to their
//!   calls, each window weighted by the calls that it stands for. (The same, 9: the calls of a
//!   window are a cluster.)
//! - Errors come from the spread between windows, with Student's distribution for a third of their
//!   number, or for the number of equal windows that would say as much, if that is less: a few
//!   unusual windows skew the mean. With too few windows, an estimate is a lower bound.
//! - Calls that no window has seen may still exist ([`max_unseen_share`]). Windows begin at random
//!   instants. So the part of windows that begins inside of calls longer than any timed one is the
//!   part of time that such calls take.

use probe_report::{Bound, TableCell};

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
    /// The best estimate, or a lower bound.
    pub value: f64,
    /// In 95 of 100 cases, the true number is no farther from the value than this. 0 if the value
    /// is exact; infinite if it is a lower bound with no known upper bound.
    pub error: f64,
}

impl Estimated {
    /// Creates an estimate without an error.
    pub(crate) fn exactly(value: f64) -> Self {
        Self { value, error: 0.0 }
    }

    /// Creates a lower bound.
    pub(super) fn at_least(value: f64) -> Self {
        Self { value, error: f64::INFINITY }
    }

    /// Returns whether it is exact.
    pub fn is_exact(self) -> bool {
        self.error == 0.0
    }

    /// Returns whether it is a lower bound, with no known upper bound.
    pub fn is_at_least(self) -> bool {
        self.error == f64::INFINITY
    }

    /// Returns the error if it is finite.
    pub(in crate::consumers) fn known_error(self) -> Option<f64> {
        Some(self.error).filter(|error| error.is_finite())
    }

    /// Formats the number and its error for a table.
    pub(in crate::consumers) fn cells(
        self,
        cell: impl Fn(f64) -> TableCell<'static>,
    ) -> [TableCell<'static>; 2] {
        match () {
            () if self.is_exact() => [cell(self.value), "exact".into()],
            () if self.is_at_least() => [TableCell::bounded(Bound::AtLeast, cell(self.value)), "".into()],
            () => [cell(self.value), cell(self.error)],
        }
    }

    /// Converts to another unit.
    pub(super) fn times(self, factor: f64) -> Self {
        Self { value: self.value * factor, error: self.error * factor }
    }

    /// Adds to the error, since the true number may be larger by this.
    pub(super) fn widened_by(self, by: f64) -> Self {
        Self { error: self.error + by, ..self }
    }

    /// Returns the estimate if its error is no larger than its value. Otherwise returns a lower
    /// bound that holds according to the earlier estimate `before`, whose error is smaller; `None`
    /// if that is not above zero.
    pub(super) fn or_at_least(self, before: Self) -> Option<Self> {
        let least = before.value - before.error;
        match () {
            () if self.value > 0.0 && self.error <= self.value => Some(self),
            () => (least > 0.0).then(|| Self::at_least(least)),
        }
    }
}

/// Returns an upper bound, in 95 of 100 cases, for the part of time in a state that `seen` of
/// `windows` at random instants have met. (It is 3 / `windows` if none has met it.)
pub(super) fn max_unseen_share(seen: f64, windows: f64) -> f64 {
    if windows > 0.0 { ((seen + 2.0 * seen.sqrt() + 3.0) / windows).min(1.0) } else { 1.0 }
}

/// How long calls of any function have gone untimed, and how many windows there were by then.
#[derive(Clone, Copy, PartialEq, Default, Debug)]
pub(super) struct Untimed {
    pub(super) time: f64,
    /// How much of it windows did not look at.
    pub(super) unwatched: f64,
    pub(super) windows: f64,
}

impl Untimed {
    /// Returns how much of the time since `before` may have been inside of calls that are each
    /// timed, without a window having seen it. Infinite if windows can't tell.
    pub(super) fn unseen_since(self, before: Self) -> f64 {
        let [time, unwatched] = [self.time - before.time, self.unwatched - before.unwatched];
        let windows = self.windows - before.windows;
        match time {
            _ if time <= 0.0 => 0.0,
            _ if windows.is_nan() => f64::INFINITY,
            _ => unwatched + (time - unwatched).max(0.0) * max_unseen_share(0.0, windows),
        }
    }
}

/// Returns how many standard errors cover 95 of 100 cases, for these degrees of freedom.
fn student_t(freedom: f64) -> f64 {
    const FIRST_FOUR: [f64; 4] = [12.71, 4.30, 3.18, 2.78];
    if freedom < 4.0 {
        let freedom = freedom.max(1.0);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "1 to 3")]
        let (sampled_inner, part) = (freedom as usize, freedom.fract());
        return FIRST_FOUR[sampled_inner - 1]
            * (FIRST_FOUR[sampled_inner] / FIRST_FOUR[sampled_inner - 1]).powf(part);
    }
    // Within 0.01 of Student's distribution.
    1.96 + 2.37 / freedom + 2.82 / freedom.powi(2) + 2.56 / freedom.powi(3)
}

/// Calls that windows have counted, per time that the program worked in them.
#[derive(Clone, Copy, PartialEq, Default, Debug)]
pub(super) struct Rates {
    ratio: Ratio,
    counted_calls: f64,
    /// The sum over windows of their calls, times the part by which hits have lengthened the
    /// window.
    disturbed: f64,
}

/// The numbers of windows, and of calls in them, that an estimate needs.
const MIN_WINDOWS: f64 = 4.0;
const MIN_CALLS: f64 = 10.0;
/// The relative uncertainty of a window's disturbance by its hits, and that of its calls because of
/// the switching before it: the program's code and data come back to the caches in the window.
const WINDOW_DISTURBANCE_DOUBT: f64 = 0.8;
const SWITCHING_DOUBT: f64 = 0.06;

impl Rates {
    /// Adds a window. The program has worked in it for `worked`, of which `hits` was the time of
    /// hits.
    pub(super) fn add(&mut self, weight: f64, calls: f64, worked: f64, hits: f64) {
        let left = (worked - hits).max(0.2 * worked);
        if left > 0.0 || calls > 0.0 {
            let left = left.max(f64::MIN_POSITIVE);
            self.ratio.add(weight, left, calls);
            self.counted_calls += calls;
            self.disturbed += calls * (worked / left - 1.0).max(0.0);
        }
    }

    /// Returns the calls per time that the windows so far have seen, however few they are.
    pub(super) fn likely(&self) -> f64 {
        if self.ratio.calls > 0.0 { self.ratio.time / self.ratio.calls } else { 0.0 }
    }

    /// Returns the calls while the program worked for this time; `None` if windows say too little.
    pub(super) fn over(&self, worked: f64) -> Option<Estimated> {
        let Estimated { value: rate, error } =
            self.ratio.mean().filter(|_| self.counted_calls >= MIN_CALLS)?;
        // The error is never less than the random error of the number of calls.
        let by_chance = error.max(2.0 * rate / self.counted_calls.sqrt());
        let by_hits = WINDOW_DISTURBANCE_DOUBT * rate * self.disturbed / self.counted_calls;
        let error = by_chance.hypot(by_hits).hypot(SWITCHING_DOUBT * rate);
        Some(Estimated { value: rate, error }.times(worked))
    }
}

/// A mean over windows, each weighted by the number of calls or the time that it stands for: of
/// times per call, or of calls per time.
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
    /// Adds a window if it has calls.
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

    /// Returns the mean; `None` if windows say too little.
    pub(super) fn mean(&self) -> Option<Estimated> {
        if self.windows < MIN_WINDOWS {
            return None;
        }
        let mean = self.time / self.calls;
        let spread = self.time_squared - 2.0 * mean * self.product + mean * mean * self.calls_squared;
        // The number of equal windows that would say as much. (Kish, *Survey Sampling*, 1965,
        // 11.7.)
        let effective_windows =
            |sum: f64, squares: f64| if squares > 0.0 { sum * sum / squares } else { 0.0 };
        let effective_windows = effective_windows(self.calls, self.calls_squared)
            .min(effective_windows(self.time, self.time_squared));
        let deviation = (spread.max(0.0) * self.windows / (self.windows - 1.0)).sqrt() / self.calls;
        Some(Estimated {
            value: mean,
            error: student_t((effective_windows - 1.0).min(self.windows / 3.0)) * deviation,
        })
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
            assert!((student_t(freedom) - expected).abs() < 0.01, "{freedom}: {}", student_t(freedom));
        }
    }

    #[test]
    fn windows_stand_for_their_time() {
        let mut rates = Rates::default();
        for calls in [10.0, 30.0, 20.0] {
            rates.add(25.0, calls, 2.0, 0.0);
        }
        // The program did not work in this window.
        rates.add(25.0, 0.0, 0.0, 0.0);
        assert_eq!(rates.over(150.0), None, "too few");
        rates.add(25.0, 20.0, 2.0, 0.0);
        // Rates of 5, 15, 10 and 10: a variance of 50 / 3, and a third of the windows:
        // 10 ± 8.86 * 2.04, and 0.6.
        let Estimated { value, error } = rates.over(200.0).unwrap();
        assert!((value - 2000.0).abs() < 1e-9 && (error / 200.0 - 18.09).abs() < 0.05, "{error}");
        // Hits took half of each window, so the other half is known less exactly.
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
    fn calls_never_met_may_be_hidden() {
        assert_eq!([max_unseen_share(0.0, 300.0), max_unseen_share(25.0, 100.0)], [0.01, 0.38]);
        assert_eq!([max_unseen_share(0.0, 0.0), max_unseen_share(50.0, 50.0)], [1.0, 1.0]);
    }

    #[test]
    fn too_few_samples_give_a_lower_bound() {
        let sure = Estimated { value: 10.0, error: 2.0 };
        assert_eq!(sure.widened_by(8.0).or_at_least(sure), Some(Estimated { value: 10.0, error: 10.0 }));
        assert_eq!(sure.widened_by(8.1).or_at_least(sure), Some(Estimated::at_least(8.0)));
        assert_eq!(
            Estimated { error: 10.0, ..sure }.widened_by(1.0).or_at_least(Estimated { error: 10.0, ..sure }),
            None
        );
    }
}
