//! Triggers in a spec: `when latency(db::query) > 5ms then attach db::** for 200ms, snapshot`.
//! Pure.
//!
//! A trigger is a `when` about single calls, whose actions are about the flight recorders of the
//! same text. A `when` about windows of time needs a driver, which a spec does not have.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::error::ParseError;
use crate::expression::Predicate;
use crate::rules::{AT_MOST, Action, Verb, WHEN, When, when_at};
use crate::selector::Selector;

const EXAMPLE: &str = "when latency(db::query) > 5ms then attach db::** for 200ms, snapshot";

/// A trigger. Prints as it was written.
#[derive(Debug)]
pub struct CallTrigger {
    text: String,
    /// Selects the functions whose calls may take too long.
    pub selector: Arc<Selector>,
    /// The calls that matter.
    pub predicate: Option<Predicate>,
    /// The time over which a call takes too long.
    pub limit: Duration,
    /// The text of the limit.
    pub limit_text: String,
    /// Selects the probes that are attached before the snapshot, and says for how long.
    pub more: Option<(Arc<Selector>, Duration)>,
    /// The most snapshots that it takes.
    pub at_most: u32,
    /// The time between a snapshot and the next one.
    pub rest: Duration,
    /// Whether each snapshot replaces the one before.
    pub is_replaced: bool,
    /// The byte where it begins.
    pub start: usize,
    /// The byte of the word `snapshot`.
    pub at: usize,
}

impl fmt::Display for CallTrigger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl CallTrigger {
    /// Parses the trigger that begins at this byte of a text. Returns it and its end: a comma, or
    /// the end of the text.
    pub(super) fn parse(text: &str, start: usize) -> Result<(Self, usize), ParseError> {
        let When { condition, until, actions, at_most, every, selected, limit, end } = when_at(text, start)?;
        let fail = |at, problem: String| Err(ParseError { at, problem });
        let Some(nanoseconds) = condition.call_limit().filter(|_| until.is_none()) else {
            return fail(
                start + WHEN.len() + 1,
                format!(
                    "here, `{WHEN}` is about single calls: `{EXAMPLE}`; a rule about windows of time stands in the \
                     file that PROBE_RULES names, or in `probectl watch`"
                ),
            );
        };
        let (more, snapshot) = match &actions[..] {
            [(Verb::Attach(time), _), snapshot] => (Some(*time), snapshot),
            [snapshot] => (None, snapshot),
            [_, (_, at), ..] => return fail(*at, actions_of_a_trigger()),
            [] => return fail(end, actions_of_a_trigger()),
        };
        let is_replaced = match &snapshot.0 {
            Verb::SnapshotInOneFile => true,
            Verb::Act(Action::Snapshot { selector: None, file: None }) => false,
            Verb::Act(Action::Snapshot { .. }) => {
                let problem =
                    "here, a snapshot is of each flight recorder, in a file beside its report: `snapshot`";
                return fail(snapshot.1, problem.to_owned());
            }
            _ => return fail(snapshot.1, actions_of_a_trigger()),
        };
        let mut selected = selected.into_iter();
        let (selector, predicate) = selected.next().ok_or_else(|| ParseError::new(actions_of_a_trigger()))?;
        let attached = selected.next();
        if let Some((selector, Some(_))) = &attached {
            let problem =
                format!("`{}` is attached with all its hits, so without a predicate", selector.text());
            return fail(actions[0].1, problem);
        }
        let more = more.and_then(|time| Some((Arc::new(attached?.0), time)));
        let trigger = Self {
            text: text[start..end].trim_end().to_owned(),
            selector: Arc::new(selector),
            predicate,
            limit: Duration::from_nanos(nanoseconds),
            limit_text: limit.to_owned(),
            more,
            at_most: at_most.unwrap_or(if is_replaced { u32::MAX } else { AT_MOST }),
            rest: every.unwrap_or(Duration::from_secs(1)),
            is_replaced,
            start,
            at: snapshot.1,
        };
        Ok((trigger, end))
    }
}

fn actions_of_a_trigger() -> String {
    format!("here, the actions are `snapshot`, or `attach` and then `snapshot`: `{EXAMPLE}`")
}

#[cfg(test)]
mod tests;
