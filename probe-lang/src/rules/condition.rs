//! Conditions: figures compared with limits. Each is true, false, or unknown. Pure.
//!
//! A condition has no `!`: the parser negates the comparisons instead, and swaps `&&` with `||`.
//! By the laws of De Morgan, which hold for unknown values, too, that is the same.
//!
//! | `a` | `b` | `a && b` | `a \|\| b` | `!a` |
//! |---|---|---|---|---|
//! | true | unknown | unknown | true | false |
//! | false | unknown | false | unknown | true |
//! | unknown | unknown | unknown | unknown | unknown |

use super::figure::{Figure, Function};
use super::rule::{Rule, SustainedCondition};
use crate::error::ParseError;
use crate::expression::Comparison as Operator;

/// A condition.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Condition {
    Comparison(Comparison),
    /// Joined by `&&`.
    All(Vec<Self>),
    /// Joined by `||`.
    Any(Vec<Self>),
}

/// A figure and its limit.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Comparison {
    pub(super) figure: Figure,
    pub(super) operator: Operator,
    pub(super) limit: f64,
    /// The byte where it stands.
    pub(super) at: usize,
}

impl Comparison {
    /// Returns its limit, in nanoseconds, if it is exceeded by a single call.
    pub(super) fn call_limit(&self) -> Option<u64> {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a time is not negative")]
        let limit = self.limit as u64;
        (self.figure.function == Function::Latency && self.operator == Operator::Greater).then_some(limit)
    }

    pub(super) fn holds(&self, value: f64) -> bool {
        match self.operator {
            Operator::Less => value < self.limit,
            Operator::LessOrEqual => value <= self.limit,
            #[expect(clippy::float_cmp, reason = "somebody asks for exactly this number")]
            Operator::Equal => value == self.limit,
            #[expect(clippy::float_cmp, reason = "somebody asks for any number but this one")]
            Operator::NotEqual => value != self.limit,
            Operator::GreaterOrEqual => value >= self.limit,
            Operator::Greater => value > self.limit,
            // The grammar has no patterns here.
            Operator::Matches | Operator::MatchesNot => false,
        }
    }
}

impl Condition {
    /// Returns all comparisons, in their order.
    pub(super) fn comparisons(&self) -> Vec<&Comparison> {
        match self {
            Self::Comparison(it) => vec![it],
            Self::All(parts) | Self::Any(parts) => parts.iter().flat_map(Self::comparisons).collect(),
        }
    }

    /// Returns whether it holds; `None` if that is not known. These are the values of its
    /// comparisons, in their order.
    pub(super) fn holds(&self, values: &[Option<f64>]) -> Option<bool> {
        self.of_next(&mut values.iter().copied())
    }

    /// Takes as many values as it has comparisons.
    fn of_next(&self, values: &mut dyn Iterator<Item = Option<f64>>) -> Option<bool> {
        match self {
            Self::Comparison(it) => values.next().flatten().map(|value| it.holds(value)),
            Self::All(parts) => parts.iter().map(|it| it.of_next(values)).fold(Some(true), and),
            Self::Any(parts) => not(parts.iter().map(|it| not(it.of_next(values))).fold(Some(true), and)),
        }
    }
}

/// The negation of a truth value that may be unknown.
pub(super) fn not(it: Option<bool>) -> Option<bool> {
    it.map(|it| !it)
}

/// The conjunction of truth values that may be unknown: false if one of both is.
pub(super) fn and(one: Option<bool>, other: Option<bool>) -> Option<bool> {
    match (one, other) {
        (Some(false), _) | (_, Some(false)) => Some(false),
        (Some(true), Some(true)) => Some(true),
        _ => None,
    }
}

/// Most comparisons of all alternatives of a condition.
const MOST_COMPARISONS: usize = 2000;

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
            Operator::LessOrEqual => Self { to: limit, ..Self::ALL },
            Operator::Equal => Self { from: limit, to: limit, ..Self::ALL },
            // `alternatives` makes two of it.
            Operator::NotEqual | Operator::Matches | Operator::MatchesNot => Self::ALL,
            Operator::GreaterOrEqual => Self { from: limit, ..Self::ALL },
            Operator::Greater => Self { from: limit, has_from: false, ..Self::ALL },
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

/// Comparisons that hold together.
type Alternative = Vec<Comparison>;

/// Returns the values of a figure for which all of these comparisons hold.
fn span(all: &[Comparison], figure: &Figure) -> Span {
    let of_it = all.iter().filter(|it| it.figure == *figure);
    of_it.fold(Span::ALL, |span, it| span.and(Span::of(it)))
}

/// Returns the ways in which a condition may hold.
fn alternatives(condition: &Condition) -> Result<Vec<Alternative>, ParseError> {
    match condition {
        Condition::Comparison(it) if it.operator == Operator::NotEqual => {
            let with = |operator| vec![Comparison { operator, ..it.clone() }];
            Ok(vec![with(Operator::Less), with(Operator::Greater)])
        }
        Condition::Comparison(it) => Ok(vec![vec![it.clone()]]),
        Condition::Any(parts) => {
            let each = parts.iter().map(alternatives).collect::<Result<Vec<_>, _>>()?;
            bounded(each.into_iter().flatten(), condition)
        }
        Condition::All(parts) => {
            let mut all = vec![Alternative::new()];
            for part in parts {
                let of_part = alternatives(part)?;
                let mut contradiction = None;
                let joined = all.iter().flat_map(|it| of_part.iter().map(move |other| (it, other)));
                let joined = joined.filter_map(|(it, other)| {
                    let joined = [&it[..], other].concat();
                    let empty = other.iter().find(|one| span(&joined, &one.figure).is_empty());
                    contradiction = contradiction.take().or(empty.cloned());
                    empty.is_none().then_some(joined)
                });
                all = bounded(joined, condition)?;
                if let Some(Comparison { at, figure, .. }) = contradiction.filter(|_| all.is_empty()) {
                    let problem =
                        format!("this contradicts another comparison of {figure}, so it never holds");
                    return Err(ParseError { at, problem });
                }
            }
            Ok(all)
        }
    }
}

/// Collects alternatives, unless they are too many.
fn bounded(
    alternatives: impl Iterator<Item = Alternative>,
    of: &Condition,
) -> Result<Vec<Alternative>, ParseError> {
    let mut comparisons = 0;
    let all = alternatives.take_while(|it| {
        comparisons += it.len();
        comparisons <= MOST_COMPARISONS
    });
    let all = all.collect();
    if comparisons <= MOST_COMPARISONS {
        return Ok(all);
    }
    let at = of.comparisons().first().map_or(0, |it| it.at);
    let problem = format!(
        "this may hold in too many ways: without `||` inside of `&&`, it would have over {MOST_COMPARISONS} comparisons; \
         make several rules of it"
    );
    Err(ParseError { at, problem })
}

/// Checks the conditions of a rule.
pub(super) fn check(rule: &Rule) -> Result<(), ParseError> {
    let of = |held: &SustainedCondition| alternatives(&held.condition);
    let whens = of(&rule.when)?;
    for until in rule.until.as_ref().map(of).transpose()?.iter().flatten() {
        if let Some(it) = whens.iter().find_map(|when| shared(when, until)) {
            let problem = format!(
                "this may hold while the rule's condition holds, so the rule would end as it fires; let a gap \
                 be between both limits of {}",
                it.figure
            );
            return Err(ParseError { at: it.at, problem });
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
