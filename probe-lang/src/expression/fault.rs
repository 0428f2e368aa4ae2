//! Reasons why an expression has no result.

use std::fmt;

/// The reason why an expression has no result for a hit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// A field has no value in this hit: its function was left by a panic, or the field panicked.
    Missing,
    /// A field's value has another type than the expression needs.
    OtherType,
    /// A number does not fit.
    Overflow,
    /// A division by zero, or its remainder.
    DivisionByZero,
    /// A text is too long to be matched.
    TooLong,
    /// The call has no entry that was seen, so its time is not known.
    Unpaired,
    /// A string of C can't be read.
    Unreadable,
}

/// All faults, in the order of their counters.
pub const FAULTS: [Fault; 7] = [
    Fault::Missing,
    Fault::OtherType,
    Fault::Overflow,
    Fault::DivisionByZero,
    Fault::TooLong,
    Fault::Unpaired,
    Fault::Unreadable,
];

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Missing => "without a value",
            Self::OtherType => "of another type",
            Self::Overflow => "with a number that is too large",
            Self::DivisionByZero => "with a division by zero",
            Self::TooLong => "with a text over 4096 bytes",
            Self::Unpaired => "of a call that began unseen",
            Self::Unreadable => "with a text that can't be read",
        })
    }
}
