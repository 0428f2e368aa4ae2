//! Rules that a program follows by itself: nothing that a client may not do, and no commands.

use super::file::{RuleError, checked_rules};
use super::parse::parse;
use super::rule::{Action, Rule, snapshot_recorder};
use crate::engine::error::Error;
use crate::session::spec::{check_for_client, consumers_of};
use probe_lang::ParseError;

/// Reads the rules of a program's own file of this name. The consumers that they need are checked,
/// too.
///
/// # Errors
/// The first mistake, with its line and its place there.
pub(crate) fn own_rules(name: &str, text: &str) -> Result<Vec<Rule>, RuleError> {
    checked_rules(name, text, own_rule)
}

fn own_rule(place: &str, text: &str) -> Result<Rule, ParseError> {
    let rule = parse(place, text)?;
    for it in rule.comparisons() {
        check(&it.figure.spec, it.at)?;
    }
    for (action, at) in rule.actions.iter().zip(&rule.places) {
        let fail = |problem: &str| Err(ParseError { at: *at, problem: problem.to_owned() });
        match action {
            // The spec stands somewhere behind the action's word.
            Action::Arm(spec) => {
                let start = at + text[*at..].find(spec).unwrap_or_default();
                check_for_client(spec).map_err(|error| error.after(start))?;
            }
            Action::Disarm(_) => (),
            Action::Record { selector, .. } => check(&format!("{selector}=trace"), *at)?,
            Action::Snapshot { selector: None, .. } => {
                return fail("in the program, a snapshot names its probes: `snapshot db::**`");
            }
            Action::Snapshot { selector: Some(selector), .. } => {
                check(&snapshot_recorder(selector), *at)?;
            }
            Action::Run(_) => {
                return fail("a program runs no commands for its rules; `probectl watch` does");
            }
        }
    }
    Ok(rule)
}

/// Checks consumers that a rule needs at a byte of its text.
fn check(spec: &str, at: usize) -> Result<(), ParseError> {
    match consumers_of(spec) {
        Ok(_) => Ok(()),
        Err(Error::Spec { problem, .. }) => Err(ParseError { at, problem }),
        Err(error) => Err(ParseError { at, problem: error.to_string() }),
    }
}

#[cfg(all(test, feature = "latency", feature = "trace"))]
mod tests {
    use super::*;

    #[test]
    fn a_program_does_less_than_a_client() {
        for (text, at, problem) in [
            ("when rate(f) > 5 then run 'date'", 22, "a program runs no commands for its rules"),
            ("when rate(f) > 5 then snapshot f; snapshot", 34, "in the program, a snapshot names its probes"),
            ("when rate(f) > 5 then arm f=cuont", 28, "`cuont` is not a consumer; did you mean `count`?"),
            ("when rate(f) > 5 then arm f=count,  g = trace", 40, "this trace needs a file"),
            ("when rate(f) > 5 then arm f=trace(flight, map=a)", 28, "`map` names a file"),
            (
                "when rate(f) > 5 then arm when latency(f) > 5ms: snapshot, f=trace(flight)",
                49,
                "a trigger writes files",
            ),
            ("when rate(f) = 5", 13, "a comparison stands here"),
        ] {
            let error = own_rule("rule", text).unwrap_err();
            assert!(error.at == at && error.problem.starts_with(problem), "{text}: {error:?}");
        }
        let rules =
            "when p99(f) > 5ms then arm f=latency; record f for 1s; snapshot f to a.firefox.json\n# none";
        assert_eq!(own_rules("a.rules", rules).unwrap().len(), 1);
        let error = Error::from(own_rules("a.rules", "\nwhen rate(f) > 5 then run 'date'").unwrap_err());
        assert_eq!(
            error.to_string(),
            "PROBE_RULES, column 23: a.rules:2: a program runs no commands for its rules; `probectl watch` does\n  \
             when rate(f) > 5 then run 'date'\n                        ^"
        );
    }
}
