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

use super::costs::Place;

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
/// Calls are forgotten by half when so many nanoseconds of one processor have been used, or a
/// quarter of all so far: what happened in the first millisecond says little of the tenth.
const HALF: f64 = 1e9;
const OF_ALL: f64 = 0.25;
/// So many functions that are called between two calls of one drive its counter, and the code that
/// counts, from the nearest cache.
const CACHED: f64 = 256.0;

/// What a call costs, in units of the budget.
#[derive(Clone, Copy, PartialEq, Default, Debug)]
pub(super) struct Prices {
    /// One that is counted where all is in the nearest cache, and what it costs more where nothing is.
    pub(super) counted: f64,
    pub(super) cold: f64,
    /// One that is counted on the way that all hits go.
    pub(super) shared: f64,
    /// Both hits of a call that is timed.
    pub(super) timed: f64,
}

/// How a function is measured.
#[derive(Clone, Copy, PartialEq, Default, Debug)]
pub(super) struct Chosen {
    pub(super) mode: Mode,
    /// Where its calls are counted.
    pub(super) place: Place,
    /// Whether its calls may be timed each, if that is paid for.
    pub(super) may_be_timed: bool,
}

/// What there is to spend until functions are chosen anew.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Purse {
    /// What comes in until then.
    pub(super) income: f64,
    /// What may be spent beyond, once.
    pub(super) credit: f64,
    /// How many more functions may be timed than now.
    pub(super) promoted: usize,
}

/// What functions have cost lately.
#[derive(Clone, Default, Debug)]
pub(super) struct Loads {
    calls: Vec<f64>,
    /// What has come in while they were called, and in all; and in a second of one processor.
    income: f64,
    all: f64,
    a_second: f64,
}

impl Loads {
    pub(super) fn new(functions: usize, a_second: f64) -> Self {
        Self { calls: vec![0.0; functions], income: 0.0, all: 0.0, a_second }
    }

    /// So much has come in, in which each function had so many calls.
    pub(super) fn add(&mut self, income: f64, calls: impl Iterator<Item = f64>) {
        self.all += income;
        let half = (self.a_second * HALF / 1e9).min(OF_ALL * self.all);
        let kept = if half > 0.0 { (-income / half).exp2() } else { 1.0 };
        self.income = self.income * kept + income;
        self.calls.iter_mut().zip(calls).for_each(|(all, calls)| *all = *all * kept + calls);
    }

    /// Whether a function was called lately.
    pub(super) fn is_called(&self, function: usize) -> bool {
        self.calls[function] > 0.0
    }

    /// How each function is to be measured.
    pub(super) fn choose(&self, now: &[Chosen], prices: Prices, purse: Purse) -> Vec<Chosen> {
        if self.income <= 0.0 || purse.income <= 0.0 {
            return now.to_vec();
        }
        let (mut called, idle): (Vec<_>, Vec<_>) = (0..now.len()).partition(|it| self.is_called(*it));
        crate::order::sort_by(&mut called, |a, b| self.calls[*a].total_cmp(&self.calls[*b]));
        let mut left = purse.promoted;
        let mut may_time = |now: Chosen| {
            let is_promoted = now.mode != Mode::Timed;
            let may = now.may_be_timed && (!is_promoted || left > 0);
            left -= usize::from(is_promoted && may);
            may
        };
        let mut chosen = now.to_vec();
        let credit = purse.credit / purse.income;
        let (mut timed, mut counted, mut slower) = (0.0, 0.0, 0.0);
        #[expect(clippy::cast_precision_loss, reason = "a number of functions")]
        for (at, function) in called.iter().copied().enumerate() {
            let (before, calls) = (now[function], self.calls[function]);
            // Called between two calls of this one: all that are called more often, and of the others as
            // many as their calls say.
            let between = (called.len() - at) as f64 + slower / calls;
            slower += calls;
            let (place, price) = match before.place {
                Place::Own(_) => {
                    let cold = (between / CACHED).min(1.0);
                    (Place::Own(cold), prices.counted + prices.cold * cold)
                }
                Place::Shared => (Place::Shared, prices.shared),
            };
            let wary = |than: Mode| if before.mode < than { 2.0 } else { 1.0 };
            let as_timed = calls * prices.timed / self.income;
            // As few as it may be called: some calls by chance are no reason to count it in windows ever
            // after.
            let as_counted = (calls - 2.0 * calls.sqrt()).max(0.0) * price / self.income;
            let mode = if timed + as_timed * wary(Mode::Timed) <= TIMED && may_time(before) {
                timed += as_timed;
                Mode::Timed
            } else if counted + as_counted * wary(Mode::Counted) <= COUNTED + credit {
                counted += as_counted;
                Mode::Counted
            } else {
                Mode::Sampled
            };
            chosen[function] = Chosen { mode, place, ..before };
        }
        // What is not called costs nothing.
        for function in idle {
            chosen[function].mode = if may_time(now[function]) { Mode::Timed } else { Mode::Counted };
        }
        chosen
    }
}

#[cfg(test)]
mod tests {
    use super::Mode::{Counted, Sampled, Timed};
    use super::*;

    const PRICES: Prices = Prices { counted: 1.0, cold: 0.0, shared: 4.0, timed: 50.0 };
    const PURSE: Purse = Purse { income: 1000.0, credit: 0.0, promoted: 9 };

    const KNOWN: Chosen = Chosen { mode: Counted, place: Place::Own(0.0), may_be_timed: true };

    fn loads(calls: &[f64]) -> Loads {
        let mut loads = Loads::new(calls.len(), 1e9);
        loads.add(1000.0, calls.iter().copied());
        loads
    }

    fn modes(loads: &Loads, now: &[Mode], prices: Prices, purse: Purse) -> Vec<Mode> {
        let now: Vec<_> = now.iter().map(|mode| Chosen { mode: *mode, ..KNOWN }).collect();
        loads.choose(&now, prices, purse).into_iter().map(|it| it.mode).collect()
    }

    #[test]
    fn what_is_called_seldom_comes_first() {
        // 200 for times: four calls; 300 for counts: of 100 there may be 80, of 260 there are 227.
        let loads = loads(&[100.0, 2.0, 0.0, 260.0, 2.0, 1.0]);
        let new = modes(&loads, &[Counted; 6], PRICES, PURSE);
        assert_eq!(new, [Counted, Counted, Timed, Sampled, Counted, Timed], "twice the room to come in");
        let kept = modes(&loads, &[Counted, Timed, Timed, Counted, Counted, Timed], PRICES, PURSE);
        assert_eq!(kept, [Counted, Timed, Timed, Sampled, Counted, Timed]);
        let none = modes(&loads, &[Counted; 6], PRICES, Purse { promoted: 0, ..PURSE });
        assert_eq!(none, [Counted, Counted, Counted, Sampled, Counted, Counted]);
        // A credit is as good as income, once.
        let credit = modes(&loads, &[Counted; 6], PRICES, Purse { credit: 200.0, ..PURSE });
        assert_eq!(credit, [Counted, Counted, Timed, Counted, Counted, Timed]);
    }

    #[test]
    fn some_are_not_timed_each() {
        let now = [Chosen::default(), KNOWN, Chosen::default(), KNOWN];
        let chosen = loads(&[1.0, 1.0, 0.0, 0.0]).choose(&now, PRICES, PURSE);
        assert_eq!(chosen.iter().map(|it| it.mode).collect::<Vec<_>>(), [Counted, Timed, Counted, Timed]);
    }

    #[test]
    fn what_is_called_among_many_costs_more() {
        let cold = Prices { cold: 8.0, ..PRICES };
        let few = loads(&[10.0, 30.0]).choose(&[Chosen::default(); 2], cold, PURSE);
        let places = [2.0 / CACHED, (1.0 + 10.0 / 30.0) / CACHED].map(Place::Own);
        assert_eq!([few[0].place, few[1].place], places);
        let many =
            loads(&[16.0; 512]).choose(&[Chosen::default(); 512], cold, Purse { promoted: 0, ..PURSE });
        assert!(many.iter().all(|it| it.place == Place::Own(1.0)), "{many:?}");
        assert_eq!(many.iter().filter(|it| it.mode == Counted).count(), 300 / (9 * 8));
        let shared = [Chosen { place: Place::Shared, ..Chosen::default() }; 9];
        let shared = loads(&[16.0; 9]).choose(&shared, PRICES, Purse { promoted: 0, ..PURSE });
        assert_eq!(shared.iter().filter(|it| it.mode == Counted).count(), 300 / (4 * 8), "{shared:?}");
    }

    #[test]
    fn what_was_long_ago_is_forgotten() {
        let mut loads = loads(&[400.0, 0.0]);
        // Twice a half.
        loads.add(1000.0, [0.0, 7.0].into_iter());
        assert!((loads.calls[0] - 100.0).abs() < 1e-9 && loads.is_called(1), "{loads:?}");
        assert!((loads.income - 1250.0).abs() < 1e-9, "{loads:?}");
        assert_eq!(modes(&Loads::new(1, 0.0), &[Sampled], PRICES, PURSE), [Sampled]);
    }
}
