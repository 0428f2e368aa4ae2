//! A rule as a model, and rules in a file: one on each line. Lines that begin with `#` are
//! comments.

use std::time::Duration;
use std::{error, fmt};

use super::condition::{Comparison, Condition};
use super::parse::parse;
use crate::error::{ParseError, floor_char_boundary, mistake};

/// A condition, and what follows from it. Prints as it was written.
#[derive(Clone, PartialEq, Debug)]
pub struct Rule {
    /// Its place for messages: `FILE:LINE`, or `rule`.
    pub(super) place: String,
    pub(super) text: String,
    pub(super) when: SustainedCondition,
    /// Without it, the rule ends when its condition does not hold any more.
    pub(super) until: Option<SustainedCondition>,
    pub(super) actions: Vec<Action>,
    /// The bytes where the actions stand.
    pub(super) places: Vec<usize>,
    pub(super) at_most: u32,
    pub(super) every: Option<Duration>,
}

/// A condition that must hold for a time.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct SustainedCondition {
    pub(super) condition: Condition,
    pub(super) time: Duration,
}

impl SustainedCondition {
    /// Returns the limit, in nanoseconds, if it is about a single call that takes longer.
    pub(crate) fn call_limit(&self) -> Option<u64> {
        match &self.condition {
            Condition::Comparison(it) if self.time.is_zero() => it.call_limit(),
            _ => None,
        }
    }
}

/// An action of a rule, when it fires.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Action {
    /// Attaches consumers for as long as the rule is active: a text as in `PROBES`.
    Arm(String),
    /// Detaches consumers that rules have attached by this text.
    Disarm(String),
    /// Records a trace into a file.
    Record {
        /// The probes.
        selector: String,
        /// For how long.
        time: Duration,
        /// The file; by default it has the rule's number.
        file: Option<String>,
    },
    /// Writes the latest events of a flight recorder to a file.
    Snapshot {
        /// The probes of a recorder of the rule's own, which runs all the time; without them, the
        /// program's only recorder is meant.
        selector: Option<String>,
        /// The file; by default it has the rule's number.
        file: Option<String>,
    },
    /// Runs a command in a shell.
    Run(String),
}

/// Returns the flight recorder of a rule's own for snapshots of these probes, as `PROBES` has it.
pub fn snapshot_recorder(selector: &str) -> String {
    format!("{selector}=trace(flight)")
}

impl Rule {
    /// Returns the actions, in their order.
    pub fn actions(&self) -> &[Action] {
        &self.actions
    }

    /// Returns the greatest number of its firings.
    pub fn at_most(&self) -> u32 {
        self.at_most
    }

    /// Returns the time of its longest recording.
    pub(super) fn longest(&self) -> Duration {
        let times = self.actions.iter().map(|action| match action {
            Action::Record { time, .. } => *time,
            _ => Duration::ZERO,
        });
        times.max().unwrap_or_default()
    }

    /// Returns the actions, each with the byte where it stands.
    pub fn placed_actions(&self) -> impl Iterator<Item = (&Action, usize)> {
        self.actions.iter().zip(self.places.iter().copied())
    }

    /// Returns the consumers of its figures, as `PROBES` has them, each with the byte where the
    /// figure stands.
    pub fn sources(&self) -> impl Iterator<Item = (&str, usize)> {
        self.comparisons().map(|it| (it.figure.spec.as_str(), it.at))
    }

    /// Returns all comparisons of its conditions: those of `when`, then those of `until`.
    pub(super) fn comparisons(&self) -> impl Iterator<Item = &Comparison> {
        let until = self.until.iter().flat_map(|it| it.condition.comparisons());
        self.when.condition.comparisons().into_iter().chain(until)
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text.trim())
    }
}

/// A mistake in a rule. Prints with the rule's text, and a caret below the place.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RuleError {
    /// `FILE:LINE`, or `rule`.
    pub place: String,
    /// The rule's text.
    pub text: String,
    /// Byte offset of the mistake.
    pub at: usize,
    /// The mistake, and the correct form.
    pub problem: String,
}

impl RuleError {
    /// A mistake at a byte of a text.
    pub(super) fn new(place: &str, text: &str, ParseError { at, problem }: ParseError) -> Self {
        Self { place: place.to_owned(), text: text.to_owned(), at: floor_char_boundary(text, at), problem }
    }
}

impl fmt::Display for RuleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        mistake(&self.place, &self.text, self.at, &self.problem, f)
    }
}

impl error::Error for RuleError {}

/// Reads a rule.
///
/// # Errors
/// A mistake in it, with its place.
pub fn rule(text: &str) -> Result<Rule, RuleError> {
    placed("rule", text, parse)
}

/// Reads the rules of a file of this name.
///
/// # Errors
/// The first mistake, with its line and its place there.
pub fn rules(name: &str, text: &str) -> Result<Vec<Rule>, RuleError> {
    checked_rules(name, text, parse)
}

/// Reads a rule at a place.
pub type Parse = fn(&str, &str) -> Result<Rule, ParseError>;

/// Reads the rules of a file, each by this parser.
pub fn checked_rules(name: &str, text: &str, parse: Parse) -> Result<Vec<Rule>, RuleError> {
    // Some editors begin a file with a mark of its encoding.
    let lines = text.strip_prefix('\u{feff}').unwrap_or(text).lines().zip(1_u64..);
    let rules = lines.filter(|(line, _)| !line.trim().is_empty() && !line.trim_start().starts_with('#'));
    rules.map(|(line, number)| placed(&format!("{name}:{number}"), line, parse)).collect()
}

fn placed(place: &str, text: &str, parse: Parse) -> Result<Rule, RuleError> {
    parse(place, text).map_err(|error| RuleError::new(place, text, error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_a_rule_on_each_line() {
        let text =
            "# slow\n\n  when rate(f) > 5 then arm g=count\r\n\t# none\nwhen count(f) >= 1 then snapshot\n";
        let rules = rules("slow.rules", text).unwrap();
        let texts: Vec<_> = rules.iter().map(ToString::to_string).collect();
        assert_eq!(texts, ["when rate(f) > 5 then arm g=count", "when count(f) >= 1 then snapshot"]);
    }

    #[test]
    fn a_mistake_has_its_line_and_a_caret() {
        let error = rules("a.rules", "# one\nwhen rate(f) > 5ms then snapshot").unwrap_err();
        assert_eq!(
            error.to_string(),
            "a.rules:2, column 16: `5ms` is no number of hits a second; write `1000` or `10K/s`\n  \
             when rate(f) > 5ms then snapshot\n                 ^"
        );
        let error = rule("when x").unwrap_err();
        assert!(error.to_string().starts_with("rule, column 6: "), "{error}");
    }
}
