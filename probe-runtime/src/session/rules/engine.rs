//! The engine: all rules of a program, and the readings of the consumers that their figures need.

use std::time::Duration;

use super::figure::Figure;
use super::file::RuleError;
use super::phase::{Change, State, Totals};
use super::reading::Reading;
use super::rule::{Action, Rule, snapshot_recorder};
use super::window::Window;
use probe_lang::ParseError;

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

#[cfg(test)]
mod tests;
