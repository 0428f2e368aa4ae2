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
mod tests {
    use super::super::rule::{rule, rules};
    use super::super::window::{Bucket, Row};
    use super::*;

    /// An engine with one rule, and the time.
    struct Played {
        engine: Engine,
        seconds: u64,
    }

    fn played(text: &str) -> Played {
        let mut engine = Engine::new(vec![rule(text).unwrap()]).unwrap();
        (0..engine.sources.len()).for_each(|source| engine.begin(source, reading(0, 0, 0.0)));
        Played { engine, seconds: 0 }
    }

    fn reading(seconds: u64, count: u64, sum: f64) -> Reading {
        let row = Row { name: "f".to_owned(), count, sum, ..Row::default() };
        Reading { time: Duration::from_secs(seconds), rows: vec![row] }
    }

    impl Played {
        /// Ends a window of a second, with these totals of each consumer; `None` if it was not
        /// read.
        fn window(&mut self, totals: &[Option<(u64, f64)>]) -> String {
            self.seconds += 1;
            let (from, to) = (Duration::from_secs(self.seconds - 1), Duration::from_secs(self.seconds));
            for (source, total) in totals.iter().enumerate() {
                if let Some((count, sum)) = *total {
                    self.engine.read(source, reading(self.seconds, count, sum));
                }
            }
            let steps = self.engine.step(from, to).into_iter().map(|step| match step {
                Step::Fired { firing, values, .. } => {
                    let values: Vec<_> = values.iter().map(|(it, value)| format!("{it}={value}")).collect();
                    format!("fired {firing} {}", values.join(" "))
                }
                Step::Ended { firing, lasted, .. } => format!("ended {firing} {}", lasted.as_secs()),
            });
            steps.collect::<Vec<_>>().join(", ")
        }

        fn count(&mut self, count: u64) -> String {
            self.window(&[Some((count, 0.0))])
        }

        fn unknown(&self) -> (u64, u64) {
            let totals = self.engine.totals().next().unwrap();
            (totals.unknown, totals.windows)
        }
    }

    #[test]
    fn a_rate_is_that_of_the_window() {
        let mut it = played("when rate(f) >= 10 then snapshot");
        // A thousand hits before the beginning do not count.
        it.engine.begin(0, reading(0, 1000, 0.0));
        assert_eq!(it.count(1009), "");
        assert_eq!(it.count(1019), "fired 1 rate(f)=10");
        assert_eq!(it.count(1029), "");
        assert_eq!(it.count(1030), "ended 1 2");
        // After a window without a reading, the next one is longer.
        assert_eq!(it.window(&[None]), "");
        assert_eq!(it.count(1048), "");
        assert_eq!(it.unknown(), (1, 6));
    }

    #[test]
    fn a_condition_must_hold_for_its_time() {
        let mut it = played("when rate(f) > 5 for 2s until rate(f) < 2 for 3s then snapshot");
        assert_eq!([10, 20].map(|count| it.count(count)), ["", "fired 1 rate(f)=10"]);
        assert_eq!([21, 22, 30, 31, 32, 33].map(|count| it.count(count)), ["", "", "", "", "", "ended 1 6"]);
        // One window below begins the time anew, and so does an unknown one.
        assert_eq!([43, 44, 54].map(|count| it.count(count)), ["", "", ""]);
        assert_eq!(it.window(&[None]), "");
        assert_eq!([74, 84].map(|count| it.count(count)), ["", "fired 2 rate(f)=10"]);
    }

    #[test]
    fn firings_are_limited_and_apart() {
        let mut it = played("when rate(f) > 5 then snapshot at most 2 times every 4s");
        assert_eq!(
            [10, 10, 20, 20, 30].map(|count| it.count(count)),
            ["fired 1 rate(f)=10", "ended 1 1", "", "", "fired 2 rate(f)=10"]
        );
        assert_eq!([30, 40, 50].map(|count| it.count(count)), ["ended 2 1", "", ""]);
        assert_eq!(it.unknown(), (0, 6));
        assert_eq!(it.engine.rules().next().unwrap().at_most(), 2);
    }

    #[test]
    fn a_window_that_is_unknown_neither_begins_nor_ends() {
        let mut it = played("when sum(n of f) > 5 then snapshot");
        // Without hits there is no sum: it is not zero.
        let sums = [Some((0, 0.0)), Some((1, 6.0)), Some((1, 6.0)), None, Some((2, 7.0))];
        let steps = sums.map(|total| it.window(&[total]));
        assert_eq!(steps, ["", "fired 1 sum(n of f)=6", "", "", "ended 1 3"]);
        assert_eq!(it.unknown(), (3, 5));
        let mut it = played("when sum(n of f) < 5 then snapshot");
        assert_eq!(it.window(&[Some((0, 0.0))]), "");
    }

    #[test]
    fn totals_that_shrink_are_unknown() {
        let mut it = played("when rate(f) < 5 then snapshot");
        assert_eq!([10, 3, 4].map(|count| it.count(count)), ["", "", "fired 1 rate(f)=1"]);
        assert_eq!(it.unknown(), (1, 3));
    }

    #[test]
    fn or_needs_one_side() {
        let mut it = played("when rate(f) > 5 || sum(n of f) > 5 then snapshot");
        assert_eq!(it.window(&[Some((10, 0.0)), None]), "fired 1 rate(f)=10");
        // One side does not hold, the other is unknown: it does not end.
        assert_eq!(it.window(&[Some((10, 0.0)), None]), "");
        assert_eq!(it.window(&[Some((11, 0.0)), Some((11, 1.0))]), "ended 1 2");
        let mut it = played("when rate(f) > 5 && sum(n of f) > 5 then snapshot");
        assert_eq!(it.window(&[Some((1, 0.0)), None]), "");
        assert_eq!(it.unknown(), (0, 1), "one side that does not hold decides");
        assert_eq!(it.window(&[Some((10, 0.0)), None]), "");
        assert_eq!(it.unknown(), (1, 2));
    }

    #[test]
    fn not_unknown_is_unknown() {
        let mut it = played("when !(sum(n of f) > 5) for 2s then snapshot");
        let sums = [Some((1, 1.0)), Some((1, 1.0)), Some((2, 2.0)), Some((3, 3.0)), None, Some((4, 20.0))];
        let steps = sums.map(|total| it.window(&[total]));
        // The window without hits begins the time anew. Neither `not` nor its end holds for sure
        // then.
        assert_eq!(steps, ["", "", "", "fired 1 sum(n of f)=1", "", "ended 1 2"]);
        assert_eq!(it.unknown(), (2, 6));
        let mut it = played("when !(rate(f) <= 5 || sum(n of f) != 7) until !(rate(f) >= 2) then snapshot");
        assert_eq!(it.window(&[Some((10, 0.0)), Some((1, 6.0))]), "");
        assert_eq!(it.window(&[Some((20, 0.0)), None]), "");
        assert_eq!(it.unknown(), (1, 2));
        assert_eq!(it.window(&[Some((30, 0.0)), Some((3, 14.0))]), "");
        assert_eq!(it.window(&[Some((40, 0.0)), Some((4, 21.0))]), "fired 1 rate(f)=10 sum(n of f)=7");
        assert_eq!([45, 46].map(|count| it.window(&[Some((count, 0.0)), None])), ["", "ended 1 2"]);
    }

    #[test]
    fn percentiles_need_enough_calls() {
        let timed = |calls| {
            let bucket = Bucket { number: 7, time: 9_000_000, calls };
            let row = Row { name: "f".to_owned(), count: calls, buckets: vec![bucket], ..Row::default() };
            Reading { time: Duration::from_secs(calls), rows: vec![row] }
        };
        for (name, least) in [("p50", 2), ("p90", 10), ("p99", 100), ("p999", 1000)] {
            let mut it = played(&format!("when {name}(f) > 5ms then snapshot"));
            let mut window = |calls| {
                it.engine.read(0, timed(calls));
                it.engine.step(Duration::ZERO, Duration::from_secs(1)).len()
            };
            assert_eq!(window(least - 1), 0, "{name}");
            assert_eq!(window(2 * least - 1), 1, "{name}");
            // It is active. Too few calls do not end it.
            assert_eq!(window(2 * least), 0, "{name}");
        }
    }

    #[test]
    fn a_count_is_since_the_beginning_or_the_last_end() {
        let mut it = played("when count(f) >= 5 then snapshot");
        assert_eq!([4, 5].map(|count| it.count(count)), ["", "fired 1 count(f)=5"]);
        // It ends with the next window. The next count leaves out the hits of that window.
        assert_eq!([8, 12, 13].map(|count| it.count(count)), ["ended 1 1", "", "fired 2 count(f)=5"]);
        // A count that has become less is not known, so it does not end the rule.
        assert_eq!([3, 4].map(|count| it.count(count)), ["", "ended 2 2"]);
        let mut it = played("when rate(f) > 5 until count(f) >= 3 then snapshot");
        assert_eq!([1, 5, 20].map(|count| it.count(count)), ["", "", "fired 1 rate(f)=15"]);
        assert_eq!([22, 23].map(|count| it.count(count)), ["", "ended 1 2"]);
        let mut it = played("when count(f) >= 5 then snapshot");
        assert_eq!([4, 2, 3].map(|count| it.count(count)), ["", "", "fired 1 count(f)=5"], "4, unknown, 1");
    }

    #[test]
    fn a_rule_does_not_begin_while_its_end_holds() {
        let mut it = played("when rate(f) > 5 until sum(n of f) > 100 then snapshot");
        assert_eq!(it.window(&[Some((10, 0.0)), Some((1, 200.0))]), "");
        assert_eq!(it.window(&[Some((20, 0.0)), Some((2, 201.0))]), "fired 1 rate(f)=10");
    }

    #[test]
    fn a_recording_keeps_its_rule_active() {
        let mut it = played("when rate(f) > 5 then record g for 3s, record h for 2s");
        assert_eq!(
            [10, 10, 10, 10].map(|count| it.count(count)),
            ["fired 1 rate(f)=10", "", "", "ended 1 3"]
        );
    }

    #[test]
    fn extremes_are_those_of_renewed_consumers() {
        let mut it = played("when max(n of f) >= 5 then snapshot");
        assert!(it.engine.is_renewed(0));
        let mut window = |count, max| {
            let row = Row { name: "f".to_owned(), count, max: Some(max), ..Row::default() };
            it.engine.read(0, Reading { time: Duration::from_secs(1), rows: vec![row] });
            it.engine.step(Duration::ZERO, Duration::from_secs(1)).len()
        };
        assert_eq!([window(1, 4.0), window(1, 5.0), window(0, 0.0), window(1, 4.0)], [0, 1, 0, 1]);
    }

    #[test]
    fn a_consumer_that_comes_anew_has_a_new_beginning() {
        let mut it = played("when rate(f) > 5 then snapshot");
        it.engine.forget(0);
        assert_eq!(it.count(1000), "");
        it.engine.begin(0, reading(0, 1000, 0.0));
        assert_eq!(it.count(1001), "");
        assert_eq!(it.unknown(), (1, 2));
    }

    #[test]
    fn times_saturate() {
        let mut it = played("when rate(f) > 5 for 1h then record g for 500000h");
        assert_eq!(it.engine.step(Duration::MAX, Duration::ZERO), []);
    }

    #[test]
    fn one_consumer_serves_all_figures_of_a_kind() {
        let text = "when rate(f) > 5 && count(f) > 5 || p50(f) > 5ms && mean(f) > 5ms && avg(n of f) > 1 && sum(n of f) > 1 then \
                    snapshot";
        let it = played(text);
        assert_eq!(it.engine.sources().collect::<Vec<_>>(), ["f=count", "f=latency(buckets)", "f=sum(n)"]);
    }

    #[test]
    fn a_rule_disarms_what_a_rule_arms() {
        let read = |texts: &[&str]| texts.iter().map(|text| rule(text).unwrap()).collect();
        let arms = "when rate(f) > 5 then arm g=count";
        let disarms = "when rate(f) > 9 then disarm g=count";
        assert!(Engine::new(read(&[arms, disarms])).is_ok());
        let error = Engine::new(
            rules(
                "a.rules",
                &format!("\n{arms}, arm h=count\n  when rate(f) > 9 then snapshot, disarm g=latency\n"),
            )
            .unwrap(),
        )
        .unwrap_err();
        assert_eq!(
            error.to_string(),
            "a.rules:3, column 35: no rule arms `g=latency`, so none can disarm it; both texts must be equal\n    \
             when rate(f) > 9 then snapshot, disarm g=latency\n                                    ^"
        );
        let error = Engine::new(read(&[disarms])).unwrap_err();
        assert!(error.to_string().starts_with("rule, column 23: no rule arms `g=count`"), "{error}");
    }
}
