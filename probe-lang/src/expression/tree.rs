//! An expression as it was written, and its operators: between two numbers, and between two values
//! that are compared.

use super::check::is_of_hit;

/// A part of an expression, and the byte where it stands.
#[derive(Clone, Debug)]
pub struct Node {
    /// Byte offset in the text.
    pub at: usize,
    /// The operator or operand.
    pub part: Part,
}

#[derive(Clone, Debug)]
pub enum Part {
    /// An integer; times are in nanoseconds, sizes in bytes.
    Int(i128),
    Float(f64),
    Bool(bool),
    Char(char),
    Text(String),
    /// A field, or one of the names that all hits have.
    Name(String),
    /// The length of a text.
    Len(Box<Node>),
    Negative(Box<Node>),
    Not(Box<Node>),
    Calculate(Arithmetic, Box<Node>, Box<Node>),
    Compare(Comparison, Box<Node>, Box<Node>),
    And(Box<Node>, Box<Node>),
    Or(Box<Node>, Box<Node>),
    /// The first hits that get here.
    First(u64),
    /// One in this many of the hits that get here.
    OneIn(u64),
}

impl Node {
    pub(super) fn new(at: usize, part: Part) -> Self {
        Self { at, part }
    }

    /// Calls this with each part.
    fn each(&self, told: &mut dyn FnMut(&Self)) {
        told(self);
        match &self.part {
            Part::Len(it) | Part::Negative(it) | Part::Not(it) => it.each(told),
            Part::Calculate(_, left, right)
            | Part::Compare(_, left, right)
            | Part::And(left, right)
            | Part::Or(left, right) => {
                left.each(told);
                right.each(told);
            }
            _ => (),
        }
    }

    /// Returns whether it may ask for a name.
    pub fn uses(&self, name: &str) -> bool {
        let mut is_used = false;
        self.each(&mut |node| is_used |= matches!(&node.part, Part::Name(it) if it == name));
        is_used
    }

    /// Returns the names that fields may have: all but those that a hit has besides its fields.
    pub fn fields(&self) -> Vec<String> {
        let mut names = Vec::new();
        self.each(&mut |node| match &node.part {
            Part::Name(name) if !is_of_hit(name) => names.push(name.clone()),
            _ => (),
        });
        names
    }

    /// Returns the conditions that all must hold.
    pub fn conjuncts(&self) -> Vec<&Self> {
        match &self.part {
            Part::And(left, right) => [left.conjuncts(), right.conjuncts()].concat(),
            _ => vec![self],
        }
    }

    /// Returns the condition that all of these hold; `None` of none.
    pub fn all_of(conditions: &[&Self]) -> Option<Self> {
        let all = conditions.iter().copied().cloned();
        all.reduce(|left, right| Self::new(left.at, Part::And(Box::new(left), Box::new(right))))
    }

    /// Returns the number of its parts that count hits.
    pub fn samples(&self) -> usize {
        let mut samples = 0;
        self.each(&mut |node| samples += usize::from(matches!(node.part, Part::First(_) | Part::OneIn(_))));
        samples
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Arithmetic {
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Comparison {
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
    /// In the order of the variants.
    const SYMBOLS: [(&str, Self); 5] = [
        ("+", Self::Add),
        ("-", Self::Subtract),
        ("*", Self::Multiply),
        ("/", Self::Divide),
        ("%", Self::Remainder),
    ];

    pub(super) fn symbol(self) -> &'static str {
        Self::SYMBOLS[self as usize].0
    }

    /// Returns whether it binds its operands as `+` does, not as `*`.
    pub(super) fn is_sum(self) -> bool {
        matches!(self, Self::Add | Self::Subtract)
    }

    pub(super) fn of(symbol: &str) -> Option<Self> {
        Self::SYMBOLS.into_iter().find(|it| it.0 == symbol).map(|it| it.1)
    }
}

impl Comparison {
    /// In the order of the variants.
    const SYMBOLS: [(&str, Self); 8] = [
        ("==", Self::Equal),
        ("!=", Self::NotEqual),
        ("<", Self::Less),
        ("<=", Self::LessOrEqual),
        (">", Self::Greater),
        (">=", Self::GreaterOrEqual),
        ("~", Self::Matches),
        ("!~", Self::MatchesNot),
    ];

    pub(super) fn symbol(self) -> &'static str {
        Self::SYMBOLS[self as usize].0
    }

    pub(super) fn of(symbol: &str) -> Option<Self> {
        Self::SYMBOLS.into_iter().find(|it| it.0 == symbol).map(|it| it.1)
    }

    /// Returns the comparison of numbers with whose symbol a text begins, and the symbol.
    pub(crate) fn at_start(text: &str) -> Option<(&'static str, Self)> {
        let fit = Self::SYMBOLS.into_iter().filter(|(symbol, it)| !it.is_match() && text.starts_with(symbol));
        fit.max_by_key(|(symbol, _)| symbol.len())
    }

    /// Returns the comparison that holds for exactly the other values.
    pub(crate) fn negated(self) -> Self {
        match self {
            Self::Equal => Self::NotEqual,
            Self::NotEqual => Self::Equal,
            Self::Less => Self::GreaterOrEqual,
            Self::LessOrEqual => Self::Greater,
            Self::Greater => Self::LessOrEqual,
            Self::GreaterOrEqual => Self::Less,
            Self::Matches => Self::MatchesNot,
            Self::MatchesNot => Self::Matches,
        }
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

#[cfg(test)]
mod tests {
    use super::{Arithmetic, Comparison};

    #[test]
    fn symbols_are_in_the_order_of_the_variants() {
        for (symbol, operator) in Arithmetic::SYMBOLS {
            assert_eq!((operator.symbol(), Arithmetic::of(symbol)), (symbol, Some(operator)));
        }
        for (symbol, operator) in Comparison::SYMBOLS {
            assert_eq!((operator.symbol(), Comparison::of(symbol)), (symbol, Some(operator)));
            assert_eq!(operator.mirrored().mirrored(), operator);
            assert_eq!(operator.negated().negated(), operator);
        }
    }
}
