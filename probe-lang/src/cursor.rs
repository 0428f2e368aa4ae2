//! The place up to which a text is read: words, spans of time, and operands that may hold anything
//! in brackets and quotes. Pure.
//!
//! A selector or a spec ends at a word of the grammar, such as `for`, or at a comma behind which
//! another action begins. Neither ends it inside of brackets, or after a backslash: `f[s == " for
//! "]`, `f[abi:cxx11]`, `a\ for\ b`.

use std::time::Duration;

use crate::brackets::closing;
use crate::error::ParseError;
use crate::units::{quantity_len, time};

/// The place up to which a text is read. It is never at whitespace.
pub struct Cursor<'a> {
    pub text: &'a str,
    pub at: usize,
}

impl<'a> Cursor<'a> {
    /// Begins at a byte, or behind the whitespace there.
    pub fn new(text: &'a str, at: usize) -> Self {
        Self { text, at: text.len() - text[at..].trim_start().len() }
    }

    pub fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    pub fn fail<T>(&self, problem: impl Into<String>) -> Result<T, ParseError> {
        Err(ParseError { at: self.at, problem: problem.into() })
    }

    /// Passes this many bytes, and the whitespace behind them. Returns the passed text.
    pub fn pass(&mut self, bytes: usize) -> &'a str {
        let passed = &self.rest()[..bytes];
        let rest = self.rest()[bytes..].trim_start();
        self.at = self.text.len() - rest.len();
        passed
    }

    pub fn skip(&mut self, symbol: &str) -> bool {
        let is_there = self.rest().starts_with(symbol);
        if is_there {
            self.pass(symbol.len());
        }
        is_there
    }

    /// Returns the word that begins here: letters, digits and `_`.
    pub fn word(&self) -> &'a str {
        word(self.rest())
    }

    pub fn skip_word(&mut self, expected: &str) -> bool {
        self.word() == expected && self.skip(expected)
    }

    /// Reads a span of time.
    pub fn time(&mut self) -> Result<Duration, ParseError> {
        let text = &self.rest()[..quantity_len(self.rest())];
        match time(text) {
            Ok(span) => {
                self.pass(text.len());
                Ok(span)
            }
            Err(problem) => self.fail(problem),
        }
    }

    /// Reads a whole number.
    pub fn number(&mut self, example: &str) -> Result<u32, ParseError> {
        let word = self.word();
        match word.parse::<u32>() {
            Ok(number @ 1..) => {
                self.pass(word.len());
                Ok(number)
            }
            _ => self.fail(format!("a number from 1 to {} stands here: `{example}`", u32::MAX)),
        }
    }

    /// Takes an operand, up to one of these words, a comma behind which something else begins, a
    /// semicolon, or the end. Returns its place, and the operand without whitespace around it.
    pub fn operand(&mut self, stops: &[&str], begins: fn(&str) -> bool) -> (usize, &'a str) {
        let (at, len) = (self.at, operand_len(self.rest(), stops, begins));
        (at, self.pass(len).trim_end())
    }

    /// Takes a text in quotes, up to the next quote of the same kind.
    pub fn quoted(&mut self, example: &str) -> Result<&'a str, ParseError> {
        let Some(quote @ ('\'' | '"')) = self.rest().chars().next() else {
            return self.fail(format!("a text in quotes stands here: {example}"));
        };
        match self.rest()[1..].find(quote) {
            Some(len) => Ok(&self.pass(len + 2)[1..=len]),
            None => self.fail(format!("the closing {quote} is missing")),
        }
    }

    /// Takes a file's name: a word without whitespace, or a text in quotes.
    pub fn file(&mut self) -> Result<&'a str, ParseError> {
        if self.rest().starts_with(['\'', '"']) {
            return self.quoted("");
        }
        let len = self
            .rest()
            .find(|c: char| c.is_whitespace() || matches!(c, ';' | ','))
            .unwrap_or(self.rest().len());
        match len {
            0 => self.fail("the name of a file stands here: `to slow.pftrace`"),
            len => Ok(self.pass(len)),
        }
    }
}

fn word(text: &str) -> &str {
    &text[..text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len())]
}

/// Returns the length of the operand at the beginning of a text.
fn operand_len(text: &str, stops: &[&str], begins: fn(&str) -> bool) -> usize {
    let (mut at, mut is_apart) = (0, true);
    while let Some(c) = text[at..].chars().next() {
        let rest = &text[at..];
        let is_stop = |stop: &&str| {
            let (first, second) = stop.split_once(' ').unwrap_or((stop, ""));
            let after =
                rest.strip_prefix(first).filter(|it| it.is_empty() || it.starts_with(char::is_whitespace));
            after.is_some_and(|it| second.is_empty() || word(it.trim_start()) == second)
        };
        if c == ';' || (c == ',' && begins(&rest[1..])) || (is_apart && stops.iter().any(is_stop)) {
            return at;
        }
        let len = c.len_utf8();
        is_apart = c.is_whitespace();
        at += match c {
            '\\' => len + text[at + len..].chars().next().map_or(0, char::len_utf8),
            '(' | '[' | '{' => closing(rest).map_or(len, |closer| closer + 1),
            _ => len,
        };
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn ends(text: &str, stops: &[&str], operand: &str) {
        assert_eq!(&text[..operand_len(text, stops, |_| false)], operand, "{text}");
    }

    #[test]
    fn an_operand_ends_at_a_word_of_the_grammar() {
        ends("db::* for 1s", &["for"], "db::* ");
        ends("a::for_each, b::then for 1s", &["for", "then"], "a::for_each, b::then ");
        ends("<T as x::for>::f for 1s", &["for"], "<T as x::for>::f ");
        ends("<for<'a> fn(&'a u8) as T>::f for 1s", &["for"], "<for<'a> fn(&'a u8) as T>::f ");
        ends("f(int for) for 1s", &["for"], "f(int for) ");
        ends(r"a\ for for 1s", &["for"], r"a\ for ");
        ends("f[s == \"; for \"]=count; g", &["for"], "f[s == \"; for \"]=count");
        ends("f[c == ')' && d == ';'] for 1s", &["for"], "f[c == ')' && d == ';'] ");
        ends("f[abi:cxx11] for 1s", &["for"], "f[abi:cxx11] ");
        ends("geo::operator< for 1s", &["for"], "geo::operator< ");
        ends("a=count at most 2 times", &["at most", "every"], "a=count ");
        ends("a=count, at=count at  most 2 times", &["at most"], "a=count, at=count ");
        ends("a=count every 1s", &["at most", "every"], "a=count ");
        ends("a<* for 1s", &["for"], "a<* ");
        ends("", &["for"], "");
    }

    #[test]
    fn brackets_that_nobody_closes_take_no_long_time() {
        for (open, close) in [("<", "("), ("[", ")"), ("(", "\""), ("<(", ">"), ("[<{", ")>")] {
            let text = format!("{}{}", open.repeat(4000), close.repeat(4000));
            assert_eq!(operand_len(&text, &["for"], |_| false), text.len(), "{open} {close}");
        }
    }

    proptest::proptest! {
        #[test]
        fn any_text_has_an_operand(text in r#"([a ;<>()"'\\é-]|\[|\]|for|at most){0,40}"#) {
            let len = operand_len(&text, &["for", "at most"], |text| text.starts_with('a'));
            proptest::prop_assert!(text.is_char_boundary(len));
        }
    }
}
