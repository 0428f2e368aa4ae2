//! The budget of a profiler.

use std::fmt;
use std::ops::{Add, Sub};
use std::str::FromStr;

/// The budget of a [`Profiler`](super::Profiler): a part of the CPU time that the program uses, or
/// a number of calls a second.
///
/// ```
/// use probe_runtime::{Budget, Profiler};
///
/// let _profiler = Profiler::new().budget(Budget::percent(0.5));
/// assert_eq!("0.5%".parse(), Ok(Budget::percent(0.5)));
/// assert!("0%".parse::<Budget>().is_err());
/// ```
///
/// A budget that allows no calls, or more than all CPU time, is refused: as text by `parse`, else
/// when its consumer is attached ([`Error::Budget`](crate::Error::Budget)).
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Budget(Limit);

#[derive(Clone, Copy, PartialEq, Debug)]
enum Limit {
    Percent(f64),
    Calls(f64),
    Unlimited,
}

impl Budget {
    /// No limit but the sample size.
    pub const UNLIMITED: Self = Self(Limit::Unlimited);

    /// A percentage of the CPU time that all threads of the process use: more than 0, at most 100.
    pub const fn percent(percent: f64) -> Self {
        Self(Limit::Percent(percent))
    }

    /// A number of calls a second, timed or only counted: more than 0.
    pub const fn calls_per_second(calls: f64) -> Self {
        Self(Limit::Calls(calls))
    }

    /// Why nothing can keep to it; `None` if something can.
    pub(crate) fn problem(self) -> Option<&'static str> {
        match self.0 {
            Limit::Percent(number) | Limit::Calls(number) if number.is_nan() || number <= 0.0 => {
                Some("leaves nothing to sample with")
            }
            Limit::Percent(percent) if percent > 100.0 => Some("is more than all CPU time"),
            _ => None,
        }
    }

    /// A full bucket for this budget.
    pub(super) fn bucket(self, epoch: f64, ticks_per_second: f64, sample_size: f64) -> Bucket {
        let (rate, least) = match self.0 {
            Limit::Percent(percent) => (percent / 100.0, 0.0),
            Limit::Calls(calls) => (calls / ticks_per_second, sample_size),
            Limit::Unlimited => (f64::INFINITY, 0.0),
        };
        let capacity = (rate * epoch * BURST).max(least);
        Bucket { limit: self.0, rate, capacity, level: capacity }
    }
}

impl FromStr for Budget {
    type Err = String;

    /// `1%` or `1000/s`.
    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let number = |text: &str| text.trim().parse().ok().filter(|it: &f64| it.is_finite() && *it >= 0.0);
        let wrong = |problem: &str| format!("`{text}` {problem}; write `1%` or `1000/s`");
        let budget = match (text.strip_suffix('%'), text.strip_suffix("/s")) {
            (Some(percent), _) => number(percent).map(Self::percent),
            (_, Some(calls)) => number(calls).map(Self::calls_per_second),
            _ => None,
        };
        let budget = budget.ok_or_else(|| wrong("is not a budget"))?;
        budget.problem().map_or(Ok(budget), |problem| Err(wrong(problem)))
    }
}

/// How many epochs' worth may be spent at once.
const BURST: f64 = 10.0;
/// The greatest debt, in bursts. A program that has waited for long need not pay for all of that.
const DEBT: f64 = 20.0;
/// The part of it for calls that are always counted, and for the windows of an epoch.
const ALWAYS: f64 = 0.25;
const WINDOWS: f64 = 0.4;

impl fmt::Display for Budget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Limit::Percent(percent) => write!(f, "{percent} %"),
            Limit::Calls(calls) => write!(f, "{calls} calls/s"),
            Limit::Unlimited => f.write_str("no limit"),
        }
    }
}

/// Amounts that were spent, or that have passed, since the last look. Times in ticks.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Spent {
    pub(super) cost: f64,
    pub(super) calls: f64,
}

impl Add for Spent {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self { cost: self.cost + other.cost, calls: self.calls + other.calls }
    }
}

impl Sub for Spent {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        Self { cost: self.cost - other.cost, calls: self.calls - other.calls }
    }
}

/// A leaky bucket. It fills as time passes, up to a burst, and spending empties it, also below zero
/// if the amount could not be known before. While it is at zero or below, nothing avoidable is
/// spent. So the debts of a burst are paid before the next one.
#[derive(Clone, Debug)]
pub(super) struct Bucket {
    limit: Limit,
    rate: f64,
    capacity: f64,
    level: f64,
}

impl Bucket {
    /// Adds time that has passed, on the clock and on processors.
    pub(super) fn fill(&mut self, elapsed: f64, cpu: f64) {
        let more = match self.limit {
            Limit::Percent(_) => cpu * self.rate,
            Limit::Calls(_) => elapsed * self.rate,
            Limit::Unlimited => return,
        };
        self.level = (self.level + more).min(self.capacity);
    }

    pub(super) fn spend(&mut self, spent: Spent) {
        self.level = (self.level - self.measure(spent)).max(-DEBT * self.capacity);
    }

    pub(super) fn has_room(&self) -> bool {
        self.level > 0.0
    }

    /// The time until there is room again, if nothing is spent.
    pub(super) fn until_room(&self, busy: f64) -> f64 {
        let rate = match self.limit {
            Limit::Percent(_) => self.rate * busy,
            Limit::Calls(_) | Limit::Unlimited => self.rate,
        };
        if self.has_room() { 0.0 } else { -self.level / rate.max(f64::MIN_POSITIVE) }
    }

    /// Whether this rate, in ticks for each tick of the program, may be spent all the time. `busy`
    /// is the number of processors in use.
    pub(super) fn sustains(&self, each: Spent, busy: f64) -> bool {
        match self.limit {
            Limit::Percent(_) => each.cost <= ALWAYS * self.rate,
            Limit::Calls(_) => each.calls * busy <= ALWAYS * self.rate,
            Limit::Unlimited => true,
        }
    }

    /// For how long in an epoch this rate may be spent besides, in ticks of the clock. The rate is
    /// in ticks for each tick of the program.
    pub(super) fn affords(&self, each: Spent, epoch: f64, busy: f64) -> f64 {
        let income = match self.limit {
            Limit::Percent(_) => self.rate * busy * epoch,
            Limit::Calls(_) => self.rate * epoch,
            Limit::Unlimited => return f64::INFINITY,
        };
        (WINDOWS * income).min(self.level).max(0.0) / (self.measure(each) * busy).max(f64::MIN_POSITIVE)
    }

    /// The time in which so many ticks are paid for, if nothing else is spent.
    pub(super) fn pays_in(&self, cost: f64, busy: f64) -> f64 {
        match self.limit {
            Limit::Percent(_) if self.rate > 0.0 => cost / (self.rate * busy),
            _ => 0.0,
        }
    }

    /// The rest after that is spent, too; above zero if there is room.
    pub(super) fn left_after(&self, spent: Spent) -> f64 {
        self.level - self.measure(spent)
    }

    fn measure(&self, spent: Spent) -> f64 {
        match self.limit {
            Limit::Percent(_) => spent.cost,
            Limit::Calls(_) => spent.calls,
            Limit::Unlimited => 0.0,
        }
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::float_cmp, reason = "numbers that are exact")]

    use super::*;

    const SECOND: f64 = 1e9;
    const EPOCH: f64 = 1e7;

    fn cost(cost: f64) -> Spent {
        Spent { cost, calls: 1.0 }
    }

    #[test]
    fn debts_are_paid_first() {
        let mut bucket = Budget::percent(1.0).bucket(EPOCH, SECOND, 10.0);
        assert!(bucket.has_room());
        assert_eq!(bucket.left_after(cost(0.0)), 1e6, "ten epochs' worth");
        bucket.spend(cost(3e6));
        assert!(!bucket.has_room());
        bucket.fill(0.0, 1e8);
        assert!(!bucket.has_room(), "1 % of 0.1 s is 1 ms");
        bucket.fill(0.0, 1.1e8);
        assert_eq!(bucket.left_after(cost(1e5)), 0.0);
        bucket.fill(0.0, 1e12);
        assert_eq!(bucket.left_after(cost(0.0)), 1e6, "what is not used is lost");
    }

    #[test]
    fn calls_are_counted_by_the_clock() {
        let mut bucket = Budget::calls_per_second(100.0).bucket(EPOCH, SECOND, 10.0);
        (0..10).for_each(|_| bucket.spend(cost(1e9)));
        assert!(!bucket.has_room(), "a sample's worth");
        bucket.fill(SECOND / 100.0, 0.0);
        assert_eq!(bucket.left_after(Spent::default()), 1.0);
    }

    #[test]
    fn what_may_be_spent_all_the_time() {
        let each = |cost, calls| Spent { cost, calls };
        let bucket = Budget::percent(1.0).bucket(EPOCH, SECOND, 10.0);
        assert!(bucket.sustains(each(0.0025, 1e9), 1.0) && !bucket.sustains(each(0.0026, 0.0), 1.0));
        // 1 % of two processors in 10 ms are 200 µs; of them 80, at two processors' calls.
        assert_eq!(bucket.affords(each(0.1, 1.0), EPOCH, 2.0), 4e5);
        assert_eq!(bucket.pays_in(1e6, 2.0), 5e7, "1 ms by 1 % of two processors");
        let bucket = Budget::calls_per_second(1000.0).bucket(EPOCH, SECOND, 10.0);
        let calls = |calls: f64| each(0.0, calls / SECOND);
        assert!(bucket.sustains(calls(125.0), 2.0) && !bucket.sustains(calls(126.0), 2.0));
        assert_eq!(bucket.affords(calls(4e5), EPOCH, 1.0), 1e4, "4 of 10 an epoch");
        let bucket = Budget::UNLIMITED.bucket(EPOCH, SECOND, 10.0);
        assert!(bucket.sustains(each(1.0, 1.0), 1.0));
        assert_eq!(bucket.affords(each(1.0, 1.0), EPOCH, 1.0), f64::INFINITY);
    }

    #[test]
    fn what_cannot_be_kept_to_is_refused() {
        for number in [0.0, -0.0, -1.0, f64::NAN, f64::NEG_INFINITY] {
            for budget in [Budget::percent(number), Budget::calls_per_second(number)] {
                assert_eq!(budget.problem(), Some("leaves nothing to sample with"), "{budget}");
            }
        }
        for percent in [100.1, f64::INFINITY] {
            assert_eq!(Budget::percent(percent).problem(), Some("is more than all CPU time"));
        }
        for budget in [Budget::percent(100.0), Budget::calls_per_second(1e9), Budget::UNLIMITED] {
            assert_eq!(budget.problem(), None, "{budget}");
        }
    }

    #[test]
    fn as_text_they_say_what_to_write() {
        for (text, problem) in [
            ("0%", "leaves nothing to sample with"),
            ("-0 %", "leaves nothing to sample with"),
            ("0/s", "leaves nothing to sample with"),
            ("101%", "is more than all CPU time"),
            ("-1%", "is not a budget"),
            ("NaN%", "is not a budget"),
            ("inf/s", "is not a budget"),
            ("1", "is not a budget"),
        ] {
            let said = format!("`{text}` {problem}; write `1%` or `1000/s`");
            assert_eq!(text.parse::<Budget>(), Err(said));
        }
        assert_eq!("100%".parse(), Ok(Budget::percent(100.0)));
        assert_eq!("0.5/s".parse(), Ok(Budget::calls_per_second(0.5)));
    }

    #[test]
    fn without_a_limit_there_always_is_room() {
        let mut bucket = Budget::UNLIMITED.bucket(EPOCH, SECOND, 10.0);
        bucket.spend(cost(1e30));
        bucket.fill(1e9, 1e9);
        assert!(bucket.has_room());
    }
}
