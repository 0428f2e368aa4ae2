//! From what was seen while a function was armed to what there was while it was latent, too.
//!
//! A function's time is a row of *windows*, in which each call is counted and the first are timed, with *gaps* between them.
//! The calls in a gap are taken to have come at the mean of the rates in the windows before and after it; so a change of the rate is
//! off by no more than the gap it falls into. Windows are as long as was decided before them, not until enough calls have come: those
//! would end with a call, and so tell a rate that is too high.
//!
//! Counting takes time: while hot functions are armed, threads get less done. What that is, as far as it is known
//! ([`calibration`](super::calibration)), is taken off the windows' lengths, and off the times of calls.
//!
//! The error is two standard errors: of rates, the larger of what counting alone has (Poisson) and of how much they differ from one window to
//! the next; of times, their spread over the calls that were timed. To it comes what a hit may cost more or less than was taken.

use super::calibration::without;
use super::sampler::Seen;

/// What is left of a window at least, if that would be all of it.
const LEAST: f64 = 0.2;

/// What a hit costs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hit {
    pub(super) cost: f64,
    pub(super) source: Source,
}

/// How it is known.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Source {
    /// From the function's own calls.
    Own,
    /// From others'.
    Others,
    Guess,
}

impl Hit {
    /// By how much it may be off, as a part of it.
    fn doubt(self) -> f64 {
        match self.source {
            Source::Own => 0.15,
            Source::Others => 0.3,
            Source::Guess => 0.5,
        }
    }
}

/// A window, and the gap before it. Times in ticks.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Window {
    pub(super) gap: f64,
    pub(super) length: f64,
    pub(super) burden: Burden,
    pub(super) calls: f64,
    pub(super) samples: f64,
    pub(super) time: f64,
    pub(super) squares: f64,
    /// Hits inside of the calls that were timed.
    pub(super) inner: f64,
    /// Whether it has only begun, and says nothing of rates.
    pub(super) is_new: bool,
}

/// What has slowed threads down.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Burden {
    /// Hits, of all functions.
    pub(super) hits: f64,
    /// The time that readings of the clock took.
    pub(super) readings: f64,
}

impl Burden {
    pub(super) fn since(self, then: Self) -> Self {
        Self { hits: self.hits - then.hits, readings: self.readings - then.readings }
    }
}

impl Window {
    /// What lies between two readings.
    #[expect(clippy::cast_precision_loss, reason = "of estimates")]
    pub(super) fn new(gap: f64, length: f64, burden: Burden, from: &Seen, to: &Seen) -> Self {
        Self {
            gap,
            length: length.max(1.0),
            burden,
            calls: to.calls.saturating_sub(from.calls) as f64,
            samples: to.ended.saturating_sub(from.ended) as f64,
            time: to.time.saturating_sub(from.time) as f64,
            squares: (to.squares - from.squares).max(0.0),
            inner: to.inner.saturating_sub(from.inner) as f64,
            is_new: false,
        }
    }

    /// Its length, but for readings of the clock.
    pub(super) fn without_readings(&self) -> f64 {
        (self.length - self.burden.readings).max(0.0)
    }

    /// Its length, had nobody looked: as much would have been done in less time.
    fn undisturbed(&self, hit: Hit) -> f64 {
        let (both, hits) = (self.without_readings(), self.burden.hits * hit.cost);
        without(both, hits).max(self.length * LEAST)
    }

    /// Calls a tick.
    pub(super) fn rate(&self, hit: Hit) -> f64 {
        self.calls / self.undisturbed(hit)
    }

    /// Without hits and readings that were measured as a part of the calls: those of calls inside, and, of each, its entry's second
    /// half, its exit's first half, and a reading.
    fn without_hits(mut self, hit: Hit, reading: f64) -> Self {
        self.time = (self.time - self.inner * hit.cost).max(0.0);
        // What is only guessed is guessed from the shortest call.
        let own = if hit.source == Source::Guess { 0.0 } else { hit.cost + reading };
        let own = own.min(self.time / self.samples.max(1.0));
        self.squares = (self.squares - own * (2.0 * self.time - self.samples * own)).max(0.0);
        self.time -= own * self.samples;
        self
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
    /// Adds a window, in which a hit cost so much, and a reading of the clock.
    pub(super) fn add(&mut self, window: Window, hit: Hit, reading: f64) {
        let (rate, undisturbed) = (window.rate(hit), window.undisturbed(hit));
        let slowed = (window.length - undisturbed).max(0.0);
        let Window { gap, length, calls, samples, time, squares, .. } = window.without_hits(hit, reading);
        let last = self.last.unwrap_or(Rate { rate, variance: 0.0 });
        let variance = calls.max(1.0) / (undisturbed * undisturbed);
        // At the ends of the gap, and of what lies between.
        let between = Rate {
            rate: f64::midpoint(rate, last.rate),
            variance: ((variance + last.variance) / 4.0).max((rate - last.rate).powi(2) / 4.0),
        };
        let between = self.last.filter(|_| window.is_new).unwrap_or(between);
        self.doubt += gap * between.rate * hit.doubt() * slowed / undisturbed;
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

    /// Hits that cost nothing.
    const FREE: Hit = Hit { cost: 0.0, source: Source::Own };

    fn window(gap: f64, length: f64, calls: f64) -> Window {
        Window { gap, length, calls, ..Window::default() }
    }

    #[test]
    fn what_is_always_armed_is_exact() {
        let mut estimate = Estimate::default();
        let times = Window { samples: 4.0, time: 40.0, squares: 500.0, ..window(0.0, 1000.0, 4.0) };
        estimate.add(times, FREE, 0.0);
        estimate.add(
            Window { samples: 2.0, time: 14.0, squares: 100.0, ..window(0.0, 10.0, 2.0) },
            FREE,
            0.0,
        );
        assert_eq!(estimate.calls(), Estimated { value: 6.0, error: 0.0 });
        assert_eq!(estimate.total(), Some(Estimated { value: 54.0, error: 0.0 }));
        assert_eq!(estimate.mean(), Some(Estimated { value: 9.0, error: 0.0 }));
        assert_eq!((estimate.armed, estimate.latent), (1010.0, 0.0));
    }

    #[test]
    fn gaps_have_the_rates_around_them() {
        let mut estimate = Estimate::default();
        estimate.add(window(0.0, 100.0, 100.0), FREE, 0.0);
        estimate.add(window(900.0, 100.0, 300.0), FREE, 0.0);
        // 100 + 900 · 2 + 300
        assert_eq!(estimate.calls().value, 2200.0);
        // 2 · 900 · |3 − 1| / 2
        assert_eq!(estimate.calls().error, 1800.0);
        assert_eq!((estimate.counted, estimate.latent), (400.0, 900.0));
        assert_eq!(estimate.mean(), None);
        // The last gap has the last rate.
        assert_eq!(estimate.with_gap(10.0).calls().value, 2230.0);
    }

    #[test]
    fn calls_of_windows_without_samples_take_the_mean() {
        let mut estimate = Estimate::default();
        estimate.add(window(0.0, 100.0, 50.0), FREE, 0.0);
        estimate.add(
            Window { samples: 10.0, time: 200.0, squares: 4000.0, ..window(0.0, 100.0, 50.0) },
            FREE,
            0.0,
        );
        let total = estimate.total().unwrap();
        assert_eq!((total.value, total.error), (2000.0, 0.0), "all timed calls took the same");
    }

    #[test]
    fn hits_are_taken_off() {
        let mut estimate = Estimate::default();
        // 100 calls of 20 ticks, 2 of them timed; two hits of 6 each, and as many of another function, at a right angle to them.
        let burden = Burden { hits: 250.0, readings: 50.0 };
        let timed =
            Window { samples: 2.0, time: 80.0, squares: 3200.0, inner: 2.0, ..window(0.0, 2550.0, 100.0) };
        let hit = Hit { cost: 6.0, source: Source::Own };
        estimate.add(Window { burden, ..timed }, hit, 0.0);
        estimate.add(Window { burden, ..timed }, hit, 0.0);
        assert_eq!(Window { burden, ..timed }.rate(hit), 0.05);
        assert_eq!(estimate.mean().unwrap().value, 28.0, "40, an inner hit, and its own");
        let gap = Window { gap: 2000.0, burden, ..timed };
        estimate.add(gap, hit, 0.0);
        assert_eq!(estimate.calls().value, 400.0);
        // 15 % of what hits took.
        let error = 2.0 * 50_f64.sqrt() + 100.0 * 0.15 * 550.0 / 2000.0;
        assert!((estimate.calls().error - error).abs() < 1e-9, "{estimate:?}");
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
                estimate.add(Window { samples: 1.0, time: 7.0, squares: 49.0, ..window(gap, length, calls) }, FREE, 0.0);
                elapsed += gap + length;
            }
            let calls = estimate.calls();
            prop_assert!((calls.value - rate * elapsed).abs() <= 1e-6 * calls.value);
            prop_assert!((estimate.total().unwrap().value - 7.0 * calls.value).abs() <= 1e-6 * calls.value);
        }
    }
}
