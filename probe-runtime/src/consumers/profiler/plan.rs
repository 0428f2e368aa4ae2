//! Which functions are timed at each call, counted at each call, or counted in windows. Pure.
//!
//! A function's *load* is what its calls cost, as a part of what may be spent: its calls lately, over
//! the income of the same time. Functions are taken in the order of their loads, the smallest
//! first, so that as many as can be are measured whole:
//!
//! ```text
//! loads:  0 … ▸ Timed, while all of them cost at most TIMED of the income
//!             ▸ Counted, while all of them cost at most COUNTED of it
//!             ▸ Sampled
//! ```
//! One that is to be measured more than it is now needs twice the room, so that none goes to and
//! fro.

/// How much of a function is measured.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Debug)]
pub(super) enum Mode {
    /// Calls are counted, and timed, in windows.
    Sampled,
    /// Each call is counted. Times come from windows.
    #[default]
    Counted,
    /// Each call is timed.
    Timed,
}

/// The parts of the income for what is measured all the time. The rest is for windows, for looking,
/// and to pay for having begun.
const TIMED: f64 = 0.2;
const COUNTED: f64 = 0.3;
/// Calls are forgotten by half in so many nanoseconds, or a quarter of all so far: what happened in the
/// first millisecond says little of the tenth.
const HALF: f64 = 1e9;
const OF_ALL: f64 = 0.25;
/// What is left of so little of a call is nothing.
const FORGOTTEN: f64 = 1e-3;
/// So many functions that are called in turns drive each other's counters, and the code that counts,
/// from the nearest cache.
const CACHED: f64 = 256.0;

/// How a function is measured now.
#[derive(Clone, Copy, PartialEq, Default, Debug)]
pub(super) struct Now {
    pub(super) mode: Mode,
    /// What it costs to count a call, in units of the budget.
    pub(super) price: f64,
    /// Whether its calls may be timed each, if that is paid for.
    pub(super) may_be_timed: bool,
}

/// What functions have cost lately.
#[derive(Clone, Default, Debug)]
pub(super) struct Loads {
    calls: Vec<f64>,
    /// What has come in while they were called.
    income: f64,
    /// How far calls drive each other from the nearest cache: from 0 to 1.
    pub(super) crowd: f64,
}

impl Loads {
    pub(super) fn new(functions: usize) -> Self {
        Self { calls: vec![0.0; functions], ..Self::default() }
    }

    /// So much has come in from one moment to the other, while each function had so many calls.
    pub(super) fn add(&mut self, from: f64, to: f64, income: f64, calls: impl Iterator<Item = f64>) {
        let half = HALF.min(OF_ALL * to).max(1.0);
        let kept = ((from - to) / half).exp2();
        self.income = self.income * kept + income;
        for (all, calls) in self.calls.iter_mut().zip(calls) {
            let left = *all * kept + calls;
            *all = if left < FORGOTTEN { 0.0 } else { left };
        }
        // As many functions, if they were called alike, would be as uncertain to be next: the exponential
        // of the entropy.
        let called = || self.calls.iter().filter(|it| **it > 0.0);
        let sum: f64 = called().sum();
        let entropy =
            if sum > 0.0 { sum.ln() - called().map(|it| it * it.ln()).sum::<f64>() / sum } else { 0.0 };
        self.crowd = (entropy.exp() / CACHED).min(1.0);
    }

    /// Whether a function was called lately.
    pub(super) fn is_called(&self, function: usize) -> bool {
        self.calls[function] > 0.0
    }

    /// How each function is to be measured. `timed` is the price of a call that is timed; so many more
    /// may be timed than now.
    pub(super) fn choose(&self, now: &[Now], timed: f64, more: usize) -> Vec<Mode> {
        let mut chosen: Vec<_> = now.iter().map(|it| it.mode).collect();
        if self.income <= 0.0 {
            return chosen;
        }
        // What is not called costs nothing, and is last.
        let key = |it: usize| if self.is_called(it) { self.calls[it] } else { f64::INFINITY };
        let mut order: Vec<_> = (0..now.len()).collect();
        crate::order::sort_by(&mut order, |a, b| key(*a).total_cmp(&key(*b)));
        let (mut of_timed, mut of_counted, mut left) = (0.0, 0.0, more);
        for function in order {
            let (Now { mode, price, may_be_timed }, calls) = (now[function], self.calls[function]);
            let wary = |than: Mode| if mode < than { 2.0 } else { 1.0 };
            let as_timed = calls * timed / self.income;
            // As few as it may be called: some calls by chance are no reason to count it in windows ever
            // after.
            let as_counted = (calls - 2.0 * calls.sqrt()).max(0.0) * price / self.income;
            let may_be_timed = may_be_timed && (mode == Mode::Timed || left > 0);
            chosen[function] = if may_be_timed && of_timed + as_timed * wary(Mode::Timed) <= TIMED {
                of_timed += as_timed;
                left -= usize::from(mode != Mode::Timed);
                Mode::Timed
            } else if of_counted + as_counted * wary(Mode::Counted) <= COUNTED {
                of_counted += as_counted;
                Mode::Counted
            } else {
                Mode::Sampled
            };
        }
        chosen
    }
}

#[cfg(test)]
mod tests {
    use super::Mode::{Counted, Sampled, Timed};
    use super::*;

    fn loads(calls: &[f64]) -> Loads {
        let mut loads = Loads::new(calls.len());
        loads.add(0.0, 1000.0, 1000.0, calls.iter().copied());
        loads
    }

    fn chosen(loads: &Loads, now: &[Mode], may_be_timed: bool, more: usize) -> Vec<Mode> {
        let now: Vec<_> = now.iter().map(|mode| Now { mode: *mode, price: 1.0, may_be_timed }).collect();
        loads.choose(&now, 50.0, more)
    }

    #[test]
    fn what_is_called_seldom_comes_first() {
        // 200 for times: four calls; 300 for counts: of 100 there may be 80, of 260 there are 227.
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
    fn many_in_turns_drive_each_other_from_the_cache() {
        let crowd = |calls: &[f64]| 256.0 * loads(calls).crowd;
        assert!((crowd(&[16.0; 64]) - 64.0).abs() < 1e-9);
        assert!((crowd(&[16.0; 512]) - 256.0).abs() < 1e-9);
        assert!((crowd(&[1e6, 1.0, 0.0]) - 1.0).abs() < 1e-4);
    }

    #[test]
    fn what_was_long_ago_is_forgotten() {
        let mut loads = loads(&[400.0, 0.0]);
        // Twice a half.
        loads.add(1000.0, 2000.0, 1000.0, [0.0, 7.0].into_iter());
        assert!((loads.calls[0] - 100.0).abs() < 1e-9 && loads.is_called(1), "{loads:?}");
        assert!((loads.income - 1250.0).abs() < 1e-9, "{loads:?}");
        assert_eq!(chosen(&Loads::new(1), &[Sampled], true, 9), [Sampled]);
    }

    #[test]
    fn what_was_called_once_is_forgotten_within_an_hour() {
        let mut loads = loads(&[1.0, 1e6]);
        for survey in 1..36_000 {
            let from = f64::from(survey) * 1e8;
            loads.add(from, from + 1e8, 1000.0, [0.0, 1e5].into_iter());
        }
        assert!(!loads.is_called(0) && loads.crowd < 0.01, "{loads:?}");
    }
}
