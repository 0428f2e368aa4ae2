//! Names and types: what an expression is about in the hits of one probe.

use super::tree::{Node, Part};
use crate::error::ParseError;
use probe_core::abi::Type;

/// The names that the hits of one probe have.
#[derive(Clone, Copy)]
pub struct Scope<'a> {
    /// The fields' names and types, in their order. A type that is not recorded is not known.
    pub fields: &'a [(String, Option<Type>)],
    /// Whether the hits end calls whose time is measured.
    pub has_latency: bool,
}

/// The type of an expression.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scalar {
    Int,
    Float,
    Bool,
    Char,
    Text,
    /// It is known at the hit only.
    Any,
}

/// The reason why an expression does not fit a probe.
#[derive(Clone, Debug)]
pub enum Mismatch {
    /// The probe has no such field.
    Unknown {
        /// The name that it has in the text.
        name: String,
        /// Its place in the text.
        at: usize,
    },
    /// A type does not fit.
    Type(ParseError),
}

/// The source of a name's value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Source {
    Field(u8),
    Thread,
    Time,
    Latency,
}

/// Names that hits have besides their fields. A field of that name comes first.
const THREAD: &str = "thread";
const TIME: &str = "time";
const LATENCY: &str = "latency";

/// Names of keys that tell where a hit's function was called. A field of that name comes first.
const CALLER: &str = "caller";
const STACK: &str = "stack";

/// A key that tells where a hit's function was called.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Callers {
    /// The function that called.
    Nearest,
    /// All functions that led there.
    Stack,
}

/// Returns whether hits have this name besides their fields.
pub(super) fn is_of_hit(name: &str) -> bool {
    [THREAD, TIME, LATENCY].contains(&name)
}

impl Scalar {
    fn name(self) -> &'static str {
        match self {
            Self::Int => "an integer",
            Self::Float => "a floating-point number",
            Self::Bool => "a truth value",
            Self::Char => "a character",
            Self::Text => "text",
            Self::Any => "a value",
        }
    }

    fn is_number(self) -> bool {
        matches!(self, Self::Int | Self::Float | Self::Any)
    }
}

impl Scope<'_> {
    pub(super) fn source(&self, name: &str) -> Option<(Source, Option<Type>)> {
        if let Some(at) = self.fields.iter().position(|(field, _)| field == name) {
            return Some((Source::Field(u8::try_from(at).ok()?), self.fields[at].1));
        }
        match name {
            THREAD => Some((Source::Thread, Some(Type::U64))),
            TIME => Some((Source::Time, Some(Type::U64))),
            LATENCY if self.has_latency => Some((Source::Latency, Some(Type::U64))),
            _ => None,
        }
    }
}

pub(super) fn mistake<T>(at: usize, problem: String) -> Result<T, Mismatch> {
    Err(Mismatch::Type(ParseError { at, problem }))
}

/// Returns the type of a value; an error if it can't be compared or calculated with.
pub fn scalar(node: &Node, scope: &Scope<'_>) -> Result<Scalar, Mismatch> {
    let number = |it: &Node| number(it, scope);
    let truth = |it: &Node| condition(it, scope);
    Ok(match &node.part {
        Part::Int(_) => Scalar::Int,
        Part::Float(_) => Scalar::Float,
        Part::Bool(_) | Part::First(_) | Part::OneIn(_) => Scalar::Bool,
        Part::Char(_) => Scalar::Char,
        Part::Text(_) => Scalar::Text,
        Part::Name(name) => {
            let Some((_, ty)) = scope.source(name) else {
                if node.callers(scope).is_some() {
                    return mistake(node.at, format!("`{name}` is a key of its own: `count by({name})`"));
                }
                return Err(Mismatch::Unknown { name: name.clone(), at: node.at });
            };
            match ty {
                None => Scalar::Any,
                Some(Type::U64 | Type::I64 | Type::U128 | Type::I128) => Scalar::Int,
                Some(Type::F64) => Scalar::Float,
                Some(Type::Bool) => Scalar::Bool,
                Some(Type::Char) => Scalar::Char,
                Some(Type::Str | Type::Bytes | Type::CStr) => Scalar::Text,
                Some(other) => {
                    let why = match other {
                        Type::Format => "it formats itself, which only a report asks it for",
                        Type::Opaque => "only the name of its type is recorded",
                        _ => "it has no value",
                    };
                    return mistake(node.at, format!("`{name}` can't be compared: {why}"));
                }
            }
        }
        Part::Len(of) => match scalar(of, scope)? {
            Scalar::Text | Scalar::Any if matches!(of.part, Part::Name(_)) => Scalar::Int,
            _ => return mistake(of.at, "`len` is of a field that is text".to_owned()),
        },
        Part::Negative(of) => number(of)?,
        Part::Not(of) => {
            truth(of)?;
            Scalar::Bool
        }
        Part::Calculate(_, left, right) => match (number(left)?, number(right)?) {
            (Scalar::Int, Scalar::Int) => Scalar::Int,
            (Scalar::Any, _) | (_, Scalar::Any) => Scalar::Any,
            _ => Scalar::Float,
        },
        Part::Compare(operator, left, right) => {
            let (a, b) = (scalar(left, scope)?, scalar(right, scope)?);
            for (it, ty) in [(left, a), (right, b)] {
                if ty == Scalar::Bool && !matches!(it.part, Part::Name(_) | Part::Bool(_)) {
                    return mistake(it.at, "join truth values by `&&` and `||`".to_owned());
                }
            }
            if operator.is_match() {
                if !matches!(a, Scalar::Text | Scalar::Any) {
                    let problem = format!("`{}` is for text, and this is {}", operator.symbol(), a.name());
                    return mistake(left.at, problem);
                }
                if !matches!(right.part, Part::Text(_)) {
                    let problem = format!("`{}` needs a pattern here, such as \"10.*\"", operator.symbol());
                    return mistake(right.at, problem);
                }
                return Ok(Scalar::Bool);
            }
            if operator.is_order() && (a == Scalar::Bool || b == Scalar::Bool) {
                return mistake(node.at, "truth values have no order".to_owned());
            }
            let fits = a == b || a == Scalar::Any || b == Scalar::Any || (a.is_number() && b.is_number());
            if !fits {
                let problem = format!("{} can't be compared with {}", a.name(), b.name());
                return mistake(node.at, problem);
            }
            Scalar::Bool
        }
        Part::And(left, right) | Part::Or(left, right) => {
            truth(left)?;
            truth(right)?;
            Scalar::Bool
        }
    })
}

/// Checks that an expression is a truth value.
pub(super) fn condition(node: &Node, scope: &Scope<'_>) -> Result<(), Mismatch> {
    match scalar(node, scope)? {
        Scalar::Bool | Scalar::Any => Ok(()),
        other => mistake(node.at, format!("a condition is needed here, and this is {}", other.name())),
    }
}

/// Returns the type of a number; an error if it is another type.
pub fn number(node: &Node, scope: &Scope<'_>) -> Result<Scalar, Mismatch> {
    match scalar(node, scope)? {
        ty if ty.is_number() => Ok(ty),
        other => mistake(node.at, format!("a number is needed here, and this is {}", other.name())),
    }
}

/// Checks that an expression has values that tell groups apart. A field that formats itself has its
/// text. If `may_be_callers`, callers are such values, too, before the exit of a call.
pub fn groups(node: &Node, scope: &Scope<'_>, may_be_callers: bool) -> Result<(), Mismatch> {
    if node.shown_field(scope).is_some() {
        return Ok(());
    }
    if node.callers(scope).is_some() {
        // The exit of a function in Rust may be in a function that it calls.
        let is_known = may_be_callers && !scope.has_latency;
        let unknown = || Mismatch::Unknown { name: node.to_string(), at: node.at };
        return is_known.then_some(()).ok_or_else(unknown);
    }
    match scalar(node, scope)? {
        Scalar::Bool if !matches!(node.part, Part::Name(_)) => {
            mistake(node.at, "a value is needed here, and this is a condition".to_owned())
        }
        _ => Ok(()),
    }
}

impl Node {
    /// Returns the number of the field that it is, if that formats itself.
    pub fn shown_field(&self, scope: &Scope<'_>) -> Option<usize> {
        let Part::Name(name) = &self.part else { return None };
        match scope.source(name)? {
            (Source::Field(at), Some(Type::Format)) => Some(at.into()),
            _ => None,
        }
    }

    /// Returns which callers it is, if it is a name of them and no field's.
    pub fn callers(&self, scope: &Scope<'_>) -> Option<Callers> {
        let Part::Name(name) = &self.part else { return None };
        match name.as_str() {
            _ if scope.source(name).is_some() => None,
            CALLER => Some(Callers::Nearest),
            STACK => Some(Callers::Stack),
            _ => None,
        }
    }

    /// Returns its name if it is a time, in nanoseconds, where no field has that name.
    pub fn time(&self) -> Option<&str> {
        let Part::Name(name) = &self.part else { return None };
        [LATENCY, TIME].contains(&name.as_str()).then_some(name)
    }

    /// Returns whether its values may be floating-point numbers.
    pub fn is_float(&self, scope: &Scope<'_>) -> bool {
        matches!(scalar(self, scope), Ok(Scalar::Float | Scalar::Any))
    }
}
