//! Probes that an expression does not fit.

use std::collections::BTreeSet;

use crate::error::Error;
use crate::expression::Mismatch;
use crate::registry::{FieldInfo, ProbeInfo};
use crate::syntax::ParseError;

/// The fields that an error lists.
const LISTED: usize = 16;

/// An expression that does not fit, and its text.
#[derive(Clone)]
pub(super) struct Unfit {
    pub(super) text: String,
    pub(super) mismatch: Mismatch,
}

/// The probes that an expression does not fit, and why.
#[derive(Clone, Default)]
pub(in super::super) struct LeftOut {
    probes: usize,
    /// The first one, and its mismatch: one of a type is worth more.
    first: Option<(String, Unfit)>,
}

impl LeftOut {
    pub(super) fn add(&mut self, path: &str, unfit: Unfit) {
        self.probes += 1;
        let is_better = |known: &Unfit| {
            matches!((&known.mismatch, &unfit.mismatch), (Mismatch::Unknown { .. }, Mismatch::Type(_)))
        };
        if self.first.as_ref().is_none_or(|(_, known)| is_better(known)) {
            self.first = Some((path.to_owned(), unfit));
        }
    }

    /// Adds other probes, which were left out later.
    pub(super) fn extend(&mut self, later: Self) {
        self.probes += later.probes;
        if self.first.is_none() {
            self.first = later.first;
        }
    }

    /// Returns the error if there is no other probe than these.
    pub(super) fn error(&self, probes: &[ProbeInfo]) -> Option<Error> {
        let (_, Unfit { text, mismatch }) = self.first.as_ref()?;
        let ParseError { at, problem } = match mismatch {
            Mismatch::Type(error) => error.clone(),
            Mismatch::Unknown { name, at } if name == "latency" => ParseError {
                at: *at,
                problem: "`latency` is known at the exit of a call; select its entry and its exit".to_owned(),
            },
            Mismatch::Unknown { name, at } => {
                let all = probes.iter().flat_map(ProbeInfo::fields).map(FieldInfo::name);
                let all: BTreeSet<_> = all.collect();
                let listed = all.iter().take(LISTED).copied().collect::<Vec<_>>().join(", ");
                let more = all.len().saturating_sub(LISTED);
                let fields = match (all.len(), more) {
                    (0, _) => "these probes have none".to_owned(),
                    (_, 0) => format!("there is {listed}"),
                    _ => format!("there is {listed} and {more} more"),
                };
                let problem =
                    format!("`{name}` is not a field of any probe here; {fields}, beside thread and time");
                ParseError { at: *at, problem }
            }
        };
        Some(Error::Expression { text: text.clone(), at, problem })
    }

    /// Returns a line about these probes and those of `more`, if there are any.
    pub(super) fn note(&self, more: &Self) -> Option<String> {
        let (path, Unfit { mismatch, .. }) = self.first.as_ref().or(more.first.as_ref())?;
        let why = match mismatch {
            Mismatch::Type(error) => error.problem.clone(),
            Mismatch::Unknown { name, .. } => format!("it has no field `{name}`"),
        };
        Some(match self.probes + more.probes {
            1 => format!("{path} is left out: {why}"),
            others => format!("{path} and {} others are left out: {why}", others - 1),
        })
    }
}
