//! Which functions are timed at each call, counted at each call, or counted in windows. Pure.
//!
//! A function's *load* is what its calls cost, as a part of what may be spent: its calls lately,
//! over the income of the same time. Functions are taken in the order of their loads, the smallest
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
/// In the beginning, as much may be spent as if so many nanoseconds had passed: some calls at once
/// are no reason to count a function in windows ever after.
const AT_FIRST: f64 = 50e6;
/// Calls are forgotten by half when so much income has come in as in this time, in nanoseconds.
const HALF: f64 = 1e9;

/// What a call costs, in units of the budget.
#[derive(Clone, Copy, PartialEq, Default, Debug)]
pub(super) struct Prices {
    pub(super) counted: f64,
    /// Both hits of a call that is timed.
    pub(super) timed: f64,
}

/// What functions have cost lately.
#[derive(Clone, Default, Debug)]
pub(super) struct Loads {
    calls: Vec<f64>,
    income: f64,
    /// What half of this is forgotten after.
    half: f64,
}

impl Loads {
    /// `a_second` is the income of a second of one processor.
    pub(super) fn new(functions: usize, a_second: f64) -> Self {
        let income = a_second * AT_FIRST / 1e9;
        Self { calls: vec![0.0; functions], income, half: a_second * HALF / 1e9 }
    }

    /// So much has come in, in which each function had so many calls.
    pub(super) fn add(&mut self, income: f64, calls: impl Iterator<Item = f64>) {
        let kept = if self.half > 0.0 { (-income / self.half).exp2() } else { 1.0 };
        self.income = self.income * kept + income;
        self.calls.iter_mut().zip(calls).for_each(|(all, calls)| *all = *all * kept + calls);
    }

    /// Whether a function was called lately.
    pub(super) fn is_called(&self, function: usize) -> bool {
        self.calls[function] > 0.0
    }

    /// The mode that each function is to have. At most `promoted` more functions are timed than now.
    pub(super) fn choose(&self, modes: &[Mode], prices: Prices, promoted: usize) -> Vec<Mode> {
        if self.income <= 0.0 {
            return modes.to_vec();
        }
        let (mut called, idle): (Vec<_>, Vec<_>) = (0..modes.len()).partition(|it| self.is_called(*it));
        crate::order::sort_by(&mut called, |a, b| self.calls[*a].total_cmp(&self.calls[*b]));
        let mut left = promoted;
        let mut may_time = |mode: Mode| {
            let is_promoted = mode != Mode::Timed;
            let may = !is_promoted || left > 0;
            left -= usize::from(is_promoted && may);
            may
        };
        let mut chosen = modes.to_vec();
        let (mut timed, mut counted) = (0.0, 0.0);
        for function in called {
            let (mode, calls) = (modes[function], self.calls[function] / self.income);
            let price = |than: Mode, price: f64| calls * price * if mode < than { 2.0 } else { 1.0 };
            let as_timed = timed + price(Mode::Timed, prices.timed);
            let as_counted = counted + price(Mode::Counted, prices.counted);
            chosen[function] = if as_timed <= TIMED && may_time(mode) {
                timed += calls * prices.timed;
                Mode::Timed
            } else if as_counted <= COUNTED {
                counted += calls * prices.counted;
                Mode::Counted
            } else {
                Mode::Sampled
            };
        }
        // What is not called costs nothing.
        for function in idle {
            chosen[function] = if may_time(modes[function]) { Mode::Timed } else { Mode::Counted };
        }
        chosen
    }
}

#[cfg(test)]
mod tests {
    use super::Mode::{Counted, Sampled, Timed};
    use super::*;

    const PRICES: Prices = Prices { counted: 1.0, timed: 50.0 };

    fn loads(calls: &[f64]) -> Loads {
        let mut loads = Loads::new(calls.len(), 0.0);
        loads.half = 1e9;
        loads.add(1000.0, calls.iter().copied());
        loads
    }

    #[test]
    fn what_is_called_seldom_comes_first() {
        // 200 for times: four calls; 300 for counts.
        let loads = loads(&[100.0, 2.0, 0.0, 210.0, 2.0, 1.0]);
        let new = loads.choose(&[Counted; 6], PRICES, 9);
        assert_eq!(new, [Counted, Counted, Timed, Sampled, Counted, Timed], "twice the room to come in");
        let kept = loads.choose(&[Counted, Timed, Timed, Counted, Counted, Timed], PRICES, 9);
        assert_eq!(kept, [Counted, Timed, Timed, Sampled, Counted, Timed]);
        let none = loads.choose(&[Counted; 6], PRICES, 0);
        assert_eq!(none, [Counted, Counted, Counted, Sampled, Counted, Counted]);
    }

    #[test]
    fn what_was_long_ago_is_forgotten() {
        let mut loads = loads(&[400.0, 0.0]);
        loads.add(1e9 - 1000.0, [0.0, 7.0].into_iter());
        assert!((200.0..200.01).contains(&loads.calls[0]), "{loads:?}");
        assert!(loads.is_called(1) && (999_999_000.0..1e9).contains(&loads.income), "{loads:?}");
        assert_eq!(Loads::new(1, 0.0).choose(&[Sampled], PRICES, 9), [Sampled]);
    }
}
