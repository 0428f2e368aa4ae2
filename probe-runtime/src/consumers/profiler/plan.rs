//! Decides which functions are timed at each call, counted at each call, or counted in windows.
//! Pure.
//!
//! A function's *load* is the cost of its recent calls, as a part of the income of the same time.
//! Functions are taken in the order of their loads, the smallest first, so that as many as possible
//! are measured completely:
//!
//! ```text
//! loads:  0 … ▸ Timed, while all of them cost at most TIMED_SHARE of the income
//!             ▸ Counted, while all of them cost at most COUNTED_SHARE of it
//!             ▸ Sampled
//! ```
//! A function that would be measured more than now needs twice the room, so that it does not switch
//! back and forth.

/// How much of a function is measured.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Debug)]
pub(super) enum MeasureMode {
    /// Calls are counted, and timed, in windows.
    Sampled,
    /// Each call is counted. Times come from windows.
    #[default]
    Counted,
    /// Each call is timed.
    Timed,
}

/// The parts of the income for functions that are timed or counted at each call. The rest is for
/// windows, for polls, and for the cost of attaching.
const TIMED_SHARE: f64 = 0.2;
const COUNTED_SHARE: f64 = 0.3;
/// The half-life of calls, in nanoseconds and as a part of all time so far; the smaller one counts.
/// The first millisecond says little about the tenth.
const HALF_LIFE_NS: f64 = 1e9;
const HALF_LIFE_SHARE: f64 = 0.25;
/// A smaller number of calls is set to zero.
const MIN_CALLS: f64 = 1e-3;
/// The number of functions that evict each other's counters, and the code that counts, from the
/// nearest cache if they are called in turns.
const CACHED_FUNCTIONS: f64 = 256.0;

/// How a function is measured now.
#[derive(Clone, Copy, PartialEq, Default, Debug)]
pub(super) struct Now {
    pub(super) mode: MeasureMode,
    /// The cost of counting a call, in units of the budget.
    pub(super) price: f64,
    /// Whether each call may be timed, if the budget pays for it.
    pub(super) may_be_timed: bool,
}

/// The recent costs of functions.
#[derive(Clone, Default, Debug)]
pub(super) struct Loads {
    calls: Vec<f64>,
    /// The functions, those called least first. Those not called are last.
    order: Vec<u32>,
    /// How many other functions are called between two calls of a function.
    between: Vec<f32>,
    /// The income while they were called.
    income: f64,
    /// How much the functions evict each other from the nearest cache: from 0 to 1.
    pub(super) crowd: f64,
}

impl Loads {
    pub(super) fn new(functions: usize) -> Self {
        let mut loads = Self::default();
        loads.extend(functions);
        loads
    }

    /// Makes room for so many functions. Those added last have not been called.
    pub(super) fn extend(&mut self, functions: usize) {
        self.calls.resize(functions, 0.0);
        self.between.resize(functions, 0.0);
        let more = u32::try_from(functions).unwrap_or(u32::MAX);
        self.order.extend(u32::try_from(self.order.len()).unwrap_or(more)..more);
    }

    /// Adds the income and the calls of each function between two moments.
    pub(super) fn add(&mut self, from: f64, to: f64, income: f64, calls: impl Iterator<Item = f64>) {
        let half = HALF_LIFE_NS.min(HALF_LIFE_SHARE * to).max(1.0);
        let kept = ((from - to) / half).exp2();
        self.income = self.income * kept + income;
        for (all, calls) in self.calls.iter_mut().zip(calls) {
            let left = *all * kept + calls;
            *all = if left < MIN_CALLS { 0.0 } else { left };
        }
        // The number of functions that would be as unpredictable if all were called equally often:
        // the exponential of the entropy.
        let called = || self.calls.iter().filter(|it| **it > 0.0);
        let sum: f64 = called().sum();
        let entropy =
            if sum > 0.0 { sum.ln() - called().map(|it| it * it.ln()).sum::<f64>() / sum } else { 0.0 };
        self.crowd = (entropy.exp() / CACHED_FUNCTIONS).min(1.0);
        // Functions that are not called cost nothing, and are last.
        let key = |it: &u32| match self.calls[*it as usize] {
            0.0 => f64::INFINITY,
            calls => calls,
        };
        crate::engine::order::sort_by(&mut self.order, |a, b| key(a).total_cmp(&key(b)));
        let called = self.calls.iter().filter(|it| **it > 0.0).count();
        // Of those called less often, each call comes between two of its own with that probability.
        let mut below = 0.0;
        for (rank, function) in self.order[..called].iter().enumerate() {
            let calls = self.calls[*function as usize];
            #[expect(clippy::cast_possible_truncation, reason = "a rough number")]
            let between = (below / calls + (called - 1 - rank) as f64) as f32;
            self.between[*function as usize] = between;
            below += calls;
        }
    }

    /// Returns how many other functions are called between two calls of a function.
    pub(super) fn between(&self, function: usize) -> f64 {
        self.between[function].into()
    }

    /// Returns whether a function was called recently.
    pub(super) fn is_called(&self, function: usize) -> bool {
        self.calls[function] > 0.0
    }

    /// Chooses the mode of each function. `timed` is the price of a timed call; at most `more`
    /// functions are newly timed.
    pub(super) fn choose(&self, now: &[Now], timed: f64, more: usize) -> Vec<MeasureMode> {
        let mut chosen: Vec<_> = now.iter().map(|it| it.mode).collect();
        if self.income <= 0.0 {
            return chosen;
        }
        let (mut of_timed, mut of_counted, mut left) = (0.0, 0.0, more);
        for function in self.order.iter().map(|it| *it as usize) {
            let (Now { mode, price, may_be_timed }, calls) = (now[function], self.calls[function]);
            let wary = |than: MeasureMode| if mode < than { 2.0 } else { 1.0 };
            let as_timed = calls * timed / self.income;
            // A lower estimate of its calls, so that a random burst does not make it count in
            // windows from then on.
            let as_counted = (calls - 2.0 * calls.sqrt()).max(0.0) * price / self.income;
            let may_be_timed = may_be_timed && (mode == MeasureMode::Timed || left > 0);
            chosen[function] =
                if may_be_timed && of_timed + as_timed * wary(MeasureMode::Timed) <= TIMED_SHARE {
                    of_timed += as_timed;
                    left -= usize::from(mode != MeasureMode::Timed);
                    MeasureMode::Timed
                } else if of_counted + as_counted * wary(MeasureMode::Counted) <= COUNTED_SHARE {
                    of_counted += as_counted;
                    MeasureMode::Counted
                } else {
                    MeasureMode::Sampled
                };
        }
        chosen
    }
}

#[cfg(test)]
mod tests {
    use super::MeasureMode::{Counted, Sampled, Timed};
    use super::*;

    fn loads(calls: &[f64]) -> Loads {
        let mut loads = Loads::new(calls.len());
        loads.add(0.0, 1000.0, 1000.0, calls.iter().copied());
        loads
    }

    fn chosen(loads: &Loads, now: &[MeasureMode], may_be_timed: bool, more: usize) -> Vec<MeasureMode> {
        let now: Vec<_> = now.iter().map(|mode| Now { mode: *mode, price: 1.0, may_be_timed }).collect();
        loads.choose(&now, 50.0, more)
    }

    #[test]
    fn functions_called_seldom_come_first() {
        // 200 for times: four calls. 300 for counts: the lower estimate of 100 is 80, and that of
        // 260 is 227.
        let loads = loads(&[100.0, 2.0, 0.0, 260.0, 2.0, 1.0]);
        let new = chosen(&loads, &[Counted; 6], true, 9);
        assert_eq!(new, [Counted, Counted, Timed, Sampled, Counted, Timed], "twice the room to come in");
        let kept = chosen(&loads, &[Counted, Timed, Timed, Counted, Counted, Timed], true, 9);
        assert_eq!(kept, [Counted, Timed, Timed, Sampled, Counted, Timed]);
        for (may_be_timed, more) in [(true, 0), (false, 9)] {
            let none = chosen(&loads, &[Counted; 6], may_be_timed, more);
            assert_eq!(none, [Counted, Counted, Counted, Sampled, Counted, Counted]);
        }
    }

    #[test]
    fn many_functions_in_turns_evict_each_other_from_the_cache() {
        let crowd = |calls: &[f64]| 256.0 * loads(calls).crowd;
        assert!((crowd(&[16.0; 64]) - 64.0).abs() < 1e-9);
        assert!((crowd(&[16.0; 512]) - 256.0).abs() < 1e-9);
        assert!((crowd(&[1e6, 1.0, 0.0]) - 1.0).abs() < 1e-4);
    }

    #[test]
    fn rare_functions_have_more_others_in_between() {
        let all = loads(&[4.0, 0.0, 2.0, 400.0, 1.0]);
        for (function, between) in [(0, 1.75), (2, 2.5), (3, 7.0 / 400.0), (4, 3.0)] {
            assert!((all.between(function) - between).abs() < 1e-6, "{all:?}");
        }
        // In turns, all others.
        assert!((0..9).all(|it| (loads(&[5.0; 9]).between(it) - 8.0).abs() < 1e-6));
    }

    #[test]
    fn calls_of_long_ago_are_forgotten() {
        let mut loads = loads(&[400.0, 0.0]);
        // Two half-lives.
        loads.add(1000.0, 2000.0, 1000.0, [0.0, 7.0].into_iter());
        assert!((loads.calls[0] - 100.0).abs() < 1e-9 && loads.is_called(1), "{loads:?}");
        assert!((loads.income - 1250.0).abs() < 1e-9, "{loads:?}");
        assert_eq!(chosen(&Loads::new(1), &[Sampled], true, 9), [Sampled]);
    }

    #[test]
    fn a_single_call_is_forgotten_within_an_hour() {
        let mut loads = loads(&[1.0, 1e6]);
        for survey in 1..36_000 {
            let from = f64::from(survey) * 1e8;
            loads.add(from, from + 1e8, 1000.0, [0.0, 1e5].into_iter());
        }
        assert!(!loads.is_called(0) && loads.crowd < 0.01, "{loads:?}");
    }
}
