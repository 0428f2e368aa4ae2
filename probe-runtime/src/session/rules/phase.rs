//! The state of one rule, from window to window. Pure.
//!
//! | phase | the window says | next |
//! |---|---|---|
//! | waiting | `when` holds, `until` does not, both for sure; for its time, since a window began | active: fired |
//! | waiting | `when` does not hold, or `until` does | waiting, and its time begins anew |
//! | waiting | `when` or `until` is unknown | the same; the window counts as unknown |
//! | active | `until` holds for its time; without it, `when` does not hold | waiting: ended |
//! | active | anything else | active; its time begins anew |
//!
//! A rule that records is active for at least that time. A rule that counts, and has no `until`,
//! ends with the next window that is known: its count only grows.

use std::fmt;
use std::time::Duration;

use super::condition::{Comparison, Condition, and, not};
use super::figure::Function;
use super::rule::Rule;
use super::window::Window;

/// The number of windows and firings of a rule.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Totals {
    /// Windows in which it was asked about its condition.
    pub windows: u64,
    /// Windows of these in which the condition was not known.
    pub unknown: u64,
    /// Firings.
    pub firings: u32,
}

impl fmt::Display for Totals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { windows, unknown, firings } = self;
        let times = if *firings == 1 { "time" } else { "times" };
        write!(f, "fired {firings} {times}; not known in {unknown} of {windows} windows")
    }
}

/// A rule's state.
#[derive(Debug)]
pub(super) struct State {
    pub(super) rule: Rule,
    /// When it fired, if it is active.
    pub(super) active: Option<Duration>,
    pub(super) totals: Totals,
    /// When the condition began to hold, that would change the phase.
    since: Option<Duration>,
    /// When it fired last.
    fired: Option<Duration>,
    /// The hits of each comparison since the last change of the phase.
    counted: Vec<u64>,
}

/// A change of the phase.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Change {
    /// With the values that made the condition hold.
    Fired(Vec<(Comparison, f64)>),
    /// After this time.
    Ended(Duration),
}

impl State {
    pub(super) fn new(rule: Rule) -> Self {
        let counted = vec![0; rule.comparisons().count()];
        Self { rule, active: None, totals: Totals::default(), since: None, fired: None, counted }
    }

    /// Takes a window, which lies between two times since the beginning. `of` tells the numbers of
    /// a figure's consumer; `None` if they are not known.
    pub(super) fn step<'a>(
        &mut self,
        from: Duration,
        to: Duration,
        of: &dyn Fn(&str) -> Option<&'a Window>,
    ) -> Option<Change> {
        for (counted, it) in self.counted.iter_mut().zip(self.rule.comparisons()) {
            *counted = counted.saturating_add(of(&it.figure.spec).map_or(0, |window| window.count));
        }
        let is_spent = self.totals.firings == self.rule.at_most;
        if self.active.is_none() && is_spent {
            return None;
        }
        let counted = self.rule.comparisons().zip(&self.counted);
        let values = counted.map(|(it, counted)| it.figure.value(of(&it.figure.spec)?, *counted));
        let values: Vec<Option<f64>> = values.collect();
        let (of_when, of_until) = values.split_at(self.rule.when.condition.comparisons().len());
        let when = self.rule.when.condition.holds(of_when);
        let (wanted, time) = match (self.active, &self.rule.until) {
            // Its counts begin with the firing.
            (None, Some(until)) if !counts(&until.condition) => {
                (and(when, not(until.condition.holds(of_until))), self.rule.when.time)
            }
            (None, _) => (when, self.rule.when.time),
            (Some(_), Some(until)) => (until.condition.holds(of_until), until.time),
            (Some(_), None) if counts(&self.rule.when.condition) => (when.map(|_| true), Duration::ZERO),
            (Some(_), None) => (not(when), Duration::ZERO),
        };
        self.totals.windows = self.totals.windows.saturating_add(1);
        self.totals.unknown = self.totals.unknown.saturating_add(u64::from(wanted.is_none()));
        if wanted != Some(true) {
            self.since = None;
            return None;
        }
        let since = *self.since.get_or_insert(from);
        if to.saturating_sub(since) < time {
            return None;
        }
        match self.active {
            None => {
                let rests = self.rule.every.zip(self.fired);
                if rests.is_some_and(|(every, fired)| to.saturating_sub(fired) < every) {
                    return None;
                }
                let shown = reasons(&self.rule.when.condition, of_when);
                self.totals.firings = self.totals.firings.saturating_add(1);
                (self.active, self.fired) = (Some(to), Some(to));
                self.begin_anew();
                Some(Change::Fired(shown))
            }
            Some(fired) if to.saturating_sub(fired) < self.rule.longest() => None,
            Some(fired) => {
                self.active = None;
                self.begin_anew();
                Some(Change::Ended(to.saturating_sub(fired)))
            }
        }
    }

    fn begin_anew(&mut self) {
        self.since = None;
        self.counted.fill(0);
    }
}

fn counts(condition: &Condition) -> bool {
    condition.comparisons().iter().any(|it| it.figure.function == Function::Count)
}

/// Returns the comparisons that hold, and their values.
fn reasons(condition: &Condition, values: &[Option<f64>]) -> Vec<(Comparison, f64)> {
    let known = condition
        .comparisons()
        .into_iter()
        .zip(values)
        .filter_map(|(it, value)| Some((it.clone(), (*value)?)));
    known.filter(|(it, value)| it.holds(*value)).collect()
}
