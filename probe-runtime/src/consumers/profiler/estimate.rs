//! From what was seen while a function was armed to what there was while it was latent, too.
//!
//! A function's time is a row of *windows*, in which each call is counted and the first are timed, with *gaps* between them.
//! The calls in a gap are taken to have come at the mean of the rates in the windows before and after it; so a change of the rate is
//! off by no more than the gap it falls into. Windows are as long as was decided before them, not until enough calls have come: those
//! would end with a call, and so tell a rate that is too high.
//!
//! Counting takes time: while hot functions are armed, threads get less done. What that is, as far as it is known, is taken off the windows'
//! lengths.
//!
//! The error is two standard errors: of rates, the larger of what counting alone has (Poisson) and of how much they differ from one window to
//! the next; of times, their spread over the calls that were timed. To it comes what a hit may cost more or less than was taken.

use super::sampler::Seen;

/// How well it is known what a hit costs.
const COST_KNOWN: f64 = 0.5;
/// What is left of a window at least, if that would be all of it.
const LEAST: f64 = 0.1;

/// A window, and the gap before it. Times in ticks.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Window {
    pub(super) gap: f64,
    pub(super) length: f64,
    /// By how much hits have slowed its threads down meanwhile.
    pub(super) slowed: f64,
    pub(super) calls: f64,
    pub(super) samples: f64,
    pub(super) time: f64,
    pub(super) squares: f64,
}

impl Window {
    /// What lies between two readings. `hit` is what a hit costs.
    #[expect(clippy::cast_precision_loss, reason = "of estimates")]
    pub(super) fn new(gap: f64, length: f64, slowed: f64, hit: f64, from: &Seen, to: &Seen) -> Self {
        // Calls inside that are counted make a call longer.
        let inner = to.inner.saturating_sub(from.inner) as f64 * hit;
        Self {
            gap,
            length: length.max(1.0),
            slowed,
            calls: to.calls.saturating_sub(from.calls) as f64,
            samples: to.ended.saturating_sub(from.ended) as f64,
            time: (to.time.saturating_sub(from.time) as f64 - inner).max(0.0),
            squares: (to.squares - from.squares).max(0.0),
        }
    }
}

/// Calls a tick, and the variance of that.
#[derive(Clone, Copy, Debug)]
struct Rate {
    rate: f64,
    variance: f64,
}

/// A number and its error, two standard errors.
#[derive(Clone, Copy, PartialEq, Default, Debug)]
pub struct Estimated {
    /// The best guess.
    pub value: f64,
    /// In 95 of 100 cases, the truth is not further off.
    pub error: f64,
}

/// What is known of one function.
#[derive(Clone, Default, Debug)]
pub(super) struct Estimate {
    /// Calls that were counted, and all of them as estimated.
    pub(super) counted: f64,
    calls: f64,
    variance: f64,
    /// By how many calls it is off where hits cost more or less than was taken.
    doubt: f64,
    /// Calls that were timed: how many, their times, the squares.
    pub(super) samples: f64,
    pub(super) time: f64,
    squares: f64,
    /// Of windows with samples: the time of all calls, its variance that comes from that of their number, and by what the variance of
    /// a call's time is to be multiplied.
    total: f64,
    variance_of_calls: f64,
    weight_of_times: f64,
    /// Calls, estimated, of windows without samples.
    untimed: f64,
    pub(super) armed: f64,
    pub(super) latent: f64,
    last: Option<Rate>,
}

impl Estimate {
    pub(super) fn add(&mut self, window: Window) {
        let Window { gap, length, slowed, calls, samples, time, squares } = window;
        // Without being looked at, as much would have been done in less time.
        let undisturbed = (length - slowed).max(length * LEAST);
        let rate = calls / undisturbed;
        let last = self.last.unwrap_or(Rate { rate, variance: 0.0 });
        let variance = calls.max(1.0) / (undisturbed * undisturbed);
        // At the ends of the gap, and of what lies between.
        let between = Rate {
            rate: f64::midpoint(rate, last.rate),
            variance: ((variance + last.variance) / 4.0).max((rate - last.rate).powi(2) / 4.0),
        };
        self.doubt += gap * rate * COST_KNOWN * slowed / undisturbed;
        self.add_gap(gap, between, calls, samples, time);
        self.counted += calls;
        self.samples += samples;
        self.time += time;
        self.squares += squares;
        self.armed += length;
        self.last = Some(Rate { rate, variance });
    }

    fn add_gap(&mut self, gap: f64, between: Rate, calls: f64, samples: f64, time: f64) {
        let whole = calls + gap * between.rate;
        let variance = gap * gap * between.variance;
        self.calls += whole;
        self.variance += variance;
        self.latent += gap;
        if samples > 0.0 {
            let mean = time / samples;
            self.total += whole * mean;
            self.variance_of_calls += variance * mean * mean;
            // Nothing is unknown where all were timed.
            self.weight_of_times += whole * (whole - samples).max(0.0) / samples;
        } else {
            self.untimed += whole;
        }
    }

    /// The same with a gap that has not ended.
    pub(super) fn with_gap(&self, gap: f64) -> Self {
        let mut with = self.clone();
        if let Some(last) = self.last {
            with.add_gap(gap, last, 0.0, 0.0, 0.0);
        }
        with
    }

    /// Calls a tick in the last window; `None` before it.
    pub(super) fn rate(&self) -> Option<f64> {
        self.last.map(|last| last.rate)
    }

    /// The calls, all of them.
    pub(super) fn calls(&self) -> Estimated {
        Estimated { value: self.calls, error: 2.0 * self.variance.sqrt() + self.doubt }
    }

    /// The mean time of a call, in ticks; `None` where none was timed.
    pub(super) fn mean(&self) -> Option<Estimated> {
        (self.samples > 0.0).then(|| {
            let all = self.total + self.untimed * self.time / self.samples;
            let value = if self.calls > 0.0 { all / self.calls } else { self.time / self.samples };
            let of_all = (1.0 - self.samples / self.calls.max(self.samples)).max(0.0);
            Estimated { value, error: 2.0 * (self.variance_of_a_call() * of_all / self.samples).sqrt() }
        })
    }

    /// The time of all calls, in ticks; `None` where none was timed.
    pub(super) fn total(&self) -> Option<Estimated> {
        (self.samples > 0.0).then(|| {
            let mean = self.time / self.samples;
            let spread = self.variance_of_a_call();
            let of_untimed = self.untimed * self.untimed * spread / self.samples;
            let variance = self.variance_of_calls + self.weight_of_times * spread + of_untimed;
            let error = 2.0 * variance.sqrt() + self.doubt * mean;
            Estimated { value: self.total + self.untimed * mean, error }
        })
    }

    fn variance_of_a_call(&self) -> f64 {
        if self.samples < 2.0 {
            return 0.0;
        }
        let mean = self.time / self.samples;
        ((self.squares - self.time * mean) / (self.samples - 1.0)).max(0.0)
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::float_cmp, reason = "numbers that are exact")]

    use super::*;
    use proptest::prelude::*;

    fn window(gap: f64, length: f64, calls: f64) -> Window {
        Window { gap, length, calls, ..Window::default() }
    }

    #[test]
    fn what_is_always_armed_is_exact() {
        let mut estimate = Estimate::default();
        let times = Window { samples: 4.0, time: 40.0, squares: 500.0, ..window(0.0, 1000.0, 4.0) };
        estimate.add(times);
        estimate.add(Window { samples: 2.0, time: 14.0, squares: 100.0, ..window(0.0, 10.0, 2.0) });
        assert_eq!(estimate.calls(), Estimated { value: 6.0, error: 0.0 });
        assert_eq!(estimate.total(), Some(Estimated { value: 54.0, error: 0.0 }));
        assert_eq!(estimate.mean(), Some(Estimated { value: 9.0, error: 0.0 }));
        assert_eq!((estimate.armed, estimate.latent), (1010.0, 0.0));
    }

    #[test]
    fn gaps_have_the_rates_around_them() {
        let mut estimate = Estimate::default();
        estimate.add(window(0.0, 100.0, 100.0));
        estimate.add(window(900.0, 100.0, 300.0));
        // 100 + 900 · 2 + 300
        assert_eq!(estimate.calls().value, 2200.0);
        // 2 · 900 · |3 − 1| / 2
        assert_eq!(estimate.calls().error, 1800.0);
        assert_eq!((estimate.counted, estimate.latent), (400.0, 900.0));
        assert_eq!(estimate.mean(), None);
        // The last gap has the last rate.
        assert_eq!(estimate.with_gap(10.0).calls().value, 2230.0);
        assert_eq!(estimate.rate(), Some(3.0));
    }

    #[test]
    fn calls_of_windows_without_samples_take_the_mean() {
        let mut estimate = Estimate::default();
        estimate.add(window(0.0, 100.0, 50.0));
        estimate.add(Window { samples: 10.0, time: 200.0, squares: 4000.0, ..window(0.0, 100.0, 50.0) });
        let total = estimate.total().unwrap();
        assert_eq!((total.value, total.error), (2000.0, 0.0), "all timed calls took the same");
    }

    proptest! {
        /// A process that is even over time is estimated rightly, however it is cut.
        #[test]
        fn an_even_rate_is_found(
            rate in 0.1..100.0_f64,
            cuts in prop::collection::vec((0.0..1e5_f64, 1e3..1e4_f64), 1..50),
        ) {
            let mut estimate = Estimate::default();
            let mut elapsed = 0.0;
            for (at, (gap, length)) in cuts.into_iter().enumerate() {
                let gap = if at == 0 { 0.0 } else { gap };
                let calls = rate * length;
                estimate.add(Window { samples: 1.0, time: 7.0, squares: 49.0, ..window(gap, length, calls) });
                elapsed += gap + length;
            }
            let calls = estimate.calls();
            prop_assert!((calls.value - rate * elapsed).abs() <= 1e-6 * calls.value);
            prop_assert!((estimate.total().unwrap().value - 7.0 * calls.value).abs() <= 1e-6 * calls.value);
        }
    }
}
