//! A rule, as a model.

use std::fmt;
use std::time::Duration;

use super::condition::{Comparison, Condition};

/// A condition, and what follows from it. Prints as it was written.
#[derive(Clone, PartialEq, Debug)]
pub struct Rule {
    /// Its place for messages: `FILE:LINE`, or `rule`.
    pub(super) place: String,
    pub(super) text: String,
    pub(super) when: Held,
    /// Without it, the rule ends when its condition does not hold any more.
    pub(super) until: Option<Held>,
    pub(super) actions: Vec<Action>,
    /// The bytes where the actions stand.
    pub(super) places: Vec<usize>,
    pub(super) at_most: u32,
    pub(super) every: Option<Duration>,
}

/// A condition that must hold for a time.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Held {
    pub(super) condition: Condition,
    pub(super) time: Duration,
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
