//! The state of one function: its mode, its sums from the beginning until its last reading, and the
//! estimates that follow from them. Pure.

use super::costs::Costs;
use super::estimate::{Estimated, Rates, Ratio, Untimed, max_unseen_share};
use super::rebalance::MeasureMode;
use super::thread_state::FunctionTotals;

/// The time since the profiler began, and the CPU time that the program itself has used by then.
#[derive(Clone, Copy, PartialEq, Default, Debug)]
pub(super) struct Timestamp {
    pub(super) time: f64,
    pub(super) worked: f64,
}

/// How a function is measured, and its figures so far.
#[derive(Clone, Default, Debug)]
pub(super) struct FunctionState {
    pub(super) mode: MeasureMode,
    /// Whether the code of its own sites counts its calls.
    pub(super) is_in_place: bool,
    /// Whether its probes have not all joined yet, as far as is known; and when it was added.
    pub(super) is_joining: bool,
    pub(super) added: Timestamp,
    /// The number of calls that each of its calls in the last window stood for.
    pub(super) weight: f32,
    /// Calls at the last rebalance. (`accounted` has the calls and the delivered hits at the last
    /// update of the accounts.)
    pub(super) rebalanced_calls: f64,
    /// Whether it had been called before that rebalance.
    pub(super) is_known: bool,
    pub(super) accounted: (f64, f64),
    /// Calls per nanosecond, when it was last counted: between two rebalances, or in a window.
    pub(super) rate: f64,
    /// Calls per nanosecond that the program worked, between the last two rebalances.
    pub(super) worked_rate: f64,
    /// `None` while all calls were counted and no hit was delivered, as for most of thousands of
    /// functions.
    measured: Option<Box<MeasuredSums>>,
}

/// The estimates for a function.
#[derive(Clone, Copy, PartialEq, Default, Debug)]
pub(super) struct FunctionEstimate {
    /// Calls that began, and polls; and the same without polls after a future's first one, with
    /// the likely number of these, which has no known error.
    pub(super) calls: Estimated,
    pub(super) first: Estimated,
    pub(super) likely: f64,
    pub(super) mean: Option<Estimated>,
    pub(super) own: Option<Estimated>,
    pub(super) total: Option<Estimated>,
    pub(super) samples: f64,
}

impl FunctionEstimate {
    /// Returns the estimate of a function of which only the number of calls is known.
    fn counted(seen: &FunctionTotals, known: impl Fn(f64) -> Estimated) -> Self {
        let likely = seen.calls - seen.resumed;
        Self { calls: known(seen.calls), first: known(likely), likely, ..Self::default() }
    }
}

impl FunctionState {
    pub(super) fn new(is_in_place: bool) -> Self {
        Self { is_in_place, ..Self::default() }
    }

    /// Creates the state of a function that was added at this moment, and whose probes join.
    pub(super) fn joining(added: Timestamp) -> Self {
        Self { is_joining: true, added, ..Self::default() }
    }

    /// Returns the function's sums, created by the first call of this method.
    pub(super) fn measured(&mut self) -> &mut MeasuredSums {
        let added = self.added;
        self.measured.get_or_insert_with(|| Box::new(MeasuredSums::since(added)))
    }

    /// Adds a reading.
    pub(super) fn read(&mut self, seen: FunctionTotals, now: Timestamp) {
        let (mode, weight) = (self.mode, f64::from(self.weight));
        // Otherwise it is read from its beginning once there is more to know.
        if self.measured.is_some() || seen.delivered != 0.0 {
            self.measured().read(mode, seen, now, weight);
        }
    }

    /// Returns whether the function may have had untimed calls since the last rebalance.
    pub(super) fn has_untimed(&self, seen: &FunctionTotals) -> bool {
        match self.mode {
            MeasureMode::Timed => false,
            MeasureMode::Counted => seen.calls > self.rebalanced_calls,
            MeasureMode::Sampled => true,
        }
    }

    /// Begins a mode, after the function was read in the mode before. `others` says how long calls
    /// of any function went untimed so far.
    pub(super) fn begin(&mut self, mode: MeasureMode, now: Timestamp, others: Untimed) {
        self.mode = mode;
        let rate = self.worked_rate;
        self.measured().begin(mode, rate, now, others);
    }

    /// Returns whether each call may be timed. Calls shorter than `short` nanoseconds may not. If
    /// timing is expensive, a function that has just been called for the first time may not either:
    /// it may have 100 million calls until the next rebalance.
    pub(super) fn may_be_timed(&self, short: f64, is_dear: bool) -> bool {
        let is_short = self.measured.as_ref().is_some_and(|it| it.is_short(short));
        !is_short && !self.is_joining && (self.is_known || self.mode == MeasureMode::Timed || !is_dear)
    }

    /// Returns the estimates as of a reading that is not added, in a program of at most this
    /// number of threads. `others` are the untimed calls of any function.
    pub(super) fn estimate(
        &self,
        seen: FunctionTotals,
        now: Timestamp,
        (costs, threads, others): (Costs, f64, Untimed),
    ) -> FunctionEstimate {
        if self.is_joining {
            // An entry that was there before the other probes is latent until all have joined.
            return FunctionEstimate::counted(&seen, Estimated::at_least);
        }
        if self.measured.is_none() && seen.delivered == 0.0 {
            return FunctionEstimate::counted(&seen, Estimated::exactly);
        }
        let first = || MeasuredSums::since(self.added);
        let mut measured = self.measured.as_deref().copied().unwrap_or_else(first);
        measured.read(self.mode, seen, now, f64::from(self.weight));
        measured.estimate(costs, threads, others)
    }
}

/// The sums of a function whose hits were delivered, or whose mode has changed.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct MeasuredSums {
    last: FunctionTotals,
    /// Calls while each was counted.
    counted_calls: f64,
    /// Calls in the mode [`MeasureMode::Timed`], with their times.
    timed: CallTimes,
    /// Calls while they were counted in windows only, if they ever were; and how long the program
    /// worked meanwhile.
    rates: Rates,
    /// The same of calls without those that are polls after a future's first one.
    first_rates: Rates,
    counted_first: f64,
    is_sampled: bool,
    worked: f64,
    /// Before the first window of such a time: the calls per nanosecond that the program worked
    /// until then, and how long it had worked.
    before_windows: Option<(f64, f64)>,
    /// Calls that these windows may have missed, since they were made before.
    missed: f64,
    /// How long not every call was timed, and until when that is known.
    untimed: f64,
    from: Timestamp,
    /// The untimed calls of any function when this function's first calls were timed.
    others: Untimed,
    /// Windows for this function, one for each thread that was hit in any window.
    thread_windows: f64,
    /// Times from windows.
    windows: Ratio,
    in_windows: CallTimes,
}

/// Times of calls, and the hits inside of them.
#[derive(Clone, Copy, Default, Debug)]
struct CallTimes {
    begun: f64,
    ended: f64,
    time: f64,
    hits: f64,
}

/// Relative uncertainty of the time of hits inside of a call.
const HIT_TIME_DOUBT: f64 = 0.3;
/// The uncertainty of the calls that windows have seen, as a multiple of the random error of their
/// number: some are longer than others.
const INNER_CALLS_DOUBT: f64 = 3.0;
/// The number of calls that is enough to tell whether they are short.
const TELLING_CALLS: f64 = 10.0;

impl CallTimes {
    fn add(&mut self, seen: &FunctionTotals, last: &FunctionTotals) -> Self {
        let new = Self {
            begun: seen.begun - last.begun,
            ended: seen.ended - last.ended,
            time: seen.time - last.time,
            hits: seen.hits - last.hits,
        };
        self.begun += new.begun;
        self.ended += new.ended;
        self.time += new.time;
        self.hits += new.hits;
        new
    }

    /// Returns the time of hits in a call.
    fn of_hits(&self, costs: Costs) -> f64 {
        costs.inside + self.hits / self.ended.max(1.0) * costs.hit()
    }

    /// Returns the mean time of a call, without the hits.
    fn mean(&self, costs: Costs) -> f64 {
        (self.time / self.ended.max(1.0) - self.of_hits(costs)).max(0.0)
    }
}

impl MeasuredSums {
    /// Creates the sums of a function that was added at this time, before its first reading.
    pub(super) fn since(added: Timestamp) -> Self {
        Self { from: added, ..Self::default() }
    }

    /// Begins a mode, after a reading in the mode before, in which calls had this rate: calls per
    /// nanosecond that the program worked.
    pub(super) fn begin(&mut self, mode: MeasureMode, rate: f64, now: Timestamp, others: Untimed) {
        self.from = now;
        self.missed = self.missed_until(now.worked, 0.0);
        self.before_windows = (mode == MeasureMode::Sampled).then_some((rate, now.worked));
        if self.timed.ended == 0.0 {
            self.others = others;
        }
        // Calls under way are forgotten.
        self.timed.begun = self.timed.ended;
    }

    /// Adds a reading in this mode.
    pub(super) fn read(&mut self, mode: MeasureMode, seen: FunctionTotals, now: Timestamp, weight: f64) {
        let calls = seen.calls - self.last.calls;
        let from = std::mem::replace(&mut self.from, now);
        let passed = (now.time - from.time).max(0.0);
        if mode == MeasureMode::Sampled {
            self.is_sampled = true;
            self.worked += (now.worked - from.worked).max(0.0);
        } else {
            self.counted_calls += calls;
            self.counted_first += calls - (seen.resumed - self.last.resumed);
        }
        if mode == MeasureMode::Timed {
            let new = self.timed.add(&seen, &self.last);
            // There were more calls than can be timed at once.
            self.untimed += if new.begun < calls { passed } else { 0.0 };
        } else {
            self.untimed += passed;
            let new = self.in_windows.add(&seen, &self.last);
            self.windows.add(weight, new.ended, new.time);
        }
        self.last = seen;
    }

    /// Returns whether its calls take less than `short` nanoseconds.
    fn is_short(&self, short: f64) -> bool {
        let of_both = |of: fn(&CallTimes) -> f64| of(&self.timed) + of(&self.in_windows);
        let ended = of_both(|it| it.ended);
        ended >= TELLING_CALLS && of_both(|it| it.time) < short * ended
    }

    /// Notes that a window for this function has ended and was read.
    pub(super) fn note_window(&mut self) {
        self.thread_windows += self.last.threads.max(1.0);
    }

    /// Adds a window that has counted `calls`, of which `first` were not later polls of a future,
    /// from `since` to `now`; see [`Rates::add`].
    pub(super) fn add_window(
        &mut self,
        weight: f64,
        [calls, first]: [f64; 2],
        [since, now]: [Timestamp; 2],
        hits: f64,
    ) {
        let worked = now.worked - since.worked;
        self.missed = self.missed_until(since.worked, calls / worked.max(1.0));
        self.before_windows = None;
        self.rates.add(weight, calls, worked, hits);
        self.first_rates.add(weight, first, worked, hits);
    }

    /// Returns how many calls windows may have missed until the program had worked for this time,
    /// if the first window saw this rate. The earlier rate may have lasted until that window.
    fn missed_until(&self, worked: f64, rate: f64) -> f64 {
        let missed = |(before, since): (f64, f64)| (before - rate).max(0.0) * (worked - since).max(0.0);
        self.missed + self.before_windows.map_or(0.0, missed)
    }

    /// Returns the number of calls so far.
    fn calls(&self) -> Estimated {
        self.number(self.last.calls, self.counted_calls, &self.rates)
    }

    /// Returns the same without polls after a future's first one.
    fn first(&self) -> Estimated {
        self.number(self.last.calls - self.last.resumed, self.counted_first, &self.first_rates)
    }

    /// Returns a number of calls of which `least` were seen, and `counted` while each was counted.
    fn number(&self, least: f64, counted: f64, rates: &Rates) -> Estimated {
        if !self.is_sampled {
            return Estimated::exactly(least);
        }
        let Some(sampled) = rates.over(self.worked) else { return Estimated::at_least(least) };
        let sampled = Estimated { value: counted + sampled.value, ..sampled };
        let all = sampled.widened_by(self.missed_until(self.from.worked, 0.0));
        if all.value + all.error < least {
            return Estimated::at_least(least);
        }
        match (Estimated { value: all.value.max(least), ..all }).or_at_least(sampled) {
            Some(known) if !known.is_at_least() => known,
            bound => Estimated::at_least(bound.map_or(least, |it| it.value.max(least))),
        }
    }

    /// Returns the estimates as of the last reading; see [`FunctionState::estimate`].
    pub(super) fn estimate(&self, costs: Costs, threads: f64, others: Untimed) -> FunctionEstimate {
        let calls = self.calls();
        let samples = self.timed.ended + self.in_windows.ended;
        let likely = (self.counted_first + self.first_rates.likely() * self.worked)
            .max(self.last.calls - self.last.resumed);
        let known =
            FunctionEstimate { calls, first: self.first(), likely, samples, ..FunctionEstimate::default() };
        // Calls that are being timed have not ended.
        let ended = calls.value - (self.timed.begun - self.timed.ended);
        if samples == 0.0 || ended < 1.0 {
            return known;
        }
        let (sure, total) = self.total(calls, ended, costs, threads);
        let Some(total) = total.or_at_least(sure) else { return known };
        let unseen = others.unseen_since(self.others);
        let own = self.own(ended, costs).filter(|_| unseen.is_finite());
        let own = own.map(|own| {
            own.widened_by((unseen * threads.max(1.0)).min(self.timed.ended * self.timed.mean(costs)))
        });
        let own = own.and_then(|own| own.widened_by(total.error).or_at_least(own.widened_by(sure.error)));
        // If the number of calls is unknown, so is the mean.
        let mean = (!calls.is_at_least()).then(|| total.times(1.0 / ended));
        FunctionEstimate { mean, own, total: Some(total), ..known }
    }

    /// Returns the time of all calls that have ended: extrapolated from the timed ones, without and
    /// with the time that unseen calls may have taken.
    fn total(&self, calls: Estimated, ended: f64, costs: Costs, threads: f64) -> (Estimated, Estimated) {
        let (timed, samples) = (&self.timed, self.timed.ended + self.in_windows.ended);
        let rest = (ended - timed.ended).max(0.0);
        let each = timed.mean(costs);
        let (of_rest, more) = match self.windows.mean() {
            _ if rest < 1.0 => (Estimated::default(), 0.0),
            Some(mean) => {
                let value = (mean.value - self.in_windows.of_hits(costs)).max(0.0);
                let of_rest = Estimated { value, ..mean }.times(rest);
                (of_rest, self.max_unseen_time())
            }
            None => {
                // The time in which untimed calls can have run.
                let room = self.untimed * threads + self.last.spanned;
                let value = (rest * each).min(room);
                (Estimated { value, error: value }, room - value)
            }
        };
        let hits = (timed.hits + self.in_windows.hits) / samples;
        let doubt = ended * (costs.doubt + HIT_TIME_DOUBT * hits * costs.hit());
        let (value, error) = (timed.ended * each + of_rest.value, doubt.hypot(of_rest.error));
        let by_calls = calls.known_error().unwrap_or_default() * value / ended;
        let sure = Estimated { value, error: error + by_calls };
        // Calls inside of each other can take more than all of the time.
        let is_bounded = !calls.is_at_least() && (self.last.nested == 0.0 || rest < 1.0);
        (sure, sure.widened_by(if is_bounded { more } else { f64::INFINITY }))
    }

    /// Returns the most time that may have been spent in calls longer than any that windows have
    /// timed.
    fn max_unseen_time(&self) -> f64 {
        let FunctionTotals { windows, threads, .. } = self.last;
        let met = (self.thread_windows - windows).max(0.0);
        max_unseen_share(met, self.thread_windows) * self.untimed * threads.max(1.0)
    }

    /// Returns the part of the time of all calls that is in no other function with probes. Its
    /// error is that of the calls that windows have seen inside, and of the hits of calls inside.
    fn own(&self, ended: f64, costs: Costs) -> Option<Estimated> {
        let FunctionTotals {
            whole, own, inside, sampled_inner, sampled_inner_calls, sampled_inner_seen, ..
        } = self.last;
        if whole == 0.0 {
            return None;
        }
        let outside = inside / whole * costs.outside();
        let each = (own / whole - costs.inside - outside).max(0.0);
        let sampled_inner = (sampled_inner - sampled_inner_calls * costs.inside).max(0.0);
        let value = (each * ended - sampled_inner).max(0.0);
        let by_hits = HIT_TIME_DOUBT * outside * ended;
        Some(Estimated {
            value,
            error: by_hits.hypot(INNER_CALLS_DOUBT * sampled_inner / sampled_inner_seen.max(1.0).sqrt()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_that_was_only_counted_is_read_later() {
        let [mut always, mut late] = [(); 2].map(|()| FunctionState::default());
        always.measured();
        for (time, calls, delivered) in [(200.0, 3.0, 0.0), (300.0, 5.0, 0.0), (400.0, 7.0, 1.0)] {
            assert!(late.measured.is_none());
            let seen = FunctionTotals { calls, delivered, ..FunctionTotals::default() };
            for state in [&mut always, &mut late] {
                state.read(seen, Timestamp { time, worked: 0.0 });
            }
        }
        assert_eq!(format!("{late:?}"), format!("{always:?}"));
        // There is one for each of thousands of functions.
        assert!(size_of::<FunctionState>() <= 72);
    }

    #[test]
    fn untimed_calls_may_be_inside() {
        let own = |time: f64, windows: f64, unwatched: f64| {
            let others = Untimed { time, windows, unwatched: 0.0 };
            let mut state = FunctionState::default();
            state.begin(MeasureMode::Timed, Timestamp::default(), others);
            let seen = FunctionTotals {
                calls: 1.0,
                begun: 1.0,
                ended: 1.0,
                time: 100.0,
                ..FunctionTotals::default()
            };
            let (seen, now) =
                (FunctionTotals { whole: 1.0, own: 100.0, ..seen }, Timestamp { time: 200.0, worked: 0.0 });
            let others = Untimed { time: 60.0, windows: 12.0, unwatched };
            state.estimate(seen, now, (Costs::default(), 1.0, others)).own.unwrap()
        };
        // Calls were untimed for 60, of which 20 were before the function was timed. Of the rest,
        // windows that have met none leave 3 parts of their number: of 6, of 12, and of none.
        assert_eq!(own(20.0, 6.0, 0.0), Estimated { value: 100.0, error: 20.0 });
        assert_eq!(own(20.0, 0.0, 0.0), Estimated { value: 100.0, error: 10.0 });
        assert_eq!(own(20.0, 12.0, 0.0), Estimated { value: 100.0, error: 40.0 });
        assert_eq!(own(60.0, 0.0, 0.0), Estimated::exactly(100.0));
        // Windows have looked at a half of the rest only.
        assert_eq!(own(20.0, 6.0, 20.0), Estimated { value: 100.0, error: 30.0 });
    }

    const fn at(worked: f64) -> Timestamp {
        Timestamp { time: worked, worked }
    }

    /// Windows of ten in each hundred, in all of which the function has this rate.
    fn windows(measured: &mut MeasuredSums, from: u32, rate: f64) {
        for start in (from..from + 2000).step_by(100).map(f64::from) {
            measured.add_window(10.0, [10.0 * rate; 2], [at(start), at(start + 10.0)], 0.0);
        }
        let seen = FunctionTotals { calls: measured.last.calls, ..FunctionTotals::default() };
        measured.read(MeasureMode::Sampled, seen, at(f64::from(from + 2000)), 1.0);
    }

    #[test]
    fn calls_before_the_first_window_are_in_doubt() {
        let sampled = |before: f64, rate: f64| {
            let mut measured = MeasuredSums::default();
            measured.begin(MeasureMode::Sampled, before, at(0.0), Untimed::default());
            windows(&mut measured, 500, rate);
            measured
        };
        let steady = sampled(2.0, 2.0).calls();
        assert!((steady.value - 5000.0).abs() < 1e-6 && steady.error < 1500.0, "{steady:?}");
        // It may have been called 6 times more often up to the first window.
        let ended = sampled(8.0, 2.0).calls();
        assert_eq!((ended.value, ended.error), (steady.value, steady.error + 6.0 * 500.0));
        // The error would exceed the number, so it is a lower bound.
        let burst = sampled(80.0, 2.0).calls();
        assert!(burst.is_at_least() && (burst.value - (5000.0 - steady.error)).abs() < 1e-6, "{burst:?}");
        // Another beginning adds to it, also one that no window has followed.
        let mut again = sampled(8.0, 2.0);
        again.begin(MeasureMode::Counted, 2.0, at(2500.0), Untimed::default());
        again.begin(MeasureMode::Sampled, 3.0, at(2600.0), Untimed::default());
        assert!((again.missed_until(2700.0, 0.0) - (3000.0 + 300.0)).abs() < 1e-6);
        assert!((again.missed_until(2700.0, 2.0) - (3000.0 + 100.0)).abs() < 1e-6);
    }

    #[test]
    fn hits_of_calls_inside_make_own_time_doubtful() {
        let own = |inside: f64, own: f64| {
            let mut measured = MeasuredSums::default();
            let seen = FunctionTotals { calls: 10.0, ended: 10.0, begun: 10.0, ..FunctionTotals::default() };
            let seen = FunctionTotals { whole: 10.0, own: 10.0 * own, inside: 10.0 * inside, ..seen };
            measured.read(MeasureMode::Timed, seen, at(1e6), 1.0);
            measured.own(10.0, Costs { delivered: 30.0, reading: 20.0, inside: 50.0, ..Costs::default() })
        };
        assert_eq!(own(0.0, 1050.0), Some(Estimated { value: 10_000.0, error: 0.0 }));
        // A hundred calls inside leave 50 ns each, of which three tenths are in doubt.
        assert_eq!(own(100.0, 6050.0), Some(Estimated { value: 10_000.0, error: 15_000.0 }));
    }

    #[test]
    fn first_polls_are_estimated_as_polls_are() {
        let mut measured = MeasuredSums::default();
        measured.begin(MeasureMode::Sampled, 2.0, at(0.0), Untimed::default());
        for start in (0..2000).step_by(100).map(f64::from) {
            measured.add_window(10.0, [40.0, 20.0], [at(start), at(start + 10.0)], 0.0);
        }
        let seen = FunctionTotals { calls: 800.0, resumed: 400.0, ..FunctionTotals::default() };
        measured.read(MeasureMode::Sampled, seen, at(2000.0), 1.0);
        let [polls, first] = [measured.calls(), measured.first()];
        assert!((polls.value - 8000.0).abs() < 1e-6 && polls.error < 2500.0, "{polls:?}");
        assert!((first.value - 4000.0).abs() < 1e-6 && first.error < 1500.0, "{first:?}");
        // While each was counted, too.
        measured.begin(MeasureMode::Counted, 0.0, at(2000.0), Untimed::default());
        let seen = FunctionTotals { calls: 900.0, resumed: 440.0, ..FunctionTotals::default() };
        measured.read(MeasureMode::Counted, seen, at(3000.0), 1.0);
        assert!((measured.first().value - 4060.0).abs() < 1e-6, "{:?}", measured.first());
    }
}
