//! Values while an expression is evaluated, and reasons why it has no result.

use std::cmp::Ordering;

use super::MOST_TEXT;
use super::tree::{Arithmetic, Comparison};
use crate::glob;
use probe_core::abi::{TextStart, Type, Value, ValueRef};
use std::fmt;

/// A value of a field, a constant, or a result.
#[derive(Clone, Copy, Debug)]
pub enum Datum<'a> {
    /// All integers below 2^127, so that signed and unsigned ones compare as numbers.
    Int(i128),
    /// An integer of 2^127 or more: it can be compared, not calculated with.
    Large(u128),
    /// A floating-point number.
    Float(f64),
    /// A truth value.
    Bool(bool),
    /// A Unicode scalar value.
    Char(char),
    /// The beginning of a text, or of bytes.
    Text(TextStart<'a>),
}

impl<'a> Datum<'a> {
    /// Returns a field's value.
    #[inline]
    pub fn of(value: &'a Value<'a>) -> Result<Self, Fault> {
        // The most frequent types first.
        match value.ty_number() {
            ty if ty == Type::U64 as u64 => Ok(Self::Int(value.words()[0].into())),
            ty if ty == Type::I64 as u64 => Ok(Self::Int(value.words()[0].cast_signed().into())),
            _ => Self::of_any(value),
        }
    }

    fn of_any(value: &'a Value<'a>) -> Result<Self, Fault> {
        if let Some(text) = value.text_start(MOST_TEXT) {
            return Ok(Self::Text(text));
        }
        match value.ty() {
            // Their text would be formatted by the program's own code.
            Some(Type::Format | Type::Opaque) | None => return Err(Fault::OtherType),
            Some(Type::Absent | Type::Failed) => return Err(Fault::Missing),
            Some(Type::CStr | Type::Bytes) => return Err(Fault::Unreadable),
            Some(_) => (),
        }
        match value.get() {
            ValueRef::I128(it) => Ok(Self::Int(it)),
            ValueRef::U128(it) => Ok(it.try_into().map_or(Self::Large(it), Self::Int)),
            ValueRef::F64(it) => Ok(Self::Float(it)),
            ValueRef::Bool(it) => Ok(Self::Bool(it)),
            ValueRef::Char(it) => Ok(Self::Char(it)),
            _ => Err(Fault::OtherType),
        }
    }

    pub(super) fn text(text: &'a str) -> Self {
        Self::Text(TextStart { bytes: text.as_bytes(), is_whole: true })
    }

    /// Returns the number as a floating-point number, rounded to the nearest.
    pub fn float(self) -> Option<f64> {
        match self {
            Self::Int(it) => Some(it as f64),
            Self::Large(it) => Some(it as f64),
            Self::Float(it) => Some(it),
            _ => None,
        }
    }

    pub(super) fn calculate(self, operator: Arithmetic, other: Self) -> Result<Self, Fault> {
        if let (Self::Int(a), Self::Int(b)) = (self, other) {
            if b == 0 && matches!(operator, Arithmetic::Divide | Arithmetic::Remainder) {
                return Err(Fault::DivisionByZero);
            }
            let result = match operator {
                Arithmetic::Add => a.checked_add(b),
                Arithmetic::Subtract => a.checked_sub(b),
                Arithmetic::Multiply => a.checked_mul(b),
                Arithmetic::Divide => a.checked_div(b),
                Arithmetic::Remainder => a.checked_rem(b),
            };
            return result.map(Self::Int).ok_or(Fault::Overflow);
        }
        let (Some(a), Some(b)) = (self.float(), other.float()) else { return Err(Fault::OtherType) };
        // With a floating-point number, a large integer is rounded to one.
        if !matches!((self, other), (Self::Float(_), _) | (_, Self::Float(_))) {
            return Err(Fault::Overflow);
        }
        Ok(Self::Float(match operator {
            Arithmetic::Add => a + b,
            Arithmetic::Subtract => a - b,
            Arithmetic::Multiply => a * b,
            Arithmetic::Divide => a / b,
            Arithmetic::Remainder => a % b,
        }))
    }

    pub(super) fn compare(self, operator: Comparison, other: Self) -> Result<bool, Fault> {
        if operator.is_match() {
            let (Self::Text(text), Self::Text(pattern)) = (self, other) else { return Err(Fault::OtherType) };
            if !text.is_whole {
                return Err(Fault::TooLong);
            }
            return Ok(glob::matches(pattern.bytes, text.bytes) == (operator == Comparison::Matches));
        }
        let order = match (self, other) {
            (Self::Int(a), Self::Int(b)) => Some(a.cmp(&b)),
            (Self::Large(a), Self::Large(b)) => Some(a.cmp(&b)),
            (Self::Large(_), Self::Int(_)) => Some(Ordering::Greater),
            (Self::Int(_), Self::Large(_)) => Some(Ordering::Less),
            (Self::Bool(a), Self::Bool(b)) => Some(a.cmp(&b)),
            (Self::Char(a), Self::Char(b)) => Some(a.cmp(&b)),
            // A constant is shorter than a text that was cut, so one whole text is enough.
            (Self::Text(a), Self::Text(b)) if a.is_whole || b.is_whole || a.bytes != b.bytes => {
                Some(a.bytes.cmp(b.bytes))
            }
            (Self::Text(_), Self::Text(_)) => return Err(Fault::TooLong),
            _ => match (self.float(), other.float()) {
                // A NaN is neither less, nor equal, nor greater.
                (Some(a), Some(b)) => a.partial_cmp(&b),
                _ => return Err(Fault::OtherType),
            },
        };
        Ok(match operator {
            Comparison::Equal => order.is_some_and(Ordering::is_eq),
            Comparison::Less => order.is_some_and(Ordering::is_lt),
            Comparison::LessOrEqual => order.is_some_and(Ordering::is_le),
            Comparison::Greater => order.is_some_and(Ordering::is_gt),
            Comparison::GreaterOrEqual => order.is_some_and(Ordering::is_ge),
            _ => !order.is_some_and(Ordering::is_eq),
        })
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;
    use probe_core::__private::v1::InMemory;
    use probe_core::Field;

    #[test]
    fn integers_from_the_middle_of_128_bits_compare_as_numbers() {
        let numbers = [0, 1, (1 << 127) - 1, 1 << 127, (1 << 127) + 1, u128::MAX];
        for (a, b) in numbers.iter().flat_map(|a| numbers.iter().map(move |b| (a, b))) {
            let values = [a, b].map(Field::pass::<InMemory>);
            let [left, right] = [0, 1].map(|at: usize| Datum::of(&values[at]).unwrap());
            assert_eq!(left.compare(Comparison::Less, right), Ok(a < b), "{a} < {b}");
            assert_eq!(left.compare(Comparison::Equal, right), Ok(a == b), "{a} == {b}");
            assert_eq!(left.compare(Comparison::GreaterOrEqual, right), Ok(a >= b), "{a} >= {b}");
            assert_eq!(Datum::Int(-1).compare(Comparison::Less, left), Ok(true), "-1 < {a}");
        }
        let most = Datum::Large(u128::MAX);
        assert!(matches!(most.calculate(Arithmetic::Subtract, Datum::Int(1)), Err(Fault::Overflow)));
        assert!(matches!(most.calculate(Arithmetic::Add, Datum::Float(1.0)), Ok(Datum::Float(_))));
    }
}
