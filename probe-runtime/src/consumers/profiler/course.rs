//! What is known of one function: sums from the beginning until its last reading. Pure.

use super::costs::Costs;
use super::estimate::{Estimated, Rates, Ratio};
use super::part::Seen;
use super::plan::Mode;

/// The course of a function.
#[derive(Clone, Default, Debug)]
pub(super) struct Course {
    pub(super) mode: Mode,
    /// The last reading.
    pub(super) last: Seen,
    /// Calls while each was counted.
    counted: f64,
    /// Of these, calls while each was to be timed, and those that were not; the others' times.
    timed: Times,
    skipped: f64,
    /// Calls while they were counted in windows only, and for how long that was the case.
    pub(super) rates: Rates,
    pub(super) sampled: f64,
    pub(super) sampled_from: u64,
    /// Until when windows stand for that time.
    pub(super) covered: u64,
    /// When all functions were read last: calls, and those that were delivered; and calls a tick,
    /// then or when each was counted last.
    pub(super) surveyed: (u64, u64),
    pub(super) rate: f64,
    /// Times from windows.
    windows: Ratio,
    in_windows: Times,
    /// For how long calls of windows went on that have not ended in time, at least.
    unended: f64,
    /// Whether its calls take too long for short windows.
    pub(super) is_long: bool,
}

/// Times of calls, in ticks, with what hits took of them.
#[derive(Clone, Copy, Default, Debug)]
struct Times {
    begun: f64,
    ended: f64,
    time: f64,
    squares: f64,
    hits: f64,
}

impl Times {
    fn add(&mut self, seen: &Seen, last: &Seen) -> Self {
        #[expect(clippy::cast_precision_loss, reason = "of an estimate")]
        let since = |of: fn(&Seen) -> u64| of(seen).wrapping_sub(of(last)) as f64;
        let new = Self {
            begun: since(|it| it.begun),
            ended: since(|it| it.ended),
            time: since(|it| it.time),
            squares: (seen.squares - last.squares).max(0.0),
            hits: since(|it| it.hits),
        };
        self.begun += new.begun;
        self.ended += new.ended;
        self.time += new.time;
        self.squares += new.squares;
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

    fn deviation(&self) -> f64 {
        (self.squares / self.ended.max(1.0) - (self.time / self.ended.max(1.0)).powi(2)).max(0.0).sqrt()
    }
}

/// What is known of a function: times in ticks.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Known {
    pub(super) calls: Estimated,
    pub(super) mean: Option<Estimated>,
    pub(super) own: Option<f64>,
    pub(super) total: Option<Estimated>,
    pub(super) samples: f64,
}

/// Calls that were not timed, up to this part of those that were, are taken for no longer.
const FEW: f64 = 0.25;
/// The part of their time that calls of windows may have gone on without ending: to be told from a
/// function that takes too long, and for a mean.
const LONG: f64 = 0.05;
const UNENDED: f64 = 0.02;
/// How uncertain it is what hits inside of a call took of it.
const HITS: f64 = 0.2;
/// So many tell.
const TELLING: f64 = 10.0;

impl Course {
    /// From here on, it is in this mode.
    pub(super) fn begin(&mut self, mode: Mode, now: u64) {
        (self.mode, self.sampled_from, self.covered) = (mode, now, now);
        // Calls under way are forgotten.
        self.timed.begun = self.timed.ended;
        self.is_long &= mode != Mode::Timed;
    }

    /// Reads on. `weight` is what a call of the last window stands for, which was so long.
    #[expect(clippy::cast_precision_loss, reason = "of an estimate")]
    pub(super) fn read(&mut self, seen: Seen, weight: f64, length: f64) {
        let calls = seen.calls.saturating_sub(self.last.calls) as f64;
        if self.mode != Mode::Sampled {
            self.counted += calls;
        }
        if self.mode == Mode::Timed {
            let new = self.timed.add(&seen, &self.last);
            self.skipped += calls - new.begun;
        } else {
            let new = self.in_windows.add(&seen, &self.last);
            self.windows.add(weight, new.ended, new.time);
            self.unended += (new.begun - new.ended).max(0.0) * length;
            if !self.is_long && self.in_windows.begun >= TELLING && self.lost() > LONG {
                // Those that have ended are the shorter ones.
                self.is_long = true;
                (self.windows, self.in_windows, self.unended) = (Ratio::default(), Times::default(), 0.0);
            }
        }
        self.last = seen;
    }

    /// Calls so far.
    #[expect(clippy::cast_precision_loss, reason = "of an estimate")]
    fn calls(&self) -> Estimated {
        if self.sampled == 0.0 {
            return Estimated::exactly(self.last.calls as f64);
        }
        let least = self.last.calls as f64;
        match self.rates.over(self.sampled) {
            Some(sampled) if self.counted + sampled.value + sampled.error >= least => {
                let value = (self.counted + sampled.value).max(least);
                Estimated { value, error: sampled.error }
            }
            _ => Estimated::at_least(least),
        }
    }

    /// All that is known by the last reading.
    pub(super) fn known(&self, costs: Costs) -> Known {
        let calls = self.calls();
        let samples = self.timed.ended + self.in_windows.ended;
        let (mean, total) = self.times(calls, costs);
        let is_known = !self.is_long && !calls.is_at_least();
        let own = mean.filter(|_| is_known).and_then(|_| self.own(calls.value, costs));
        Known { calls, mean, own, total, samples }
    }

    /// Calls that are being timed.
    fn under_way(&self) -> f64 {
        self.timed.begun - self.timed.ended
    }

    /// The part of the time of calls in windows of which nothing is known.
    fn lost(&self) -> f64 {
        if self.unended > 0.0 { self.unended / (self.unended + self.in_windows.time) } else { 0.0 }
    }

    /// The mean time of a call, and the time of all that have ended.
    fn times(&self, calls: Estimated, costs: Costs) -> (Option<Estimated>, Option<Estimated>) {
        let timed = &self.timed;
        // Where none was timed, nothing tells of those that were not.
        let skipped = if timed.ended > 0.0 { self.skipped.max(0.0) } else { 0.0 };
        let ended = calls.value - self.under_way();
        let rest = ended - timed.ended - skipped;
        let rest = Estimated { value: rest.max(0.0), error: calls.known_error().unwrap_or_default() };
        let each = timed.mean(costs);
        let of_timed = Estimated {
            value: (timed.ended + skipped) * each,
            error: 2.0 * timed.deviation() * (skipped.sqrt() + skipped / timed.ended.max(1.0).sqrt()),
        };
        let of_rest = match self.windows.mean() {
            _ if rest.value < 1.0 => Some(Estimated::default()),
            Some(mean) if self.lost() <= UNENDED => {
                let value = (mean.value - self.in_windows.of_hits(costs)).max(0.0);
                Some(Estimated { value, ..mean }.times(rest.value))
            }
            _ if rest.value <= FEW * timed.ended => {
                Some(Estimated { value: each, error: each + 2.0 * timed.deviation() }.times(rest.value))
            }
            _ => None,
        };
        let samples = timed.ended + self.in_windows.ended;
        if samples == 0.0 || ended < 1.0 {
            return (None, None);
        }
        let hits = (timed.hits + self.in_windows.hits) / samples;
        let doubt = Estimated { value: 0.0, error: ended * (costs.doubt + HITS * hits * costs.hit()) };
        let Some(of_rest) = of_rest else {
            let least = Estimated::at_least(timed.ended * each);
            return (None, (timed.ended > 0.0).then_some(least));
        };
        let of_so_many = of_timed.plus(of_rest).plus(doubt);
        let mean = of_so_many.times(1.0 / ended);
        let total = match calls.known_error() {
            Some(_) => of_so_many.plus(Estimated { value: 0.0, error: rest.error * mean.value }),
            None => Estimated::at_least(of_so_many.value - of_so_many.error),
        };
        // One that may be nothing, or twice as much, says nothing.
        let says = |it: &Estimated| it.value > 0.0 && (it.is_at_least() || it.error <= it.value);
        (Some(mean).filter(says), Some(total).filter(says))
    }

    /// The part of all its calls' time that is in no other function with probes.
    #[expect(clippy::cast_precision_loss, reason = "of an estimate")]
    fn own(&self, calls: f64, costs: Costs) -> Option<f64> {
        let Seen { whole, own, inside, below, below_calls, .. } = self.last;
        if whole == 0 {
            return None;
        }
        let own = own as f64 - whole as f64 * costs.inside - inside as f64 * costs.outside();
        let each = own.max(0.0) / whole as f64;
        let below = (below as f64 - below_calls as f64 * costs.inside).max(0.0);
        Some((each * (calls - self.under_way()) - below).max(0.0))
    }
}
