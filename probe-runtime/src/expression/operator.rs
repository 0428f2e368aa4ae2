//! The operators between two numbers, and between two values that are compared.

/// Arithmetic.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Arithmetic {
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
}

/// A comparison.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    Matches,
    MatchesNot,
}

impl Arithmetic {
    pub(super) fn symbol(self) -> &'static str {
        match self {
            Self::Add => "+",
            Self::Subtract => "-",
            Self::Multiply => "*",
            Self::Divide => "/",
            Self::Remainder => "%",
        }
    }

    /// Returns whether it binds its operands as `+` does, not as `*`.
    pub(super) fn is_sum(self) -> bool {
        matches!(self, Self::Add | Self::Subtract)
    }

    pub(super) fn of(symbol: &str) -> Option<Self> {
        let all = [Self::Add, Self::Subtract, Self::Multiply, Self::Divide, Self::Remainder];
        all.into_iter().find(|it| it.symbol() == symbol)
    }
}

impl Comparison {
    const ALL: [Self; 8] = [
        Self::Equal,
        Self::NotEqual,
        Self::Less,
        Self::LessOrEqual,
        Self::Greater,
        Self::GreaterOrEqual,
        Self::Matches,
        Self::MatchesNot,
    ];

    pub(super) fn symbol(self) -> &'static str {
        match self {
            Self::Equal => "==",
            Self::NotEqual => "!=",
            Self::Less => "<",
            Self::LessOrEqual => "<=",
            Self::Greater => ">",
            Self::GreaterOrEqual => ">=",
            Self::Matches => "~",
            Self::MatchesNot => "!~",
        }
    }

    pub(super) fn of(symbol: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|it| it.symbol() == symbol)
    }

    /// Returns whether it needs an order, and not equality alone.
    pub(super) fn is_order(self) -> bool {
        matches!(self, Self::Less | Self::LessOrEqual | Self::Greater | Self::GreaterOrEqual)
    }

    pub(super) fn is_match(self) -> bool {
        matches!(self, Self::Matches | Self::MatchesNot)
    }

    /// Returns the comparison of the same values in the other order.
    pub(super) fn mirrored(self) -> Self {
        match self {
            Self::Less => Self::Greater,
            Self::LessOrEqual => Self::GreaterOrEqual,
            Self::Greater => Self::Less,
            Self::GreaterOrEqual => Self::LessOrEqual,
            same => same,
        }
    }
}
