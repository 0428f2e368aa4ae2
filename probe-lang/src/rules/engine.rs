//! The engine: all rules of a program, their states, and the readings of the consumers that their
//! figures need. The state of a rule, from window to window:
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
use super::figure::{Figure, Function};
use super::rule::{Action, Rule, RuleError, snapshot_recorder};
use super::window::{Reading, Window};
use crate::error::ParseError;

/// Rules, and their state. Rules and consumers have numbers, from 0.
#[derive(Debug)]
pub struct Engine {
    rules: Vec<State>,
    sources: Vec<Source>,
}

/// The consumer of some figures.
#[derive(Debug)]
struct Source {
    spec: String,
    is_renewed: bool,
    /// The reading at the beginning of the window.
    before: Option<Reading>,
    /// The window, if it is known.
    window: Option<Window>,
}

/// A rule that fired or ended.
#[derive(Clone, PartialEq, Debug)]
pub enum Step {
    /// The condition has held for its time.
    Fired {
        /// The rule's number.
        rule: usize,
        /// The number of this firing, from 1.
        firing: u32,
        /// The figures that made it hold, and their values.
        values: Vec<(Figure, f64)>,
    },
    /// The firing is over.
    Ended {
        /// The rule's number.
        rule: usize,
        /// The number of the firing.
        firing: u32,
        /// The time since it fired.
        lasted: Duration,
    },
}

impl Engine {
    /// Begins, with all rules waiting.
    ///
    /// # Errors
    /// If a rule disarms a text that no rule arms.
    pub fn new(rules: Vec<Rule>) -> Result<Self, RuleError> {
        let all = || rules.iter().flat_map(Rule::actions);
        let is_armed = |spec: &String| all().any(|it| matches!(it, Action::Arm(armed) if armed == spec));
        for rule in &rules {
            for (action, at) in rule.actions.iter().zip(&rule.places) {
                if let Action::Disarm(spec) = action
                    && !is_armed(spec)
                {
                    let problem =
                        format!("no rule arms `{spec}`, so none can disarm it; both texts must be equal");
                    return Err(RuleError::new(&rule.place, &rule.text, ParseError { at: *at, problem }));
                }
            }
        }
        let mut sources: Vec<Source> = Vec::new();
        for figure in rules.iter().flat_map(Rule::comparisons).map(|it| &it.figure) {
            if !sources.iter().any(|it| it.spec == figure.spec) {
                let (spec, is_renewed) = (figure.spec.clone(), figure.is_renewed());
                sources.push(Source { spec, is_renewed, before: None, window: None });
            }
        }
        Ok(Self { rules: rules.into_iter().map(State::new).collect(), sources })
    }

    /// Returns the consumers that the figures need, as `PROBES` has them.
    pub fn sources(&self) -> impl Iterator<Item = &str> {
        self.sources.iter().map(|it| it.spec.as_str())
    }

    /// Returns the recorders that the rules have for their snapshots, each once: see
    /// [`snapshot_recorder`].
    pub fn recorders(&self) -> Vec<String> {
        let mut recorders = Vec::new();
        for action in self.rules().flat_map(Rule::actions) {
            if let Action::Snapshot { selector: Some(selector), .. } = action {
                let recorder = snapshot_recorder(selector);
                if !recorders.contains(&recorder) {
                    recorders.push(recorder);
                }
            }
        }
        recorders
    }

    /// Returns whether each window needs a new attachment of a consumer. Its last one is read, and
    /// then detached, once the new one is there: so no hit is lost between both.
    pub fn is_renewed(&self, source: usize) -> bool {
        self.sources.get(source).is_some_and(|it| it.is_renewed)
    }

    /// Takes the first reading of an attachment. A later window begins with it.
    pub fn begin(&mut self, source: usize, reading: Reading) {
        if let Some(it) = self.sources.get_mut(source) {
            (it.before, it.window) = (Some(reading), None);
        }
    }

    /// Takes the reading at the end of a window. Of a consumer without one, the window is unknown;
    /// the next one begins with the last reading.
    pub fn read(&mut self, source: usize, reading: Reading) {
        let Some(it) = self.sources.get_mut(source) else { return };
        it.window = match &it.before {
            _ if it.is_renewed => Some(Window::of(&reading)),
            Some(before) => Window::between(before, &reading),
            None => None,
        };
        it.before = Some(reading);
    }

    /// Forgets the readings of a consumer that is attached no longer.
    pub fn forget(&mut self, source: usize) {
        if let Some(it) = self.sources.get_mut(source) {
            (it.before, it.window) = (None, None);
        }
    }

    /// Ends a window, which lies between two times since the beginning. Returns the rules that
    /// fired or ended, in their order.
    pub fn step(&mut self, from: Duration, to: Duration) -> Vec<Step> {
        let Self { rules, sources } = self;
        let of = |spec: &str| sources.iter().find(|it| it.spec == spec)?.window.as_ref();
        let mut steps = Vec::new();
        for (rule, state) in rules.iter_mut().enumerate() {
            match state.step(from, to, &of) {
                Some(Change::Fired(values)) => {
                    let values = values.into_iter().map(|(it, value)| (it.figure, value)).collect();
                    steps.push(Step::Fired { rule, firing: state.totals.firings, values });
                }
                Some(Change::Ended(lasted)) => {
                    steps.push(Step::Ended { rule, firing: state.totals.firings, lasted });
                }
                None => (),
            }
        }
        sources.iter_mut().for_each(|it| it.window = None);
        steps
    }

    /// Returns the rules.
    pub fn rules(&self) -> impl Iterator<Item = &Rule> {
        self.rules.iter().map(|it| &it.rule)
    }

    /// Returns the number of windows and firings of each rule.
    pub fn totals(&self) -> impl Iterator<Item = Totals> {
        self.rules.iter().map(|it| it.totals)
    }

    /// Returns whether a rule has fired, and has not ended.
    pub fn is_active(&self, rule: usize) -> bool {
        self.rules.get(rule).is_some_and(|it| it.active.is_some())
    }
}

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
struct State {
    rule: Rule,
    /// When it fired, if it is active.
    active: Option<Duration>,
    totals: Totals,
    /// When the condition began to hold, that would change the phase.
    since: Option<Duration>,
    /// When it fired last.
    fired: Option<Duration>,
    /// The hits of each comparison since the last change of the phase.
    counted: Vec<u64>,
}

/// A change of the phase.
#[derive(Clone, PartialEq, Debug)]
enum Change {
    /// With the values that made the condition hold.
    Fired(Vec<(Comparison, f64)>),
    /// After this time.
    Ended(Duration),
}

impl State {
    fn new(rule: Rule) -> Self {
        let counted = vec![0; rule.comparisons().count()];
        Self { rule, active: None, totals: Totals::default(), since: None, fired: None, counted }
    }

    /// Takes a window, which lies between two times since the beginning. `of` tells the numbers of
    /// a figure's consumer; `None` if they are not known.
    fn step<'a>(
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

#[cfg(test)]
mod tests;
