//! Parsing: operators from the loosest, `||`, to the closest.

use super::token::{Token, token};
use super::tree::{Arithmetic, Comparison, Node, Part};
use super::{MOST_BYTES, MOST_DEPTH, MOST_NODES};
use crate::error::{ParseError, floor_char_boundary};

/// Reads expressions out of a text, from one place to the next.
pub struct Parser<'a> {
    text: &'a str,
    /// The next word, its place and its end.
    pub at: usize,
    next: Token<'a>,
    end: usize,
    depth: usize,
    nodes: usize,
}

impl<'a> Parser<'a> {
    /// Begins at a byte of the text.
    pub fn new(text: &'a str, at: usize) -> Result<Self, ParseError> {
        if text.len() > MOST_BYTES {
            let problem = format!("at most {MOST_BYTES} bytes are read, and these are {}", text.len());
            return Err(ParseError { at: floor_char_boundary(text, MOST_BYTES), problem });
        }
        let (at, next, end) = token(text, at)?;
        Ok(Self { text, at, next, end, depth: 0, nodes: 0 })
    }

    fn error<T>(&self, problem: impl Into<String>) -> Result<T, ParseError> {
        Err(ParseError { at: self.at, problem: problem.into() })
    }

    /// Returns the next word, and continues to the one after it.
    fn take(&mut self) -> Result<Token<'a>, ParseError> {
        let (at, next, end) = token(self.text, self.end)?;
        (self.at, self.end) = (at, end);
        Ok(std::mem::replace(&mut self.next, next))
    }

    /// Takes the symbol if it is next.
    pub fn symbol(&mut self, symbol: &str) -> Result<bool, ParseError> {
        let is_next = matches!(self.next, Token::Symbol(next) if next == symbol);
        if is_next {
            self.take()?;
        }
        Ok(is_next)
    }

    /// Takes the name if it is next.
    pub fn word(&mut self, word: &str) -> Result<bool, ParseError> {
        let is_next = self.next == Token::Name(word);
        if is_next {
            self.take()?;
        }
        Ok(is_next)
    }

    /// Takes the symbol, or returns the error that it is missing.
    pub fn expect(&mut self, symbol: &str) -> Result<(), ParseError> {
        if self.symbol(symbol)? { Ok(()) } else { self.error(format!("`{symbol}` is missing here")) }
    }

    /// Expects the end of the text.
    pub fn finish(&self) -> Result<(), ParseError> {
        match &self.next {
            Token::End => Ok(()),
            Token::Symbol(symbol) if Comparison::of(symbol).is_some() => {
                self.error("comparisons don't chain; join two by `&&`")
            }
            _ => self.error("an operator is missing here, such as `&&` or `==`"),
        }
    }

    fn node(&mut self, at: usize, part: Part) -> Result<Node, ParseError> {
        self.nodes += 1;
        if self.nodes > MOST_NODES {
            return Err(ParseError { at, problem: format!("an expression has at most {MOST_NODES} parts") });
        }
        Ok(Node::new(at, part))
    }

    /// Reads operators of one kind, which group to the left.
    fn chain(
        &mut self,
        operand: fn(&mut Self) -> Result<Node, ParseError>,
        join: impl Fn(&str, Box<Node>, Box<Node>) -> Option<Part>,
        symbols: &[&str],
    ) -> Result<Node, ParseError> {
        let mut left = operand(self)?;
        loop {
            let at = self.at;
            let Token::Symbol(symbol) = self.next else { return Ok(left) };
            if !symbols.contains(&symbol) {
                return Ok(left);
            }
            self.take()?;
            let right = operand(self)?;
            match join(symbol, Box::new(left), Box::new(right)) {
                Some(part) => left = self.node(at, part)?,
                None => return self.error("this operator is not known"),
            }
        }
    }

    /// Parses an expression, and stops behind it.
    ///
    /// # Errors
    /// A mistake in the text.
    pub fn expression(&mut self) -> Result<Node, ParseError> {
        self.deeper(|parser| parser.chain(Self::and, |_, a, b| Some(Part::Or(a, b)), &["||"]))
    }

    fn deeper(
        &mut self,
        read: impl FnOnce(&mut Self) -> Result<Node, ParseError>,
    ) -> Result<Node, ParseError> {
        self.depth += 1;
        if self.depth > MOST_DEPTH {
            return self.error(format!("at most {MOST_DEPTH} brackets and signs stand inside of each other"));
        }
        let node = read(self)?;
        self.depth -= 1;
        Ok(node)
    }

    fn and(&mut self) -> Result<Node, ParseError> {
        self.chain(Self::compared, |_, a, b| Some(Part::And(a, b)), &["&&"])
    }

    fn compared(&mut self) -> Result<Node, ParseError> {
        let left = self.sum()?;
        let Token::Symbol(symbol) = self.next else { return Ok(left) };
        let Some(operator) = Comparison::of(symbol) else { return Ok(left) };
        let at = self.at;
        self.take()?;
        let right = self.sum()?;
        self.node(at, Part::Compare(operator, Box::new(left), Box::new(right)))
    }

    fn sum(&mut self) -> Result<Node, ParseError> {
        self.chain(Self::product, calculated, &["+", "-"])
    }

    fn product(&mut self) -> Result<Node, ParseError> {
        self.chain(Self::unary, calculated, &["*", "/", "%"])
    }

    fn unary(&mut self) -> Result<Node, ParseError> {
        let at = self.at;
        if self.symbol("!")? {
            let of = self.deeper(Self::unary)?;
            return self.node(at, Part::Not(Box::new(of)));
        }
        if self.symbol("-")? {
            let of = self.deeper(Self::unary)?;
            return self.node(at, Part::Negative(Box::new(of)));
        }
        self.word_or_group()
    }

    /// Takes a number of hits.
    fn hits(&mut self) -> Result<Option<u64>, ParseError> {
        let Token::Int(hits) = self.take()? else { return Ok(None) };
        Ok(u64::try_from(hits).ok())
    }

    fn word_or_group(&mut self) -> Result<Node, ParseError> {
        let at = self.at;
        if matches!(self.next, Token::Symbol(symbol) if symbol != "(") || self.next == Token::End {
            return self.error("a field, a constant or `(` is missing here");
        }
        let part = match self.take()? {
            Token::Int(1) if self.word("in")? => match self.hits()? {
                Some(hits @ 1..) => Part::OneIn(hits),
                _ => return Err(sampled(at)),
            },
            Token::Int(_) if self.next == Token::Name("in") => return Err(sampled(at)),
            Token::Int(number) => Part::Int(number),
            Token::Float(number) => Part::Float(number),
            Token::Char(c) => Part::Char(c),
            Token::Text(text) => Part::Text(text),
            Token::Name("true") => Part::Bool(true),
            Token::Name("false") => Part::Bool(false),
            Token::Name("first") if matches!(self.next, Token::Int(_)) => match self.hits()? {
                Some(hits) => Part::First(hits),
                None => return Err(ParseError { at, problem: "write `first 100`".to_owned() }),
            },
            Token::Name("len") if self.symbol("(")? => {
                let of = self.expression()?;
                self.expect(")")?;
                Part::Len(Box::new(of))
            }
            Token::Name(name) => {
                if self.next == Token::Symbol("(") {
                    let problem = format!("`{name}` is not a function here; there is `len`");
                    return Err(ParseError { at, problem });
                }
                Part::Name(name.to_owned())
            }
            Token::Symbol(_) => {
                let inner = self.expression()?;
                self.expect(")")?;
                return Ok(inner);
            }
            Token::End => return self.error("an expression ends too early"),
        };
        self.node(at, part)
    }
}

fn calculated(symbol: &str, left: Box<Node>, right: Box<Node>) -> Option<Part> {
    Some(Part::Calculate(Arithmetic::of(symbol)?, left, right))
}

fn sampled(at: usize) -> ParseError {
    ParseError { at, problem: "write `1 in 1000`".to_owned() }
}
