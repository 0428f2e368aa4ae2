//! Probes that an expression does not fit.

use std::collections::{BTreeMap, BTreeSet};

use crate::engine::error::Error;
use crate::engine::registry::ProbeInfo;
use probe_lang::ParseError;
use probe_lang::expression::Mismatch;

/// The groups of probes whose fields an error lists, and the fields of each.
const GROUPS: usize = 4;
const LISTED: usize = 16;

/// An expression that does not fit, and its text.
#[derive(Clone)]
pub(super) struct Unfit {
    pub(super) text: String,
    pub(super) mismatch: Mismatch,
}

/// The probes that an expression does not fit, and why.
#[derive(Clone, Default)]
pub(in super::super) struct Mismatches {
    probes: usize,
    /// The first one, and its mismatch: one of a type is worth more.
    first: Option<(String, Unfit)>,
}

impl Mismatches {
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
                let fields = probes
                    .iter()
                    .flat_map(|info| info.fields().iter().map(|field| (info.path(), field.name())));
                let problem = if fields.clone().any(|(_, field)| field == name) {
                    format!("`{name}` and another part of this are known at different hits of a call")
                } else {
                    format!("`{name}` is not a field of any probe here; {}", known(name, fields))
                };
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

/// Returns the names that expressions may have, of the paths and fields of probes. Paths with the
/// same fields are described together.
fn known<'a>(missing: &str, fields: impl Iterator<Item = (&'a str, &'a str)>) -> String {
    let mut paths = BTreeMap::<_, BTreeSet<_>>::new();
    for (path, field) in fields {
        paths.entry(path).or_default().insert(field);
    }
    // In the order of their first paths.
    let mut groups = Vec::<(BTreeSet<&str>, &str, usize)>::new();
    for (path, fields) in paths {
        match groups.iter_mut().find(|(known, ..)| *known == fields) {
            Some((.., others)) => *others += 1,
            None => groups.push((fields, path, 0)),
        }
    }
    if groups.is_empty() {
        return format!(
            "they record none, as `#[probe(args({missing}))]` does of an argument; there is thread and time"
        );
    }
    let described = groups.iter().take(GROUPS).map(|(fields, path, others)| {
        let listed = fields.iter().take(LISTED).copied().collect::<Vec<_>>().join(", ");
        let more = match fields.len().saturating_sub(LISTED) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let others = match others {
            0 => String::new(),
            1 => " and 1 other".to_owned(),
            others => format!(" and {others} others"),
        };
        format!("{listed}{more} at {path}{others}; ")
    });
    let described: String = described.collect();
    let more = match groups.len().saturating_sub(GROUPS) {
        0 => String::new(),
        more => format!("other fields at {more} more; "),
    };
    format!("there is {described}{more}thread and time at all")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_described_with_their_probes() {
        let described = |pairs: &[(&'static str, &'static str)]| known("n", pairs.iter().copied());
        assert_eq!(
            described(&[]),
            "they record none, as `#[probe(args(n))]` does of an argument; there is thread and time"
        );
        // An entry's fields and an exit's; further paths with the same; others.
        let mut pairs =
            vec![("a::send", "peer"), ("a::send", "bytes"), ("b::send", "bytes"), ("b::send", "peer")];
        assert_eq!(described(&pairs), "there is bytes, peer at a::send and 1 other; thread and time at all");
        pairs.extend([("c", "id"), ("d", "x"), ("e", "y"), ("f", "z"), ("g", "w"), ("h", "id"), ("i", "id")]);
        assert_eq!(
            described(&pairs),
            "there is bytes, peer at a::send and 1 other; id at c and 2 others; x at d; y at e; \
             other fields at 2 more; thread and time at all"
        );
        let names: Vec<String> = (0..20).map(|n| format!("f{n:02}")).collect();
        let many = known("n", names.iter().map(|name| ("a", name.as_str())));
        assert!(many.contains(", f15 and 4 more at a; "), "{many}");
    }
}
