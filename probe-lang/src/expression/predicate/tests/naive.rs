//! The value of a tree, evaluated node by node.

use super::Hit;
use crate::expression::datum::Fault;
use crate::expression::tree::{Arithmetic, Comparison, Node, Part};

/// The meaning of a tree in its simplest form.
pub(super) fn naive(node: &Node, hit: &Hit) -> Result<Naive, Fault> {
    use Naive::{Char, Float, Int, Text, Truth};
    let truth = |node| match naive(node, hit)? {
        Truth(it) => Ok(it),
        _ => Err(Fault::OtherType),
    };
    let float = |it: &Naive| match it {
        Int(it) => Some(*it as f64),
        Float(it) => Some(*it),
        _ => None,
    };
    Ok(match &node.part {
        Part::Int(it) => Int(*it),
        Part::Float(it) => Float(*it),
        Part::Bool(it) => Truth(*it),
        Part::Char(it) => Char(*it),
        Part::Text(it) => Text(it.clone()),
        Part::Name(name) => match name.as_str() {
            "bytes" => Int(hit.bytes.into()),
            "delta" => Int(hit.delta.into()),
            "ratio" => Float(hit.ratio),
            "ok" => Truth(hit.ok),
            "letter" => Char(hit.letter),
            "peer" => Text(hit.peer.clone()),
            "thread" => Int(7),
            _ => return Err(Fault::Missing),
        },
        Part::Len(_) => Int(hit.peer.len() as i128),
        Part::Negative(of) => match naive(of, hit)? {
            Int(it) => Int(it.checked_neg().ok_or(Fault::Overflow)?),
            Float(it) => Float(-it),
            _ => return Err(Fault::OtherType),
        },
        Part::Not(of) => Truth(!truth(of)?),
        Part::And(a, b) => Truth(truth(a)? && truth(b)?),
        Part::Or(a, b) => Truth(truth(a)? || truth(b)?),
        Part::Calculate(operator, a, b) => match (naive(a, hit)?, naive(b, hit)?) {
            (Int(_), Int(0)) if matches!(operator, Arithmetic::Divide | Arithmetic::Remainder) => {
                return Err(Fault::DivisionByZero);
            }
            (Int(a), Int(b)) => Int(match operator {
                Arithmetic::Add => a.checked_add(b),
                Arithmetic::Subtract => a.checked_sub(b),
                Arithmetic::Multiply => a.checked_mul(b),
                Arithmetic::Divide => a.checked_div(b),
                Arithmetic::Remainder => a.checked_rem(b),
            }
            .ok_or(Fault::Overflow)?),
            (a, b) => {
                let (Some(a), Some(b)) = (float(&a), float(&b)) else { return Err(Fault::OtherType) };
                Float(match operator {
                    Arithmetic::Add => a + b,
                    Arithmetic::Subtract => a - b,
                    Arithmetic::Multiply => a * b,
                    Arithmetic::Divide => a / b,
                    Arithmetic::Remainder => a % b,
                })
            }
        },
        Part::Compare(operator, a, b) => {
            let (a, b) = (naive(a, hit)?, naive(b, hit)?);
            let order = match (&a, &b) {
                (Int(a), Int(b)) => a.partial_cmp(b),
                (Text(a), Text(b)) => a.partial_cmp(b),
                (Char(a), Char(b)) => a.partial_cmp(b),
                (Truth(a), Truth(b)) => a.partial_cmp(b),
                (a, b) => float(a).and_then(|a| a.partial_cmp(&float(b)?)),
            };
            Truth(match operator {
                Comparison::Equal => order.is_some_and(std::cmp::Ordering::is_eq),
                Comparison::NotEqual => !order.is_some_and(std::cmp::Ordering::is_eq),
                Comparison::Less => order.is_some_and(std::cmp::Ordering::is_lt),
                Comparison::LessOrEqual => order.is_some_and(std::cmp::Ordering::is_le),
                Comparison::Greater => order.is_some_and(std::cmp::Ordering::is_gt),
                Comparison::GreaterOrEqual => order.is_some_and(std::cmp::Ordering::is_ge),
                Comparison::Matches | Comparison::MatchesNot => return Err(Fault::OtherType),
            })
        }
        Part::First(_) | Part::OneIn(_) => return Err(Fault::OtherType),
    })
}

#[derive(Debug)]
pub(super) enum Naive {
    Int(i128),
    Float(f64),
    Truth(bool),
    Char(char),
    Text(String),
}
