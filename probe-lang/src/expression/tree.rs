//! An expression as it was written.

use super::operator::{Arithmetic, Comparison};

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

    /// Returns the number of its parts that count hits.
    pub fn samples(&self) -> usize {
        let mut samples = 0;
        self.each(&mut |node| samples += usize::from(matches!(node.part, Part::First(_) | Part::OneIn(_))));
        samples
    }
}
