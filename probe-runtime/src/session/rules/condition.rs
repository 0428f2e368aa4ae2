//! Conditions: figures compared with limits. Each is true, false, or unknown. Pure.
//!
//! A condition has no `not`: the parser negates the comparisons instead, and swaps `and` with `or`.
//! By the laws of De Morgan, which hold for unknown values, too, that is the same.
//!
//! | `a` | `b` | `a and b` | `a or b` | `not a` |
//! |---|---|---|---|---|
//! | true | unknown | unknown | true | false |
//! | false | unknown | false | unknown | true |
//! | unknown | unknown | unknown | unknown | unknown |

use super::figure::Figure;

/// A condition.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Condition {
    Comparison(Comparison),
    /// Joined by `and`.
    All(Vec<Self>),
    /// Joined by `or`.
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

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Operator {
    Less,
    AtMost,
    Equal,
    Other,
    AtLeast,
    More,
}

impl Operator {
    pub(super) const ALL: [(&'static str, Self); 6] = [
        ("<=", Self::AtMost),
        (">=", Self::AtLeast),
        ("==", Self::Equal),
        ("!=", Self::Other),
        ("<", Self::Less),
        (">", Self::More),
    ];

    /// Returns the operator that holds for exactly the other numbers.
    pub(super) fn negated(self) -> Self {
        match self {
            Self::Less => Self::AtLeast,
            Self::AtMost => Self::More,
            Self::Equal => Self::Other,
            Self::Other => Self::Equal,
            Self::AtLeast => Self::Less,
            Self::More => Self::AtMost,
        }
    }
}

impl Comparison {
    pub(super) fn holds(&self, value: f64) -> bool {
        match self.operator {
            Operator::Less => value < self.limit,
            Operator::AtMost => value <= self.limit,
            #[expect(clippy::float_cmp, reason = "somebody asks for exactly this number")]
            Operator::Equal => value == self.limit,
            #[expect(clippy::float_cmp, reason = "somebody asks for any number but this one")]
            Operator::Other => value != self.limit,
            Operator::AtLeast => value >= self.limit,
            Operator::More => value > self.limit,
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

/// `not` of a truth value that may be unknown.
pub(super) fn not(it: Option<bool>) -> Option<bool> {
    it.map(|it| !it)
}

/// `and` of truth values that may be unknown: false if one of both is.
pub(super) fn and(one: Option<bool>, other: Option<bool>) -> Option<bool> {
    match (one, other) {
        (Some(false), _) | (_, Some(false)) => Some(false),
        (Some(true), Some(true)) => Some(true),
        _ => None,
    }
}
