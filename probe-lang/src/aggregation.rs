//! The text of an aggregation: `sum(bytes) by(path, thread)`.

use std::fmt;
use std::sync::Arc;

use crate::brackets::closing;
use crate::error::ParseError;
use crate::expression::{Mismatch, Node, Parser, Scope, groups, number};
use crate::selector::Selector;

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
    Until,
    Held,
}

impl Function {
    pub const ALL: [Self; 9] = [
        Self::Count,
        Self::Sum,
        Self::Min,
        Self::Max,
        Self::Mean,
        Self::Quantize,
        Self::Latency,
        Self::Until,
        Self::Held,
    ];

    pub const fn name(self) -> &'static str {
        match self {
            Self::Count => "count",
            Self::Sum => "sum",
            Self::Min => "min",
            Self::Max => "max",
            Self::Mean => "avg",
            Self::Quantize => "quantize",
            Self::Latency => "latency",
            Self::Until => "until",
            Self::Held => "held",
        }
    }

    /// Returns whether brackets follow its name.
    pub fn has_brackets(self) -> bool {
        !matches!(self, Self::Count | Self::Latency | Self::Held)
    }

    /// Returns whether its name alone is another consumer's.
    pub fn needs_keys(self) -> bool {
        matches!(self, Self::Count | Self::Latency)
    }

    /// Returns whether its numbers are the times of intervals, from one hit to another.
    pub fn is_of_intervals(self) -> bool {
        matches!(self, Self::Until | Self::Held)
    }

    /// Returns whether its numbers are times, in nanoseconds, with their distribution.
    pub fn is_of_times(self) -> bool {
        self == Self::Latency || self.is_of_intervals()
    }
}

/// The hits that end intervals: `until(lock::mutex_unlock)`, `until(memory::free by(block))`.
#[derive(Clone, Debug)]
pub struct Ends {
    pub selector: Arc<Selector>,
    /// The hits that begin intervals, if a spec has named them.
    pub begins: Option<Arc<Selector>>,
    /// Their key, if it is written otherwise than the first key of the hits that begin.
    pub key: Option<Node>,
}

/// An aggregation, as it was written.
#[derive(Clone, Debug)]
pub struct Aggregation {
    pub text: Box<str>,
    pub function: Function,
    pub value: Option<Node>,
    /// Of `until`.
    pub ends: Option<Ends>,
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
        let (mut value, mut ends) = (None, None);
        if function == Function::Until {
            let (read, end) = Ends::parse(text, parser.at)?;
            ends = Some(read);
            parser = Parser::new(text, end)?;
        } else if function.has_brackets() {
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
        if let Some(key) = ends.as_ref().and_then(|ends| ends.key.as_ref()).filter(|_| keys.is_empty()) {
            let problem = "the hits that begin have a key then, too: `a=until(b by(block)) by(ret)`";
            return Err(ParseError { at: key.at, problem: problem.to_owned() });
        }
        Ok(Self { text: text.into(), function, value, ends, keys })
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

    /// Returns the key that the hits of an interval share; `None` if its thread alone is.
    pub fn shared_key(&self) -> Option<&Node> {
        let own = self.ends.as_ref().and_then(|ends| ends.key.as_ref());
        own.or_else(|| self.keys.first())
    }

    /// Returns the names of fields in it.
    pub fn fields(&self) -> Vec<String> {
        self.value.iter().chain(&self.keys).chain(self.shared_key()).flat_map(Node::fields).collect()
    }

    pub fn uses(&self, name: &str) -> bool {
        self.value.iter().chain(&self.keys).any(|node| node.uses(name))
    }
}

impl Ends {
    /// Reads the brackets at this place, and returns the place behind them.
    fn parse(text: &str, at: usize) -> Result<(Self, usize), ParseError> {
        let missing = |at, symbol| ParseError { at, problem: format!("`{symbol}` is missing here") };
        if !text[at..].starts_with('(') {
            return Err(missing(at, '('));
        }
        let end = at + closing(&text[at..]).ok_or_else(|| missing(text.len(), ')'))?;
        let (start, mut selector, mut key) = (at + 1, &text[at + 1..end], None);
        let is_key = |before: &str, by: &str| {
            before.ends_with(char::is_whitespace) && by.trim_start().starts_with('(')
        };
        if let Some((before, by)) = selector.rsplit_once("by").filter(|(before, by)| is_key(before, by)) {
            selector = before;
            let mut parser = Parser::new(&text[..end], end - by.len())?;
            parser.expect("(")?;
            let (at, read) = (parser.at, parser.expression()?);
            if read.uses("latency") {
                let problem = "a hit that ends an interval ends no call, so its key is of its fields";
                return Err(ParseError { at, problem: problem.to_owned() });
            }
            key = Some(read);
            parser.expect(")")?;
            parser.finish()?;
        }
        let blank = selector.len() - selector.trim_start().len();
        let parsed = Selector::parse(selector.trim());
        let selector = parsed.map_err(|error| error.parse_error().after(start + blank))?;
        Ok((Self { selector: selector.into(), begins: None, key }, end + 1))
    }
}

impl fmt::Display for Aggregation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.function.name())?;
        if let Some(value) = &self.value {
            write!(f, "({value})")?;
        }
        match &self.ends {
            Some(Ends { selector, key: Some(key), .. }) => write!(f, "({} by({key}))", selector.text())?,
            Some(Ends { selector, key: None, .. }) => write!(f, "({})", selector.text())?,
            None => (),
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
            ("until(a\tby (b)) by(c)", "until(a by(b)) by(c)"),
            ("until( app::given )by(lock)", "until(app::given) by(lock)"),
            (
                "until(a::*, !a::b kind=exit by( len(key) ))by(n)",
                "until(a::*, !a::b kind=exit by(len(key))) by(n)",
            ),
            ("held by(caller)", "held by(caller)"),
        ] {
            let parsed = Aggregation::parse(text).unwrap();
            assert_eq!(parsed.to_string(), printed);
            assert_eq!(Aggregation::parse(printed).unwrap().to_string(), printed);
        }
        for (text, at, problem) in [
            (
                "total(x)",
                0,
                "an aggregation begins with one of count, sum, min, max, avg, quantize, latency, until, held",
            ),
            ("sum", 3, "`(` is missing here"),
            ("until by(a)", 6, "`(` is missing here"),
            ("until(a", 7, "`)` is missing here"),
            ("until( a:b)", 8, "`:` can't be part of a path"),
            ("until(a by(b c))", 13, "`)` is missing here"),
            ("until(a by(latency)) by(b)", 11, "a hit that ends an interval ends no call"),
            ("until(a by(b))", 11, "the hits that begin have a key then, too"),
            ("sum(x) of(y)", 7, "an operator is missing here"),
            ("count by()", 9, "a field, a constant or `(` is missing here"),
            ("count by(a, b, c, d, e)", 21, "a group has at most 4 keys"),
        ] {
            let error = Aggregation::parse(text).unwrap_err();
            assert!(error.at == at && error.problem.starts_with(problem), "{text}: {error:?}");
        }
    }
}
