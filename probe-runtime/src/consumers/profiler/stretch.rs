//! Plans windows: when they are, and which functions they sample.
//!
//! ```text
//!            stretch                                     next stretch
//! ├───────┬──────┬───────┬──────┬──────┬───────┬────────┼──── …
//!         warm   count   warm   time   end
//!         Sampled        Sampled, Counted: calls that begin in `time` are timed, to their ends
//! ```
//! Each stretch of time has one window. Its place is random and uniform, except that it must fit,
//! and its length does not depend on anything that it sees. So windows represent all of the time,
//! whatever the program does. A stretch is as long as its window costs, within limits, and randomly
//! up to half longer or shorter.
//!
//! Sites that were just switched take longer at first, because other processors fetch the code
//! anew. So a window begins a while after its functions' sites were switched.

use super::function_state::Moment;

/// The length of a window's parts, in nanoseconds. Counting takes [`COUNTS`] times as long.
const WINDOW: f64 = 60e3;
const COUNTS: f64 = 4.0;
/// The time until the code of hits is warm: a part of the window, and nanoseconds for each
/// function.
const WARM: f64 = 0.3;
const WARM_EACH: f64 = 300.0;
/// The longest stretch, in nanoseconds.
const LONGEST: f64 = 250e6;
/// The part of the income for windows.
const WINDOWS: f64 = 0.3;
/// How much rarer windows become with a large debt. With large savings, there are twice as many.
const RARER: f64 = 3.0;
/// A guess for the cost of switching a function for a window, in nanoseconds.
const SWITCHED: f64 = 1000.0;
/// The largest number of functions in a window. Of more, it samples neighbours, from a random one
/// on: the sites of neighbours in the order of paths mostly share pages, and each run of pages that
/// is opened for a batch takes as long as dozens of sites.
pub(super) const MOST: usize = 256;
/// The smallest number, where windows of more would exceed the budget.
const FEWEST: f64 = 64.0;
/// The weight of the last window in that number.
const LATELY: f64 = 0.25;

/// The state of stretches and windows.
#[derive(Clone, Debug)]
pub(super) struct Windows {
    pub(super) phase: Phase,
    /// The minimum length of a stretch.
    epoch: f64,
    /// The stretch: its beginning and end, and the beginning of its window.
    from: f64,
    pub(super) to: f64,
    opens: f64,
    /// The cost of a window, in units of the budget.
    pub(super) cost: f64,
    /// The total that had been spent when the window began.
    pub(super) began_at: f64,
    /// The time until the window is warm, in units of [`WINDOW`].
    warm: f64,
    /// The number of functions in a window if there are more than [`MOST`].
    most: f64,
    /// The functions in the window, and the number of calls that each of their calls stands for.
    pub(super) inside: Vec<usize>,
    pub(super) weight: f64,
    /// The number of windows that have timed calls, and whether there were ever more functions than
    /// fit a window.
    pub(super) timed: f64,
    pub(super) is_partial: bool,
    random: u64,
}

#[derive(Clone, PartialEq, Debug)]
pub(super) enum Phase {
    Rest,
    /// Since this time, like the following phases.
    Warming(f64),
    /// With the calls of each function by then.
    Counting(Moment, Vec<f64>),
    Timing(f64),
}

impl Windows {
    /// Plans for so many functions; `seed` is any number. `price` returns the cost of a time and a
    /// number of calls.
    pub(super) fn new(seed: u64, functions: usize, epoch: f64, price: impl Fn(f64, f64) -> f64) -> Self {
        let switching = functions.min(MOST) as f64 * SWITCHED;
        Self {
            phase: Phase::Rest,
            epoch,
            from: 0.0,
            to: 0.0,
            opens: 0.0,
            cost: price(2.0 * WINDOW + switching, 100.0),
            began_at: 0.0,
            warm: WARM,
            most: MOST as f64,
            inside: Vec::new(),
            weight: 1.0,
            timed: 0.0,
            is_partial: false,
            random: seed | 1,
        }
    }

    /// Returns the time at which the next phase begins.
    pub(super) fn next(&self) -> f64 {
        match self.phase {
            Phase::Rest => self.opens,
            Phase::Warming(since) => since + self.warm * WINDOW,
            Phase::Counting(since, _) => since.time + COUNTS * WINDOW,
            Phase::Timing(since) => since + self.lasts() * WINDOW,
        }
    }

    /// Notes that so many functions were switched.
    pub(super) fn warm_up(&mut self, functions: usize) {
        self.warm = WARM + functions as f64 * WARM_EACH / WINDOW;
    }

    /// Returns how long calls are counted, warming up included, as a multiple of the counting part.
    pub(super) fn counts(&self) -> f64 {
        (self.warm + COUNTS) / COUNTS
    }

    /// Returns the length of the part that times calls, in units of [`WINDOW`].
    fn lasts(&self) -> f64 {
        self.warm + 2.0
    }

    /// Plans the next stretch. Its income pays for its window, and for a part of the debt. The
    /// window takes place in any case: otherwise windows would not represent all of the time.
    pub(super) fn plan(&mut self, now: f64, income: f64, owed: f64) {
        let income = income.max(f64::MIN_POSITIVE);
        let rarer = if owed > 0.0 { 1.0 + RARER * owed } else { 1.0 / (1.0 - owed) };
        let paid = self.cost / (WINDOWS * income) * rarer;
        // Random, so that it is not in step with the program.
        let length = paid.min(LONGEST).max(self.epoch) * (0.5 + self.chance());
        self.from = self.to.max(now - WINDOW);
        self.to = self.from + length;
        let latest = (length - (COUNTS + self.warm + self.lasts()) * WINDOW).max(0.0);
        self.opens = self.from + latest * self.chance();
    }

    /// Begins the window of a stretch, for some of these functions.
    pub(super) fn begin(&mut self, all: &[usize]) {
        self.inside = self.some_of(all);
        let share = all.len() as f64 / self.inside.len().max(1) as f64;
        self.weight = (share * (self.to - self.from) / WINDOW).max(1.0).round();
    }

    /// Returns in how many ticks, of `scale` nanoseconds, the window is warm, how many ticks it
    /// lasts from then on, and the number of calls that each call stands for.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a time")]
    pub(super) fn opening(&self, scale: f64) -> [u64; 3] {
        [self.warm * WINDOW / scale, WINDOW / scale, self.weight].map(|it| it as u64)
    }

    /// Returns a random number from 0 to 1 (xorshift64*; Vigna, 2016).
    fn chance(&mut self) -> f64 {
        self.random ^= self.random >> 12;
        self.random ^= self.random << 25;
        self.random ^= self.random >> 27;
        (self.random.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Notes the cost of a window of so many functions, and fits the number of the next window's to
    /// it. The rarest windows that there may be then stay within the budget. The number depends on
    /// earlier windows only, so it favours no function.
    pub(super) fn note_cost(&mut self, functions: usize, spent: f64, income: f64) {
        self.cost = spent.max(self.cost + LATELY * (spent - self.cost));
        let paid = WINDOWS * income * LONGEST;
        let fits = functions as f64 * paid / self.cost.max(f64::MIN_POSITIVE);
        self.most = (self.most + LATELY * (fits - self.most)).clamp(FEWEST, MOST as f64);
    }

    /// Chooses some of these at random, each with the same probability.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a chance")]
    fn some_of(&mut self, all: &[usize]) -> Vec<usize> {
        if all.len() <= MOST {
            return all.to_vec();
        }
        let first = (all.len() as f64 * self.chance()) as usize;
        all[first..].iter().chain(all).take(self.most as usize).copied().collect()
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::float_cmp, reason = "numbers that are exact")]

    use super::*;

    #[test]
    fn windows_are_anywhere_in_their_stretches() {
        let mut windows = Windows::new(1, 0, 1e7, |time, _| time);
        let (mut sum, mut least, mut most) = (0.0, f64::MAX, 0.0_f64);
        for round in 1..=1000 {
            // The poll is late, but the next stretch begins where the last one ended.
            let end = windows.to;
            windows.plan(end + f64::from(round) % 50_000.0, 1.0, 0.0);
            let length = windows.to - windows.from;
            assert!(windows.from == end && (0.5e7..1.5e7).contains(&length), "{length}");
            let at = (windows.next() - windows.from) / length;
            (sum, least, most) = (sum + at, least.min(at), most.max(at));
        }
        // A window takes 0.378 ms of the stretch.
        assert!(least < 0.01 && most > 0.95 && most < 0.98, "{least} {most}");
        assert!((sum / 1000.0 - 0.479).abs() < 0.03, "{sum}");
    }

    #[test]
    fn stretches_pay_for_their_windows() {
        let mut windows = Windows::new(0, 0, 1e7, |time, _| time);
        let mut is_about = |owed, expected: f64| {
            windows.plan(windows.to, 0.01, owed);
            let length = windows.to - windows.from;
            assert!((0.5 * expected..=1.5 * expected).contains(&length), "{length}");
        };
        // 120 µs at 0.3 of 1 %.
        is_about(0.0, 40e6);
        is_about(0.5, 100e6);
        is_about(1.0, 160e6);
        is_about(-1.0, 20e6);
    }

    #[test]
    fn a_call_stands_for_its_stretch_and_for_functions_left_out() {
        let mut windows = Windows::new(0, 0, 6e6, |_, _| 0.0);
        windows.to = 6e6;
        windows.begin(&[1, 2]);
        assert_eq!(windows.opening(0.5), [36_000, 120_000, 100]);
        let many: Vec<_> = (0..2 * MOST).collect();
        let mut met = vec![0; many.len()];
        for _ in 0..1000 {
            windows.begin(&many);
            assert_eq!((windows.inside.len(), windows.opening(1.0)[2]), (MOST, 200));
            windows.inside.iter().for_each(|it| met[*it] += 1);
        }
        // Each one in half of the windows, within five standard errors.
        assert!(met.iter().all(|it| (420..580).contains(it)), "{met:?}");
    }

    #[test]
    fn windows_of_many_functions_have_as_many_as_they_pay_for() {
        let many: Vec<_> = (0..2 * MOST).collect();
        let mut windows = Windows::new(0, many.len(), 1e7, |time, _| time);
        let mut inside = |each: f64, income| {
            for _ in 0..200 {
                windows.begin(&many);
                windows.note_cost(windows.inside.len(), each * windows.inside.len() as f64, income);
            }
            windows.begin(&many);
            windows.inside.len()
        };
        // 0.3 of 0.4 % of 250 ms are 300 µs.
        assert_eq!(inside(1e3, 0.004), MOST);
        assert!((130..=160).contains(&inside(2e3, 0.004)));
        assert_eq!(inside(2e4, 0.004), 64);
        assert_eq!(inside(1e3, 0.004), MOST);
        windows.begin(&many[..MOST]);
        assert_eq!(windows.inside.len(), MOST);
    }
}
