//! The budget of a profiler.

use std::fmt;
use std::str::FromStr;

use probe_lang::units;

/// The budget of a [`Profiler`](super::Profiler): a part of the CPU time that the program uses, or
/// a number of calls a second.
///
/// ```
/// use probe_runtime::Profiler;
/// use probe_runtime::profile::Budget;
///
/// let _profiler = Profiler::new().budget(Budget::percent(0.5));
/// assert_eq!("0.5%".parse(), Ok(Budget::percent(0.5)));
/// assert!("0%".parse::<Budget>().is_err());
/// ```
///
/// A budget that allows no calls, or more than all CPU time, is refused: by `parse` if it is text,
/// otherwise when its consumer is attached ([`UnusableBudget`]).
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Budget(Limit);

#[derive(Clone, Copy, PartialEq, Debug)]
enum Limit {
    Percent(f64),
    Calls(f64),
    Unlimited,
}

impl Budget {
    /// No limit.
    pub const UNLIMITED: Self = Self(Limit::Unlimited);

    /// Creates a budget of a percentage of the CPU time that all threads of the process use: more
    /// than 0, at most 100.
    pub const fn percent(percent: f64) -> Self {
        Self(Limit::Percent(percent))
    }

    /// Creates a budget of calls per second, timed or only counted: more than 0.
    pub const fn calls_per_second(calls: f64) -> Self {
        Self(Limit::Calls(calls))
    }

    /// Returns whether this part of the CPU time exceeds the budget.
    pub(super) fn is_less_than(self, share: f64) -> bool {
        matches!(self.0, Limit::Percent(percent) if 100.0 * share > percent)
    }

    /// Returns the reason why the budget can't be used; `None` if it can.
    pub(crate) fn problem(self) -> Option<&'static str> {
        match self.0 {
            Limit::Percent(number) | Limit::Calls(number) if number.is_nan() || number <= 0.0 => {
                Some("leaves nothing to sample with")
            }
            Limit::Percent(percent) if percent > 100.0 => Some("is more than all CPU time"),
            Limit::Calls(calls) if calls.is_infinite() => Some("is no number"),
            _ => None,
        }
    }
}

/// The error of a consumer whose budget can't be used: it allows no calls, or more than all CPU
/// time. Attaching returns it in an [`Error::Consumer`](crate::Error::Consumer).
///
/// ```
/// use probe_runtime::profile::{Budget, UnusableBudget};
/// use probe_runtime::{Error, Profiler, probe, select};
///
/// #[probe]
/// fn merge() {}
///
/// let profiler = Profiler::new().budget(Budget::percent(0.0));
/// let Err(Error::Consumer(error)) = select("**::merge")?.attach(profiler) else { panic!("it is refused") };
/// assert_eq!(error.downcast_ref::<UnusableBudget>().unwrap().budget, Budget::percent(0.0));
/// # merge();
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct UnusableBudget {
    /// The method that set it: `budget`.
    pub option: &'static str,
    /// The budget.
    pub budget: Budget,
}

impl fmt::Display for UnusableBudget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { option, budget } = self;
        let problem = budget.problem().unwrap_or("is not allowed");
        write!(
            f,
            "a `{option}` of {budget} {problem}; set `Budget::percent(1.0)`, say, or `Budget::UNLIMITED`"
        )
    }
}

impl std::error::Error for UnusableBudget {}

impl FromStr for Budget {
    type Err = String;

    /// Parses `1%` or `1000/s`.
    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let wrong = |problem: &str| format!("`{text}` {problem}; write `1%` or `1000/s`");
        let percent = units::percent(text).filter(|_| text.ends_with('%'));
        let budget = percent
            .map(Self::percent)
            .or_else(|| units::rate(text).map(Self::calls_per_second))
            .ok_or_else(|| wrong("is not a budget"))?;
        budget.problem().map_or(Ok(budget), |problem| Err(wrong(problem)))
    }
}

impl fmt::Display for Budget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Limit::Percent(percent) => write!(f, "{percent} %"),
            Limit::Calls(calls) => write!(f, "{calls} calls/s"),
            Limit::Unlimited => f.write_str("no limit"),
        }
    }
}

/// The largest savings and the largest debt, as the income of this number of nanoseconds. A program
/// that has slept for long must not spend more at once, and one surprise must not be paid for
/// indefinitely.
const MAX_SAVINGS_NS: f64 = 250e6;
const MAX_DEBT_NS: f64 = 5e9;
/// The income per nanosecond without a limit.
const UNLIMITED_INCOME: f64 = 1e9;

/// A leaky bucket, empty at first. Income fills it, and spending empties it, also below zero if a
/// cost was not known in advance. Amounts are in nanoseconds or in calls, like the budget.
#[derive(Clone, Debug)]
pub(super) struct Bucket {
    limit: Limit,
    pub(super) level: f64,
    /// The total spent so far.
    pub(super) spent: f64,
}

impl Bucket {
    pub(super) fn new(budget: Budget) -> Self {
        Self { limit: budget.0, level: 0.0, spent: 0.0 }
    }

    pub(super) fn is_unlimited(&self) -> bool {
        self.limit == Limit::Unlimited
    }

    /// Returns the income of a time, which took `elapsed` nanoseconds on the clock, and `cpu`
    /// nanoseconds of CPU time.
    pub(super) fn income(&self, elapsed: f64, cpu: f64) -> f64 {
        match self.limit {
            Limit::Percent(percent) => cpu * percent / 100.0,
            Limit::Calls(calls) => elapsed * calls / 1e9,
            Limit::Unlimited => elapsed * UNLIMITED_INCOME,
        }
    }

    pub(super) fn account(&mut self, income: f64, spent: f64) {
        self.spent += spent;
        let a_nanosecond = self.income(1.0, 1.0);
        self.level =
            (self.level + income - spent).clamp(-MAX_DEBT_NS * a_nanosecond, MAX_SAVINGS_NS * a_nanosecond);
    }

    /// Returns the price of work: a thread's time, or a number of calls.
    pub(super) fn price(&self, time: f64, calls: f64) -> f64 {
        if let Limit::Calls(_) = self.limit { calls } else { time }
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::float_cmp, reason = "numbers that are exact")]

    use super::*;

    #[test]
    fn debts_are_paid_first() {
        let mut bucket = Bucket::new(Budget::percent(1.0));
        assert_eq!((bucket.level, bucket.price(7.0, 1.0)), (0.0, 7.0));
        bucket.account(bucket.income(0.0, 1e8), 2e6);
        assert_eq!(bucket.level, -1e6, "1 % of 0.1 s is 1 ms");
        bucket.account(bucket.income(0.0, 1e12), 0.0);
        assert_eq!(bucket.level, 2.5e6, "what is not used is lost");
        bucket.account(0.0, 1e12);
        assert_eq!(bucket.level, -5e7);
    }

    #[test]
    fn calls_are_counted_by_the_clock() {
        let mut bucket = Bucket::new(Budget::calls_per_second(100.0));
        bucket.account(bucket.income(1e8, 0.0), bucket.price(1e9, 4.0));
        assert_eq!((bucket.level, bucket.income(1e9, 0.0)), (6.0, 100.0));
    }

    #[test]
    fn unusable_budgets_are_refused() {
        let nothing = Some("leaves nothing to sample with");
        for number in [0.0, -1.0, f64::NAN] {
            assert_eq!(Budget::percent(number).problem(), nothing, "{number}");
            assert_eq!(Budget::calls_per_second(number).problem(), nothing, "{number}");
        }
        assert_eq!(Budget::calls_per_second(f64::INFINITY).problem(), Some("is no number"));
        assert_eq!(Budget::percent(100.1).problem(), Some("is more than all CPU time"));
        assert_eq!(Budget::UNLIMITED.problem(), None);
        for (text, problem) in [
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
}
