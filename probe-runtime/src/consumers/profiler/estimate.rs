//! Extrapolates calls and times to the intervals when a function's sites were latent.
//!
//! A function's time is a row of *windows*, in which each call is counted. Between windows there
//! are *gaps*, in which the function was latent. In some windows the first calls are timed.
//!
//! - **Calls** of windows are known. The calls of a gap are estimated from the rate of the window
//!   after it, pooled with some earlier windows. The length of a window was decided before it
//!   began. (A window that ends after enough calls would give a rate that is too high.) The length
//!   of a gap has nothing to do with the window after it. So errors in some gaps cancel those in
//!   others. If the known calls of another function predict the windows better than time does, they
//!   replace the rate ([`anchors`](super::anchors)).
//! - **Times**: the calls up to a window that timed some are taken to last as long as the timed
//!   ones, on average. Cold and long ones among these are kept apart ([`times`](super::times)). Long
//!   calls that are too many to be interruptions are attributed to the others in proportion.
//! - **Hits** take time: while hot functions are armed, threads get less done. That time
//!   ([`costs`](super::costs)) is subtracted from the lengths of windows, and from the times of
//!   calls. A window with delivered hits for much of its time says too little of rates. It is
//!   ignored if there is another one.
//!
//! The error is two standard errors. For rates, it is the larger one of two: that of counting alone
//! (Poisson), and the spread of rates from window to window. For times, it is the spread over the
//! timed calls. The uncertainty of the cost of hits is added.

use super::anchors::{Amount, Anchors};
use super::costs::Costs;
use super::rate::{Pool, Rate};
use super::window::Window;

/// How often a second a thread is interrupted, by clocks, devices and other threads, and for how
/// many nanoseconds at least.
const INTERRUPTIONS: f64 = 2000.0;
const INTERRUPTION: f64 = 1000.0;

/// A number and its error, two standard errors.
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
/// if let Some(function) = profile.iter().next() {
///     println!("{:.0} ± {:.0} calls", function.calls().value, function.calls().error);
/// }
/// # Ok::<(), probe_runtime::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Default, Debug)]
pub struct Estimated {
    /// The best estimate.
    pub value: f64,
    /// Meant to cover the true value in 95 of 100 cases. In short or uneven programs it does so far
    /// less often: `docs/costs.md` has what the bench `coverage` measured.
    pub error: f64,
}

/// The state of the estimate for one function.
#[derive(Clone, Default, Debug)]
pub(super) struct Estimate {
    /// Counted calls, and the estimate of all calls.
    pub(super) counted: f64,
    calls: f64,
    variance: f64,
    /// The uncertainty of the calls that comes from the cost of hits.
    doubt: f64,
    /// The length of gaps whose rate no window has told yet.
    pending: f64,
    anchors: Anchors,
    pool: Pool,
    last: Option<Rate>,
    /// Timed calls of all kinds.
    pub(super) timed: f64,
    /// Timed calls that stand for others: their number, their times, and the squares of these.
    samples: f64,
    time: f64,
    squares: f64,
    /// Calls that took much longer: their number, and their additional time. `total_of_long`
    /// attributes that to all calls before the last window that timed some.
    long: f64,
    more_of_long: f64,
    total_of_long: f64,
    /// The time of all calls before the last window that timed some. `weight_of_times` is the
    /// factor of a call's variance in it.
    total: f64,
    weight_of_times: f64,
    /// Calls since that window.
    untimed: f64,
    /// Systematic timing error per call, in ticks.
    doubt_of_times: f64,
    pub(super) armed: f64,
    pub(super) latent: f64,
}

impl Estimate {
    /// Adds a window, with the calls of anchors.
    pub(super) fn add(&mut self, window: Window, amounts: &[Amount], costs: &Costs) {
        let (is_told, is_first) = (window.tells_rate(), self.pending == 0.0);
        self.pending += window.gap;
        self.latent += window.gap;
        // One that was waited for, since nothing was called or each call was counted, is long, and
        // says nothing of others.
        if is_told && window.gap > 0.0 {
            self.pool.add(&window);
            self.anchors.add(amounts, window.calls, is_first);
        } else {
            self.anchors.gap(amounts, is_first);
        }
        let rate = Rate::new(&window, &self.pool, self.last.filter(|last| last.is_told));
        if is_told {
            self.fill_gaps(rate);
        }
        // What is told stays, unless by what is told as well.
        if rate.is_told || self.last.is_none_or(|last| !last.is_told) {
            self.last = Some(rate);
        }
        self.counted += window.calls;
        self.calls += window.calls;
        self.untimed += window.calls;
        self.armed += window.length;
        if window.samples > 0.0 {
            let Window { samples, time, squares, long, time_of_long, .. } = window.without_hits(costs);
            self.samples += samples;
            self.time += time;
            self.squares += squares;
            self.timed += window.timed;
            let more_of_long = (time_of_long - long * time / samples).max(0.0);
            self.long += long;
            self.more_of_long += more_of_long;
            self.doubt_of_times = costs.doubt;
            let calls = std::mem::take(&mut self.untimed);
            self.total += calls * time / samples;
            self.total_of_long += calls * more_of_long / (samples + long);
            // Nothing is unknown if all calls were timed.
            self.weight_of_times += calls * (calls - samples).max(0.0) / samples;
        }
    }

    /// Estimates the calls of all pending gaps, from this rate or from an anchor that predicts
    /// better.
    fn fill_gaps(&mut self, Rate { calls, variance, doubt, .. }: Rate) {
        let gap = std::mem::take(&mut self.pending);
        if gap == 0.0 {
            self.anchors.filled();
            return;
        }
        let by_time =
            self.pool.record.of_all().unwrap_or(1.0) + (doubt / calls.max(f64::MIN_POSITIVE)).powi(2);
        let anchored = self.anchors.best().filter(|foretold| foretold.of_all < by_time);
        self.anchors.filled();
        let (calls, variance, doubt) = match anchored {
            Some(foretold) => (foretold.calls, foretold.calls.powi(2) * foretold.variance, 0.0),
            None => (gap * calls, gap * gap * variance, gap * doubt),
        };
        self.calls += calls;
        self.untimed += calls;
        self.variance += variance;
        self.doubt += doubt;
    }

    /// The estimate with a gap that has not ended.
    pub(super) fn with_gap(&self, gap: f64, amounts: &[Amount]) -> Self {
        let mut with = self.clone();
        if gap > 0.0 {
            with.anchors.gap(amounts, with.pending == 0.0);
        }
        with.pending += gap;
        with.latent += gap;
        if let Some(last) = with.last {
            with.fill_gaps(last);
        }
        with
    }

    /// The estimate of all calls.
    pub(super) fn calls(&self) -> Estimated {
        Estimated { value: self.calls, error: 2.0 * self.variance.sqrt() + self.doubt }
    }

    /// The mean time of a call, in ticks of `scale` nanoseconds; `None` if none was timed.
    pub(super) fn mean(&self, scale: f64) -> Option<Estimated> {
        (self.samples > 0.0).then(|| {
            let (long, calls) = (self.of_long(scale), self.calls.max(self.samples));
            let all = self.total + self.untimed * self.time / self.samples;
            let value = if self.calls > 0.0 { all / self.calls } else { self.time / self.samples };
            let of_all = 1.0 - self.samples / calls;
            let error = 2.0 * (self.variance_of_a_call() * of_all / self.samples).sqrt();
            let error = error + self.doubt_of_times + long.error / calls;
            Estimated { value: value + long.value / calls, error }
        })
    }

    /// The time of all calls, in ticks; `None` if none was timed.
    pub(super) fn total(&self, scale: f64) -> Option<Estimated> {
        (self.samples > 0.0).then(|| {
            let long = self.of_long(scale);
            let mean = self.time / self.samples;
            let spread = self.variance_of_a_call();
            let of_untimed = self.untimed * self.untimed * spread / self.samples;
            let variance = self.variance * mean * mean + self.weight_of_times * spread + of_untimed;
            let doubt = self.doubt * mean + self.doubt_of_times * self.calls + long.error;
            let value = self.total + self.untimed * mean + long.value;
            Estimated { value, error: 2.0 * variance.sqrt() + doubt }
        })
    }

    /// The additional time that long calls make in all. If they are no more than the interruptions
    /// expected in that time, it counts as an error only.
    fn of_long(&self, scale: f64) -> Estimated {
        let interrupted = INTERRUPTIONS * (self.time + self.long * self.time / self.samples) * scale / 1e9;
        let may_be = 1.0 + interrupted + 3.0 * interrupted.sqrt();
        let is_own = self.long > may_be || self.more_of_long * scale < self.long * INTERRUPTION;
        let all = self.total_of_long + self.untimed * self.more_of_long / (self.samples + self.long);
        // Their number is the most uncertain part (Poisson).
        let error = if is_own && self.long > 0.0 { 2.0 * all / self.long.sqrt() } else { all };
        Estimated { value: if is_own { all } else { 0.0 }, error }
    }

    /// Whether calls were neither timed nor followed by timed ones yet.
    pub(super) fn has_untimed(&self) -> bool {
        self.untimed > 0.0 || self.pending > 0.0
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

    use super::super::costs::DOUBT;
    use super::super::window::Burden;
    use super::*;
    use proptest::prelude::*;

    /// Hits that cost nothing.
    const FREE: Costs = Costs { counted: 0.0, delivered: 0.0, reading: 0.0, inside: 0.0, doubt: 0.0 };

    fn window(gap: f64, length: f64, calls: f64) -> Window {
        Window { gap, length, calls, ..Window::default() }
    }

    fn estimated(windows: impl IntoIterator<Item = Window>) -> Estimate {
        let mut estimate = Estimate::default();
        windows.into_iter().for_each(|window| estimate.add(window, &[], &FREE));
        estimate
    }

    #[test]
    fn what_is_always_armed_is_exact() {
        let estimate = estimated([
            Window { samples: 4.0, time: 40.0, squares: 500.0, ..window(0.0, 1000.0, 4.0) },
            Window { samples: 2.0, time: 14.0, squares: 100.0, ..window(0.0, 10.0, 2.0) },
        ]);
        assert_eq!(estimate.calls(), Estimated { value: 6.0, error: 0.0 });
        assert_eq!(estimate.total(1.0), Some(Estimated { value: 54.0, error: 0.0 }));
        assert_eq!(estimate.mean(1.0), Some(Estimated { value: 9.0, error: 0.0 }));
        assert_eq!((estimate.armed, estimate.latent), (1010.0, 0.0));
    }

    #[test]
    fn gaps_have_the_rates_after_them() {
        let estimate = estimated([window(0.0, 100.0, 100.0), window(900.0, 100.0, 300.0)]);
        // 100 + 900 · 3 + 300
        assert_eq!(estimate.calls().value, 400.0 + 900.0 * 3.0);
        // 2 · 900 · √(|3 − 1|² / 2)
        assert!((estimate.calls().error - 1800.0 * 2_f64.sqrt()).abs() < 1e-9);
        assert_eq!((estimate.counted, estimate.latent), (400.0, 900.0));
        assert_eq!(estimate.mean(1.0), None);
        // The last gap has the last rate.
        assert_eq!(estimate.with_gap(10.0, &[]).calls().value, 3130.0);
        let third =
            estimated([window(0.0, 100.0, 100.0), window(900.0, 100.0, 300.0), window(70.0, 100.0, 125.0)]);
        // (¾ · 300 + 125) / (¾ · 100 + 100) = 2
        assert_eq!(third.calls().value, 3100.0 + 70.0 * 2.0 + 125.0);
    }

    #[test]
    fn disturbed_windows_tell_no_rate_if_others_do() {
        let burden = Burden { counted: 0.0, delivered: 50.0 };
        let disturbed = Window { burden, ..window(900.0, 100.0, 400.0) };
        let estimate = estimated([disturbed]);
        assert_eq!(estimate.calls().value, 400.0, "what is known of the gap is a guess");
        assert_eq!(estimate.with_gap(100.0, &[]).calls().value, 400.0 + 1000.0 * 8.0);
        let estimate = estimated([disturbed, window(100.0, 100.0, 100.0), disturbed]);
        assert_eq!(estimate.calls().value, 900.0 + 1000.0 * 1.0);
        assert_eq!(estimate.with_gap(100.0, &[]).calls().value, 1900.0 + 1000.0 * 1.0);
    }

    #[test]
    fn calls_take_as_long_as_those_timed_next() {
        let timed = Window { samples: 10.0, time: 200.0, squares: 4000.0, ..window(0.0, 100.0, 50.0) };
        let total = estimated([window(0.0, 100.0, 50.0), timed]).total(1.0).unwrap();
        assert_eq!((total.value, total.error), (2000.0, 0.0), "all timed calls took the same");
        let later = Window { time: 400.0, squares: 16_000.0, ..timed };
        let estimate = estimated([timed, window(0.0, 100.0, 50.0), later, window(0.0, 100.0, 50.0)]);
        // 50 · 20, 100 · 40, and 50 as the mean of all that were timed.
        assert_eq!(estimate.total(1.0).unwrap().value, 1000.0 + 4000.0 + 1500.0);
    }

    #[test]
    fn a_few_long_calls_may_have_been_interrupted() {
        // Of 100 ns each; one that took 10 µs, and then one of 20.
        let window = |long: f64| Window {
            samples: 20.0 - long,
            time: (20.0 - long) * 100.0,
            squares: (20.0 - long) * 1e4,
            long,
            time_of_long: long * 10_000.0,
            ..window(0.0, 1e6, 2000.0)
        };
        let one = estimated([window(1.0), window(0.0)]);
        // One of twenty in the first window, so a hundred of its calls.
        let all = 100.0 * 9900.0;
        assert_eq!(one.mean(1.0), Some(Estimated { value: 100.0, error: all / 4000.0 }));
        assert_eq!(one.total(1.0), Some(Estimated { value: 400_000.0, error: all }));
        // Too short to be an interruption.
        let short = one.total(0.1).unwrap();
        assert_eq!((short.value, short.error), (400_000.0 + all, 2.0 * all));
        let own = estimated([window(2.0), window(2.0)]);
        let all = 4.0 * all;
        assert_eq!(own.total(1.0), Some(Estimated { value: 400_000.0 + all, error: all }));
        assert_eq!(own.mean(1.0), Some(Estimated { value: 100.0 + all / 4000.0, error: all / 4000.0 }));
    }

    #[test]
    fn long_calls_stand_for_those_around_them() {
        let timed = Window { samples: 10.0, time: 1000.0, squares: 1e5, ..window(0.0, 1e6, 1e6) };
        let long = Window { calls: 100.0, long: 10.0, time_of_long: 51_000.0, ..timed };
        let total = estimated([long, timed]).total(1.0).unwrap();
        assert_eq!(total.value, 100.0 * (100.0 + 2500.0) + 1e6 * 100.0);
    }

    #[test]
    fn anchors_tell_where_time_does_not() {
        let mut estimate = Estimate::default();
        // At rates that differ from window to window, three calls for each of an anchor's.
        for (at, calls) in [300.0, 30.0, 600.0, 90.0, 240.0, 30.0, 900.0].into_iter().enumerate() {
            let gap = if at == 0 { 0.0 } else { 1000.0 };
            let amounts = [Amount { anchor: 7, gap: gap / 10.0, window: calls / 3.0 }];
            estimate.add(window(gap, 100.0, calls), &amounts, &FREE);
        }
        let by_time = estimated([300.0, 30.0, 600.0, 90.0].map(|calls| window(1000.0, 100.0, calls)));
        let (before, known) = (estimate.calls(), estimate.variance);
        let with = estimate.with_gap(1000.0, &[Amount { anchor: 7, gap: 250.0, window: 0.0 }]);
        assert!((with.calls().value - before.value - 750.0).abs() < 1e-9, "{with:?}");
        assert_eq!(with.variance, known, "nothing is unknown");
        assert!(estimate.with_gap(1000.0, &[]).variance > known && by_time.variance > 0.0);
    }

    #[test]
    fn hits_are_taken_off() {
        let costs = Costs { counted: 2.0, delivered: 6.0, reading: 3.0, inside: 6.0, doubt: 0.5 };
        let mut estimate = Estimate::default();
        let burden = Burden { counted: 500.0, delivered: 50.0 };
        let timed = Window {
            burden,
            samples: 2.0,
            time: 80.0,
            squares: 3200.0,
            inner: 2.0,
            ..window(0.0, 2550.0, 100.0)
        };
        estimate.add(timed, &[], &costs);
        assert_eq!(timed.rate(), 0.05);
        assert_eq!(estimate.mean(1.0).unwrap().value, 28.0, "40, an inner hit, and its own");
        assert_eq!(estimate.mean(1.0).unwrap().error, 0.5);
        estimate.add(Window { gap: 2000.0, ..timed }, &[], &costs);
        assert_eq!(estimate.calls().value, 300.0);
        let error = 2.0 * 2000.0 * 10.0 / 2000.0 + 100.0 * DOUBT * 550.0 / 2000.0;
        assert!((estimate.calls().error - error).abs() < 1e-9, "{estimate:?}");
    }

    proptest! {
        /// A process that is even over time is estimated rightly, however it is cut.
        #[test]
        fn an_even_rate_is_found(
            rate in 0.1..100.0_f64,
            cuts in prop::collection::vec((0.0..1e5_f64, 1e3..1e4_f64), 1..50),
        ) {
            let mut elapsed = 0.0;
            let windows = cuts.into_iter().enumerate().map(|(at, (gap, length))| {
                let gap = if at == 0 { 0.0 } else { gap };
                elapsed += gap + length;
                Window { samples: 1.0, time: 7.0, squares: 49.0, ..window(gap, length, rate * length) }
            });
            let estimate = estimated(windows);
            let calls = estimate.calls();
            prop_assert!((calls.value - rate * elapsed).abs() <= 1e-6 * calls.value);
            prop_assert!((estimate.total(1.0).unwrap().value - 7.0 * calls.value).abs() <= 1e-6 * calls.value);
        }
    }
}
