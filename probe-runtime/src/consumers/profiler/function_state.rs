//! The knowledge about one function: sums from the beginning until its last reading. Pure.

use super::costs::Costs;
use super::estimate::{Estimated, Untimed};
use super::measured::MeasuredSums;
use super::part::FunctionTotals;
use super::plan::MeasureMode;

/// A moment: the time since the profiler began, and how long the program has worked by then, on all
/// processors.
#[derive(Clone, Copy, PartialEq, Default, Debug)]
pub(super) struct Moment {
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
    pub(super) added: Moment,
    /// The number of calls that each of its calls in the last window stood for.
    pub(super) weight: f32,
    /// Calls at the last survey. (`booked` has the calls and the delivered hits at the last update
    /// of the accounts.)
    pub(super) surveyed: f64,
    /// Whether it had been called before that survey.
    pub(super) is_known: bool,
    pub(super) booked: (f64, f64),
    /// Calls per nanosecond, when it was last counted: between two surveys, or in a window.
    pub(super) rate: f64,
    /// Calls per nanosecond that the program worked, between the last two surveys.
    pub(super) worked_rate: f64,
    /// `None` while all calls were counted and no hit was delivered, as for most of thousands of
    /// functions.
    measured: Option<Box<MeasuredSums>>,
}

/// The knowledge about a function.
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
    /// Returns the knowledge that a function was called so often, and no more.
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
    pub(super) fn joining(added: Moment) -> Self {
        Self { is_joining: true, added, ..Self::default() }
    }

    /// Returns the function's sums, created by the first call of this method.
    pub(super) fn measured(&mut self) -> &mut MeasuredSums {
        let added = self.added;
        self.measured.get_or_insert_with(|| Box::new(MeasuredSums::since(added)))
    }

    /// Adds a reading.
    pub(super) fn read(&mut self, seen: FunctionTotals, now: Moment) {
        let (mode, weight) = (self.mode, f64::from(self.weight));
        // Otherwise it is read from its beginning once there is more to know.
        if self.measured.is_some() || seen.delivered != 0.0 {
            self.measured().read(mode, seen, now, weight);
        }
    }

    /// Returns whether the function may have had untimed calls since the last survey.
    pub(super) fn has_untimed(&self, seen: &FunctionTotals) -> bool {
        match self.mode {
            MeasureMode::Timed => false,
            MeasureMode::Counted => seen.calls > self.surveyed,
            MeasureMode::Sampled => true,
        }
    }

    /// Begins a mode, after the function was read in the mode before. `others` says how long calls
    /// of any function went untimed so far.
    pub(super) fn begin(&mut self, mode: MeasureMode, now: Moment, others: Untimed) {
        self.mode = mode;
        let rate = self.worked_rate;
        self.measured().begin(mode, rate, now, others);
    }

    /// Returns whether each call may be timed. Calls shorter than `short` nanoseconds may not. If
    /// timing is expensive, a function that has just been called for the first time may not either:
    /// it may have 100 million calls until the next survey.
    pub(super) fn may_be_timed(&self, short: f64, is_dear: bool) -> bool {
        let is_short = self.measured.as_ref().is_some_and(|it| it.is_short(short));
        !is_short && !self.is_joining && (self.is_known || self.mode == MeasureMode::Timed || !is_dear)
    }

    /// Returns the knowledge as of a reading that is not added, in a program of at most so many
    /// threads. `others` are the untimed calls of any function.
    pub(super) fn known(
        &self,
        seen: FunctionTotals,
        now: Moment,
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
        measured.known(costs, threads, others)
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
                state.read(seen, Moment { time, worked: 0.0 });
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
            state.begin(MeasureMode::Timed, Moment::default(), others);
            let seen = FunctionTotals {
                calls: 1.0,
                begun: 1.0,
                ended: 1.0,
                time: 100.0,
                ..FunctionTotals::default()
            };
            let (seen, now) =
                (FunctionTotals { whole: 1.0, own: 100.0, ..seen }, Moment { time: 200.0, worked: 0.0 });
            let others = Untimed { time: 60.0, windows: 12.0, unwatched };
            state.known(seen, now, (Costs::default(), 1.0, others)).own.unwrap()
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
}
