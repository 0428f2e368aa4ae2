//! The text of an aggregation: `sum(bytes) by(path, thread)`.

use std::fmt;

use crate::error::ParseError;
use crate::expression::{Mismatch, Node, Parser, Scope, groups, number};

/// Keys of one aggregation.
pub const MOST_KEYS: usize = 4;

/// The figure of a group.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Function {
    Count,
    Sum,
    Min,
    Max,
    Mean,
    Quantize,
    Latency,
}

impl Function {
    pub const ALL: [Self; 7] =
        [Self::Count, Self::Sum, Self::Min, Self::Max, Self::Mean, Self::Quantize, Self::Latency];

    pub const fn name(self) -> &'static str {
        match self {
            Self::Count => "count",
            Self::Sum => "sum",
            Self::Min => "min",
            Self::Max => "max",
            Self::Mean => "avg",
            Self::Quantize => "quantize",
            Self::Latency => "latency",
        }
    }

    fn takes_value(self) -> bool {
        !matches!(self, Self::Count | Self::Latency)
    }
}

/// An aggregation, as it was written.
#[derive(Clone, Debug)]
pub struct Aggregation {
    pub text: Box<str>,
    pub function: Function,
    pub value: Option<Node>,
    pub keys: Vec<Node>,
}

impl Aggregation {
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        let mut parser = Parser::new(text, 0)?;
        let mut function = None;
        for known in Function::ALL {
            if parser.word(known.name())? {
                function = Some(known);
                break;
            }
        }
        let Some(function) = function else {
            let all = Function::ALL.map(Function::name).join(", ");
            return Err(ParseError::new(format!("an aggregation begins with one of {all}")));
        };
        let mut value = None;
        if function.takes_value() {
            parser.expect("(")?;
            value = Some(parser.expression()?);
            parser.expect(")")?;
        }
        let mut keys = Vec::new();
        if parser.word("by")? {
            parser.expect("(")?;
            loop {
                let at = parser.at;
                keys.push(parser.expression()?);
                if keys.len() > MOST_KEYS {
                    return Err(ParseError { at, problem: format!("a group has at most {MOST_KEYS} keys") });
                }
                if !parser.symbol(",")? {
                    break;
                }
            }
            parser.expect(")")?;
        }
        parser.finish()?;
        Ok(Self { text: text.into(), function, value, keys })
    }

    /// Checks that a key, by its number, has values that can be told apart. `callers` has a bit for
    /// each key that is no field but callers.
    pub fn key_fits(&self, key: usize, scope: &Scope<'_>, callers: u8) -> Result<(), Mismatch> {
        self.keys.get(key).map_or(Ok(()), |node| groups(node, scope, callers >> key & 1 != 0))
    }

    /// Checks that the value is a number.
    pub fn value_fits(&self, scope: &Scope<'_>) -> Result<(), Mismatch> {
        if self.function == Function::Latency && !scope.has_latency {
            return Err(Mismatch::Unknown { name: "latency".to_owned(), at: 0 });
        }
        self.value.as_ref().map_or(Ok(()), |value| number(value, scope).map(drop))
    }

    /// Returns the names of fields in it.
    pub fn fields(&self) -> Vec<String> {
        self.value.iter().chain(&self.keys).flat_map(Node::fields).collect()
    }

    pub fn uses(&self, name: &str) -> bool {
        self.value.iter().chain(&self.keys).any(|node| node.uses(name))
    }
}

impl fmt::Display for Aggregation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.function.name())?;
        if let Some(value) = &self.value {
            write!(f, "({value})")?;
        }
        if !self.keys.is_empty() {
            let keys: Vec<_> = self.keys.iter().map(ToString::to_string).collect();
            write!(f, " by({})", keys.join(", "))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::Aggregation;

    #[test]
    fn an_aggregation_prints_as_its_text() {
        for (text, printed) in [
            ("count", "count"),
            ("count by(path)", "count by(path)"),
            ("sum( bytes*2 )by( path,thread )", "sum(bytes * 2) by(path, thread)"),
            ("quantize(latency)", "quantize(latency)"),
            ("latency by(len(path) > 10)", "latency by(len(path) > 10)"),
        ] {
            let parsed = Aggregation::parse(text).unwrap();
            assert_eq!(parsed.to_string(), printed);
            assert_eq!(Aggregation::parse(printed).unwrap().to_string(), printed);
        }
        for (text, at, problem) in [
            ("total(x)", 0, "an aggregation begins with one of count, sum, min, max, avg, quantize, latency"),
            ("sum", 3, "`(` is missing here"),
            ("sum(x) of(y)", 7, "an operator is missing here"),
            ("count by()", 9, "a field, a constant or `(` is missing here"),
            ("count by(a, b, c, d, e)", 21, "a group has at most 4 keys"),
        ] {
            let error = Aggregation::parse(text).unwrap_err();
            assert!(error.at == at && error.problem.starts_with(problem), "{text}: {error:?}");
        }
    }
}
