//! A window, in which a function's calls are counted, and the effects of hits on it.

use super::costs::Costs;
use super::times::{Kinds, Times};

/// The part of a window that remains at least, if hits would take all of it.
pub(super) const LEAST: f64 = 0.2;
/// If delivered hits take more than this part of a window, it says too little of rates.
const DISTURBED: f64 = 0.03;

/// A window, and the gap before it. Times in ticks.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Window {
    pub(super) gap: f64,
    pub(super) length: f64,
    pub(super) burden: Burden,
    pub(super) calls: f64,
    /// Timed calls of all kinds.
    pub(super) timed: f64,
    /// Timed calls that stand for others.
    pub(super) samples: f64,
    pub(super) time: f64,
    pub(super) squares: f64,
    /// Hits inside of timed calls.
    pub(super) inner: f64,
    /// Calls that took much longer, and hits inside of these.
    pub(super) long: f64,
    pub(super) time_of_long: f64,
    pub(super) inner_of_long: f64,
    /// Whether it has only just begun, and says nothing of rates.
    pub(super) is_new: bool,
}

/// The threads' time that hits of all functions have taken.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Burden {
    pub(super) counted: f64,
    /// Adds the time of clock readings.
    pub(super) delivered: f64,
}

impl Burden {
    pub(super) fn since(self, then: Self) -> Self {
        Self { counted: self.counted - then.counted, delivered: self.delivered - then.delivered }
    }
}

impl Window {
    /// Adds the times of calls, which stand for themselves and `others`. If there are none of
    /// these, or hardly any call was a usual one, all calls are taken to be alike.
    #[expect(clippy::cast_precision_loss, reason = "far fewer")]
    pub(super) fn with_times(self, times: &Kinds<Times>, has_others: bool) -> Self {
        let all = times.all();
        let has_others = has_others || (all.samples as f64) < self.calls;
        let is_told = has_others && times.usual.samples != 0 && times.usual.samples >= times.cold.samples;
        let (like, long) = if is_told { (times.usual, times.long) } else { (all, Times::default()) };
        Self {
            timed: all.samples as f64,
            samples: like.samples as f64,
            time: like.time as f64,
            squares: like.squares,
            inner: like.inner as f64,
            long: long.samples as f64,
            time_of_long: long.time as f64,
            inner_of_long: long.inner as f64,
            ..self
        }
    }

    /// Its length as without hits: the same work would have taken less time.
    pub(super) fn undisturbed(&self) -> f64 {
        (self.length - self.burden.counted - self.burden.delivered).max(self.length * LEAST)
    }

    /// Calls a tick in this window alone.
    pub(super) fn rate(&self) -> f64 {
        self.calls / self.undisturbed()
    }

    /// Whether its rate is better than a guess.
    pub(super) fn tells_rate(&self) -> bool {
        !self.is_new && self.burden.delivered <= DISTURBED * self.length
    }

    /// Subtracts hits that were measured as a part of the calls: their own, and those of inner
    /// calls.
    pub(super) fn without_hits(mut self, costs: &Costs) -> Self {
        let samples = self.samples.max(1.0);
        let own = (self.inner * costs.delivered / samples + costs.inside).min(self.time / samples);
        // Their variance is the same as before.
        self.squares = (self.squares - own * (2.0 * self.time - self.samples * own)).max(0.0);
        self.time -= own * self.samples;
        let of_long = self.inner_of_long * costs.delivered + self.long * costs.inside;
        self.time_of_long = (self.time_of_long - of_long).max(0.0);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(samples: u64, time: u64) -> Times {
        Times { samples, time, squares: 0.0, inner: 0 }
    }

    #[test]
    fn usual_calls_stand_for_others() {
        let window = |calls| Window { calls, ..Window::default() };
        let kinds = Kinds { cold: times(2, 900), usual: times(7, 700), long: times(1, 5000) };
        let numbers = |it: Window| (it.timed, it.samples, it.time, it.long, it.time_of_long);
        let (told, all) = ((10.0, 7.0, 700.0, 1.0, 5000.0), (10.0, 10.0, 6600.0, 0.0, 0.0));
        assert_eq!(numbers(window(11.0).with_times(&kinds, false)), told);
        assert_eq!(numbers(window(10.0).with_times(&kinds, true)), told, "there are some from before");
        assert_eq!(numbers(window(10.0).with_times(&kinds, false)), all, "each was timed");
        // One call on each of many threads.
        let spread = Kinds { cold: times(8, 5600), usual: times(1, 100), long: times(1, 900) };
        assert_eq!(numbers(window(90.0).with_times(&spread, true)), all);
    }

    #[test]
    fn hits_inside_of_long_calls_are_taken_off() {
        let costs = Costs { delivered: 5.0, inside: 20.0, ..Costs::default() };
        let window = Window { long: 2.0, time_of_long: 1000.0, inner_of_long: 100.0, ..Window::default() };
        assert!((window.without_hits(&costs).time_of_long - 460.0).abs() < 1e-9);
    }
}
