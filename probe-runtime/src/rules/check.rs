//! Conditions that contradict themselves, or each other: errors of a rule that would never fire, or
//! that would end as it fires. Pure.

use super::figure::{Figure, Function};
use super::rule::{Comparison, Operator, Rule};
use crate::syntax::ParseError;

/// The values that comparisons of one figure allow.
#[derive(Clone, Copy)]
struct Span {
    from: f64,
    has_from: bool,
    to: f64,
    has_to: bool,
}

impl Span {
    const ALL: Self = Self { from: f64::NEG_INFINITY, has_from: true, to: f64::INFINITY, has_to: true };

    fn of(comparison: &Comparison) -> Self {
        let limit = comparison.limit;
        match comparison.operator {
            Operator::Less => Self { to: limit, has_to: false, ..Self::ALL },
            Operator::AtMost => Self { to: limit, ..Self::ALL },
            Operator::Equal => Self { from: limit, to: limit, ..Self::ALL },
            Operator::AtLeast => Self { from: limit, ..Self::ALL },
            Operator::More => Self { from: limit, has_from: false, ..Self::ALL },
        }
    }

    fn and(self, other: Self) -> Self {
        let bound = |one: (f64, bool), other: (f64, bool), is_closer: fn(&f64, &f64) -> bool| {
            if is_closer(&one.0, &other.0) {
                one
            } else if is_closer(&other.0, &one.0) {
                other
            } else {
                (one.0, one.1 && other.1)
            }
        };
        let (from, has_from) = bound((self.from, self.has_from), (other.from, other.has_from), f64::gt);
        let (to, has_to) = bound((self.to, self.has_to), (other.to, other.has_to), f64::lt);
        Self { from, has_from, to, has_to }
    }

    fn is_empty(self) -> bool {
        let has_value = self.from < self.to || (self.from <= self.to && self.has_from && self.has_to);
        !has_value
    }
}

/// Returns the values of a figure for which all of these comparisons hold.
fn span(all: &[Comparison], figure: &Figure) -> Span {
    let of_it = all.iter().filter(|it| it.figure == *figure);
    of_it.fold(Span::ALL, |span, it| span.and(Span::of(it)))
}

/// Checks the conditions of a rule.
pub(super) fn check(rule: &Rule) -> Result<(), ParseError> {
    let untils = rule.until.iter().flat_map(|it| &it.condition.0);
    for all in rule.when.condition.0.iter().chain(untils.clone()) {
        for it in all {
            if span(all, &it.figure).is_empty() {
                let problem =
                    format!("this contradicts another comparison of {}, so it never holds", it.figure);
                return Err(ParseError { at: it.at, problem });
            }
        }
    }
    for until in untils {
        for when in &rule.when.condition.0 {
            if let Some(it) = shared(when, until) {
                let problem = format!(
                    "this may hold while the rule's condition holds, so the rule would end as it fires; let a gap \
                     be between both limits of {}",
                    it.figure
                );
                return Err(ParseError { at: it.at, problem });
            }
        }
    }
    Ok(())
}

/// Returns a comparison of `until` whose figure `when` has, too, if both may hold together. Figures
/// that only one of them has may have any value, so they decide nothing.
fn shared<'a>(when: &[Comparison], until: &'a [Comparison]) -> Option<&'a Comparison> {
    // A count of `until` begins with the firing: it is another one.
    let is_shared = |it: &&Comparison| {
        it.figure.function != Function::Count && when.iter().any(|other| other.figure == it.figure)
    };
    let mut both = until.iter().filter(is_shared);
    let first = both.next()?;
    let may_hold = |it: &Comparison| !span(when, &it.figure).and(span(until, &it.figure)).is_empty();
    (may_hold(first) && both.all(may_hold)).then_some(first)
}
