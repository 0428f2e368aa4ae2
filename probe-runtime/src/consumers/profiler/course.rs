//! What is known of one function: sums from the beginning until its last reading. Pure.

use super::costs::Costs;
use super::estimate::{Estimated, Rates, Ratio, hidden};
use super::part::Seen;
use super::plan::Mode;

/// A moment: since it began, and for how long the program has worked by then, on all processors.
#[derive(Clone, Copy, PartialEq, Default, Debug)]
pub(super) struct Moment {
    pub(super) time: f64,
    pub(super) worked: f64,
}

/// The course of a function.
#[derive(Clone, Default, Debug)]
pub(super) struct Course {
    pub(super) mode: Mode,
    /// Whether its calls are counted by code of its sites' own.
    pub(super) is_in_place: bool,
    /// Calls when all functions were surveyed last; and when accounts were made up, with those that
    /// were delivered.
    pub(super) surveyed: f64,
    /// Whether it had been called before that survey.
    pub(super) is_known: bool,
    pub(super) booked: (f64, f64),
    /// Calls a nanosecond, when it was surveyed, or counted, last.
    pub(super) rate: f64,
    /// `None` while each call was counted, and no hit was delivered: as of most of thousands.
    measured: Option<Box<Measured>>,
}

/// The sums of a function whose hits were delivered, or that was in another mode than counted.
#[derive(Clone, Default, Debug)]
pub(super) struct Measured {
    /// The last reading.
    last: Seen,
    /// Calls while each was counted.
    counted: f64,
    /// Of these, those that were timed while each was to be.
    timed: Times,
    /// Calls while they were counted in windows only, if they ever were; and for how long the program has
    /// worked then.
    pub(super) rates: Rates,
    is_sampled: bool,
    worked: f64,
    /// For how long not each call was timed; and until when that is known.
    untimed: f64,
    from: Moment,
    /// For how long calls of any function had not been timed, when this one's first were.
    others: f64,
    /// Windows for it, on threads that have hit any.
    looks: f64,
    /// Times from windows.
    windows: Ratio,
    in_windows: Times,
}

/// Times of calls, with what hits took of them.
#[derive(Clone, Copy, Default, Debug)]
struct Times {
    begun: f64,
    ended: f64,
    time: f64,
    hits: f64,
}

impl Times {
    fn add(&mut self, seen: &Seen, last: &Seen) -> Self {
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

    /// What hits took of a call.
    fn of_hits(&self, costs: Costs) -> f64 {
        costs.inside + self.hits / self.ended.max(1.0) * costs.hit()
    }

    /// The mean, without that.
    fn mean(&self, costs: Costs) -> f64 {
        (self.time / self.ended.max(1.0) - self.of_hits(costs)).max(0.0)
    }
}

/// What is known of a function.
#[derive(Clone, Copy, PartialEq, Default, Debug)]
pub(super) struct Known {
    pub(super) calls: Estimated,
    pub(super) mean: Option<Estimated>,
    pub(super) own: Option<Estimated>,
    pub(super) total: Option<Estimated>,
    pub(super) samples: f64,
}

/// How uncertain it is what hits inside of a call took of it.
const HITS: f64 = 0.2;
/// How many times the error of their number, by chance, calls that windows have seen are uncertain by:
/// some are longer than others.
const BELOW: f64 = 3.0;
/// So many tell.
const TELLING: f64 = 10.0;

impl Course {
    pub(super) fn new(is_in_place: bool) -> Self {
        Self { is_in_place, ..Self::default() }
    }

    /// The function's sums, made at the first call of this method.
    pub(super) fn measured(&mut self) -> &mut Measured {
        self.measured.get_or_insert_default()
    }

    /// Reads on. `weight` is what a call of the last window stands for.
    pub(super) fn read(&mut self, seen: Seen, now: Moment, weight: f64) {
        let mode = self.mode;
        // Else it is read from its beginning when there is more to know.
        if self.measured.is_some() || seen.delivered != 0.0 {
            self.measured().read(mode, seen, now, weight);
        }
    }

    /// Whether calls may have been made since the last survey that were not timed.
    pub(super) fn has_untimed(&self, seen: &Seen) -> bool {
        match self.mode {
            Mode::Timed => false,
            Mode::Counted => seen.calls > self.surveyed,
            Mode::Sampled => true,
        }
    }

    /// From here on, it is in this mode; it was read in the one before. `others` is for how long calls of
    /// any function may have been made so far that were not timed.
    pub(super) fn begin(&mut self, mode: Mode, now: Moment, others: f64) {
        self.mode = mode;
        let measured = self.measured();
        measured.from = now;
        if measured.timed.ended == 0.0 {
            measured.others = others;
        }
        // Calls under way are forgotten.
        measured.timed.begun = measured.timed.ended;
    }

    /// Whether its calls may be timed each. Calls of up to so many nanoseconds may not. If timing is
    /// dear, nor may those of a function that has just been called for the first time: it may have 100
    /// million calls until the next survey.
    pub(super) fn may_be_timed(&self, short: f64, is_dear: bool) -> bool {
        let is_short = self.measured.as_ref().is_some_and(|it| it.is_short(short));
        !is_short && (self.is_known || self.mode == Mode::Timed || !is_dear)
    }

    /// All that is known as just read, in a program of so many threads at most. `others` is for how long
    /// calls of any function were not timed, and the part of that, at most, that may have been inside of
    /// calls of this one and never seen.
    pub(super) fn known(&self, costs: Costs, threads: f64, others: [f64; 2]) -> Known {
        match &self.measured {
            Some(measured) => measured.known(costs, threads, others),
            None => Known { calls: Estimated::exactly(self.booked.0), ..Known::default() },
        }
    }
}

impl Measured {
    fn read(&mut self, mode: Mode, seen: Seen, now: Moment, weight: f64) {
        let calls = seen.calls - self.last.calls;
        let from = std::mem::replace(&mut self.from, now);
        let passed = (now.time - from.time).max(0.0);
        if mode == Mode::Sampled {
            self.is_sampled = true;
            self.worked += (now.worked - from.worked).max(0.0);
        } else {
            self.counted += calls;
        }
        if mode == Mode::Timed {
            let new = self.timed.add(&seen, &self.last);
            // More than are timed at once.
            self.untimed += if new.begun < calls { passed } else { 0.0 };
        } else {
            self.untimed += passed;
            let new = self.in_windows.add(&seen, &self.last);
            self.windows.add(weight, new.ended, new.time);
        }
        self.last = seen;
    }

    /// Whether its calls take less than so many nanoseconds.
    fn is_short(&self, short: f64) -> bool {
        let of_both = |of: fn(&Times) -> f64| of(&self.timed) + of(&self.in_windows);
        let ended = of_both(|it| it.ended);
        ended >= TELLING && of_both(|it| it.time) < short * ended
    }

    /// A window for it is over, as just read.
    pub(super) fn looked(&mut self) {
        self.looks += self.last.threads.max(1.0);
    }

    /// Calls so far.
    fn calls(&self) -> Estimated {
        let least = self.last.calls;
        if !self.is_sampled {
            return Estimated::exactly(least);
        }
        match self.rates.over(self.worked) {
            Some(sampled) if self.counted + sampled.value + sampled.error >= least => {
                let value = (self.counted + sampled.value).max(least);
                Estimated { value, error: sampled.error }
            }
            _ => Estimated::at_least(least),
        }
    }

    fn known(&self, costs: Costs, threads: f64, [untimed, part]: [f64; 2]) -> Known {
        let calls = self.calls();
        let samples = self.timed.ended + self.in_windows.ended;
        let known = Known { calls, samples, ..Known::default() };
        // Without those that are being timed.
        let ended = calls.value - (self.timed.begun - self.timed.ended);
        if samples == 0.0 || ended < 1.0 {
            return known;
        }
        let (sure, total) = self.total(calls, ended, costs, threads);
        let Some(total) = total.or_at_least(sure) else { return known };
        let untimed = untimed - self.others;
        let unseen = if untimed > 0.0 { untimed * part } else { 0.0 };
        let own = self.own(ended, costs).filter(|_| unseen.is_finite());
        let own = own.map(|own| own.or_more(unseen.min(self.timed.ended * self.timed.mean(costs))));
        let own = own.and_then(|own| own.or_more(total.error).or_at_least(own.or_more(sure.error)));
        // Of more calls than are known of, nothing is the mean.
        let mean = (!calls.is_at_least()).then(|| total.times(1.0 / ended));
        Known { mean, own, total: Some(total), ..known }
    }

    /// The time of all calls that have ended: as those say that were timed, and with what the others
    /// may have taken.
    fn total(&self, calls: Estimated, ended: f64, costs: Costs, threads: f64) -> (Estimated, Estimated) {
        let (timed, samples) = (&self.timed, self.timed.ended + self.in_windows.ended);
        let rest = (ended - timed.ended).max(0.0);
        let each = timed.mean(costs);
        let (of_rest, more) = match self.windows.mean() {
            _ if rest < 1.0 => (Estimated::default(), 0.0),
            Some(mean) => {
                let value = (mean.value - self.in_windows.of_hits(costs)).max(0.0);
                let of_rest = Estimated { value, ..mean }.times(rest);
                (of_rest, self.hidden())
            }
            None => {
                // All the time in which they can have been.
                let room = self.untimed * threads + self.last.spanned;
                let value = (rest * each).min(room);
                (Estimated { value, error: value }, room - value)
            }
        };
        let hits = (timed.hits + self.in_windows.hits) / samples;
        let doubt = ended * (costs.doubt + HITS * hits * costs.hit());
        let (value, error) = (timed.ended * each + of_rest.value, doubt.hypot(of_rest.error));
        let by_calls = calls.known_error().unwrap_or_default() * value / ended;
        let sure = Estimated { value, error: error + by_calls };
        // Calls inside of calls take more than all the time.
        let is_bounded = !calls.is_at_least() && (self.last.nested == 0.0 || rest < 1.0);
        (sure, sure.or_more(if is_bounded { more } else { f64::INFINITY }))
    }

    /// What calls may have taken, at most, that were longer than any that was timed in windows.
    fn hidden(&self) -> f64 {
        let Seen { windows, threads, .. } = self.last;
        let met = (self.looks - windows).max(0.0);
        hidden(met, self.looks) * self.untimed * threads.max(1.0)
    }

    /// The part of all its calls' time that is in no other function with probes; its error is that of
    /// what windows have seen inside.
    fn own(&self, ended: f64, costs: Costs) -> Option<Estimated> {
        let Seen { whole, own, inside, below, below_calls, below_seen, .. } = self.last;
        if whole == 0.0 {
            return None;
        }
        let each = (own / whole - costs.inside - inside / whole * costs.outside()).max(0.0);
        let below = (below - below_calls * costs.inside).max(0.0);
        let value = (each * ended - below).max(0.0);
        Some(Estimated { value, error: BELOW * below / below_seen.max(1.0).sqrt() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_only_counted_is_caught_up_on() {
        let [mut always, mut late] = [(); 2].map(|()| Course::default());
        always.measured();
        for (time, calls, delivered) in [(200.0, 3.0, 0.0), (300.0, 5.0, 0.0), (400.0, 7.0, 1.0)] {
            assert!(late.measured.is_none());
            let seen = Seen { calls, delivered, ..Seen::default() };
            for course in [&mut always, &mut late] {
                course.read(seen, Moment { time, worked: 0.0 }, 1.0);
            }
        }
        assert_eq!(format!("{late:?}"), format!("{always:?}"));
        // As of each of thousands of functions.
        assert!(size_of::<Course>() <= 72);
    }

    #[test]
    fn calls_that_nobody_timed_may_be_inside() {
        let own = |others: f64| {
            let mut course = Course::default();
            course.begin(Mode::Timed, Moment::default(), others);
            let seen = Seen { calls: 1.0, begun: 1.0, ended: 1.0, time: 100.0, ..Seen::default() };
            course.read(Seen { whole: 1.0, own: 100.0, ..seen }, Moment { time: 200.0, worked: 0.0 }, 1.0);
            course.known(Costs::default(), 1.0, [60.0, 0.5]).own.unwrap()
        };
        // For so long since it is timed, and half of that.
        assert_eq!(own(20.0), Estimated { value: 100.0, error: 20.0 });
        assert_eq!(own(60.0), Estimated::exactly(100.0));
    }
}
