//! Rules that a program follows by itself: nothing that a client may not do, and no commands.

use std::collections::BTreeSet;

use crate::engine::error::Error;
use crate::session::spec::parse_client_spec;
use probe_lang::ParseError;
use probe_lang::rules::{Action, Engine, Rule, RuleError, checked_rules, parse, snapshot_recorder};

/// The variable that names the file of rules.
pub(super) const VARIABLE: &str = "PROBE_RULES";

/// Reads the rules of a file of this name.
pub(crate) fn read_rules(name: &str, rules: &str) -> Result<Engine, Error> {
    let rules = client_rules(name, rules)?;
    let engine = Engine::new(rules)?;
    let consumers = most_consumers(&engine);
    if consumers > MOST_CONSUMERS {
        let problem = format!(
            "these rules may have {consumers} consumers at a time, and {MOST_CONSUMERS} are the most; rules share \
             equal ones"
        );
        return Err(Error::Environment { variable: VARIABLE, value: name.to_owned(), at: 0, problem });
    }
    Ok(engine)
}

/// The most consumers that rules may have at a time.
const MOST_CONSUMERS: usize = 256;

/// Returns the number of consumers if all rules are active.
fn most_consumers(engine: &Engine) -> usize {
    let (mut armed, mut recorders, mut recordings) = (BTreeSet::new(), BTreeSet::new(), 0);
    for action in engine.rules().flat_map(Rule::actions) {
        match action {
            Action::Arm(spec) => _ = armed.insert(spec),
            Action::Snapshot { selector, .. } => _ = recorders.insert(selector),
            Action::Record { .. } => recordings += 1,
            Action::Disarm(_) | Action::Run(_) => (),
        }
    }
    // These texts are well-formed.
    let armed =
        armed.iter().map(|spec| parse_client_spec(spec).map_or(1, |spec| spec.items.len())).sum::<usize>();
    engine.sources().count() + armed + recorders.len() + recordings
}

/// Reads the rules of a program's own file of this name. The consumers that they need are checked,
/// too.
///
/// # Errors
/// The first mistake, with its line and its place there.
fn client_rules(name: &str, text: &str) -> Result<Vec<Rule>, RuleError> {
    checked_rules(name, text, client_rule)
}

impl From<RuleError> for Error {
    /// The mistake as one of the variable that names the file.
    fn from(RuleError { place, text, at, problem }: RuleError) -> Self {
        Self::Environment { variable: VARIABLE, value: text, at, problem: format!("{place}: {problem}") }
    }
}

fn client_rule(place: &str, text: &str) -> Result<Rule, ParseError> {
    let rule = parse(place, text)?;
    for (spec, at) in rule.sources() {
        check(spec, at)?;
    }
    for (action, at) in rule.placed_actions() {
        let fail = |problem: &str| Err(ParseError { at, problem: problem.to_owned() });
        match action {
            // The spec stands somewhere behind the action's word.
            Action::Arm(spec) => {
                let start = at + text[at..].find(spec).unwrap_or_default();
                let fail = |error: ParseError| error.after(start);
                let parsed = parse_client_spec(spec).map_err(fail)?;
                let confined =
                    parsed.items.iter().find_map(|it| Some((it.at, it.consumer.confined.clone()?)));
                confined.map_or(Ok(()), |(at, problem)| Err(fail(ParseError { at, problem })))?;
            }
            Action::Disarm(_) => (),
            Action::Record { selector, .. } => check(&format!("{selector}=trace"), at)?,
            Action::Snapshot { selector: None, .. } => {
                return fail("in the program, a snapshot names its probes: `snapshot db::**`");
            }
            Action::Snapshot { selector: Some(selector), .. } => {
                check(&snapshot_recorder(selector), at)?;
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
    parse_client_spec(spec).map(drop).map_err(|error| ParseError { at, ..error })
}

#[cfg(all(test, feature = "latency", feature = "trace"))]
mod tests {
    use super::*;

    #[test]
    fn a_program_does_less_than_a_client() {
        for (text, at, problem) in [
            ("when rate(f) > 5 then run 'date'", 22, "a program runs no commands for its rules"),
            ("when rate(f) > 5 then snapshot f, snapshot", 34, "in the program, a snapshot names its probes"),
            ("when rate(f) > 5 then arm f=cuont", 28, "`cuont` is not a consumer; did you mean `count`?"),
            ("when rate(f) > 5 then arm f=count,  g = trace", 40, "this trace needs a file"),
            ("when rate(f) > 5 then arm f=trace(flight, map=a)", 28, "`map` names a file"),
            (
                "when rate(f) > 5 then arm when latency(f) > 5ms then snapshot, f=trace(flight)",
                53,
                "a trigger writes files",
            ),
            ("when rate(f) = 5", 13, "a comparison stands here"),
        ] {
            let error = client_rule("rule", text).unwrap_err();
            assert!(error.at == at && error.problem.starts_with(problem), "{text}: {error:?}");
        }
        let rules =
            "when p99(f) > 5ms then arm f=latency, record f for 1s, snapshot f to a.firefox.json\n# none";
        assert_eq!(client_rules("a.rules", rules).unwrap().len(), 1);
        let error = Error::from(client_rules("a.rules", "\nwhen rate(f) > 5 then run 'date'").unwrap_err());
        assert_eq!(
            error.to_string(),
            "PROBE_RULES, column 23: a.rules:2: a program runs no commands for its rules; `probectl watch` does\n  \
             when rate(f) > 5 then run 'date'\n                        ^"
        );
    }
}
