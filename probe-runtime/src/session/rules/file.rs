//! Rules in a file: one on each line. Lines that begin with `#` are comments.

use std::error;
use std::fmt;

use super::parse::parse;
use super::rule::Rule;
use crate::engine::error::Error;
use probe_lang::ParseError;
use probe_lang::error::{floor_char_boundary, mistake};

/// The variable that names a program's own file of rules.
pub(crate) const VARIABLE: &str = "PROBE_RULES";

/// A mistake in a rule. Prints with the rule's text, and a caret below the place.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RuleError {
    /// `FILE:LINE`, or `rule`.
    place: String,
    text: String,
    at: usize,
    problem: String,
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

impl From<RuleError> for Error {
    /// The mistake as one of the variable that names the file.
    fn from(RuleError { place, text, at, problem }: RuleError) -> Self {
        Self::Environment { variable: VARIABLE, value: text, at, problem: format!("{place}: {problem}") }
    }
}

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
type Parse = fn(&str, &str) -> Result<Rule, ParseError>;

/// Reads the rules of a file, each by this parser.
pub(super) fn checked_rules(name: &str, text: &str, parse: Parse) -> Result<Vec<Rule>, RuleError> {
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
            "a.rules:2, column 16: `5ms` is no number of hits a second; write `1000` or `10K`\n  \
             when rate(f) > 5ms then snapshot\n                 ^"
        );
        let error = rule("when x").unwrap_err();
        assert!(error.to_string().starts_with("rule, column 6: "), "{error}");
    }
}
