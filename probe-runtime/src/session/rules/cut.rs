//! Cutting a rule's text: words, spans of time, and operands that may hold anything in brackets and
//! quotes. Pure.
//!
//! A selector or a spec ends at a word of the rule's grammar, such as `for`, or at a semicolon.
//! Neither ends it inside of brackets, or after a backslash: `<Vec<T> as Watch>::f`, `f[s == "; for
//! "]`, `f[abi:cxx11]`.

use std::time::Duration;

use probe_lang::ParseError;
use probe_lang::interval::{interval, time_len};
use probe_lang::selector::ends_in_operator;

/// Brackets that may be open at once. More close nothing, so that a long text takes a short time.
const MOST_OPEN: usize = 64;

/// The place up to which a rule is read. It is never at whitespace.
pub(super) struct Cursor<'a> {
    pub(super) text: &'a str,
    pub(super) at: usize,
}

impl<'a> Cursor<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self { text, at: text.len() - text.trim_start().len() }
    }

    pub(super) fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    pub(super) fn fail<T>(&self, problem: impl Into<String>) -> Result<T, ParseError> {
        Err(ParseError { at: self.at, problem: problem.into() })
    }

    /// Goes on to a byte, and behind the whitespace after it. Returns the passed text.
    pub(super) fn go(&mut self, bytes: usize) -> &'a str {
        let passed = &self.rest()[..bytes];
        let rest = self.rest()[bytes..].trim_start();
        self.at = self.text.len() - rest.len();
        passed
    }

    pub(super) fn skip(&mut self, symbol: &str) -> bool {
        let is_there = self.rest().starts_with(symbol);
        if is_there {
            self.go(symbol.len());
        }
        is_there
    }

    /// Returns the word that begins here: letters, digits and `_`.
    pub(super) fn word(&self) -> &'a str {
        word(self.rest())
    }

    pub(super) fn skip_word(&mut self, expected: &str) -> bool {
        self.word() == expected && self.skip(expected)
    }

    /// Reads a span of time.
    pub(super) fn time(&mut self) -> Result<Duration, ParseError> {
        let text = &self.rest()[..time_len(self.rest())];
        match interval(text) {
            Ok(span) => {
                self.go(text.len());
                Ok(span)
            }
            Err(problem) => self.fail(problem),
        }
    }

    /// Reads a whole number.
    pub(super) fn number(&mut self, example: &str) -> Result<u32, ParseError> {
        let word = self.word();
        match word.parse::<u32>() {
            Ok(number @ 1..) => {
                self.go(word.len());
                Ok(number)
            }
            _ => self.fail(format!("a number from 1 to {} stands here: `{example}`", u32::MAX)),
        }
    }

    /// Takes an operand, up to one of these words, a semicolon, or the end. Returns its place, and
    /// the operand without whitespace around it.
    pub(super) fn operand(&mut self, stops: &[&str]) -> (usize, &'a str) {
        let (at, len) = (self.at, operand_len(self.rest(), stops));
        (at, self.go(len).trim_end())
    }

    /// Takes a text in quotes, up to the next quote of the same kind.
    pub(super) fn quoted(&mut self, example: &str) -> Result<&'a str, ParseError> {
        let Some(quote @ ('\'' | '"')) = self.rest().chars().next() else {
            return self.fail(format!("a text in quotes stands here: {example}"));
        };
        match self.rest()[1..].find(quote) {
            Some(len) => Ok(&self.go(len + 2)[1..=len]),
            None => self.fail(format!("the closing {quote} is missing")),
        }
    }

    /// Takes a file's name: a word without whitespace, or a text in quotes.
    pub(super) fn file(&mut self) -> Result<&'a str, ParseError> {
        if self.rest().starts_with(['\'', '"']) {
            return self.quoted("");
        }
        let len = self.rest().find(|c: char| c.is_whitespace() || c == ';').unwrap_or(self.rest().len());
        match len {
            0 => self.fail("the name of a file stands here: `to slow.pftrace`"),
            len => Ok(self.go(len)),
        }
    }
}

fn word(text: &str) -> &str {
    &text[..text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len())]
}

/// Returns the length of the operand at the beginning of a text.
fn operand_len(text: &str, stops: &[&str]) -> usize {
    let (mut at, mut is_apart) = (0, true);
    while let Some(c) = text[at..].chars().next() {
        let rest = &text[at..];
        let is_stop = |stop: &&str| {
            let (first, second) = stop.split_once(' ').unwrap_or((stop, ""));
            let after =
                rest.strip_prefix(first).filter(|it| it.is_empty() || it.starts_with(char::is_whitespace));
            after.is_some_and(|it| second.is_empty() || word(it.trim_start()) == second)
        };
        if c == ';' || (is_apart && stops.iter().any(is_stop)) {
            return at;
        }
        let len = c.len_utf8();
        is_apart = c.is_whitespace();
        at += match c {
            '\\' => len + text[at + len..].chars().next().map_or(0, char::len_utf8),
            '(' | '[' | '{' => closed(rest).unwrap_or(len),
            '<' if !ends_in_operator(&text[..at]) => closed_angle(rest).unwrap_or(len),
            _ => len,
        };
    }
    at
}

/// Returns the length of the text from a bracket up to its partner. Brackets in quotes don't count.
/// A quote without a partner, such as that of a lifetime, is a character.
pub(super) fn closed(text: &str) -> Option<usize> {
    let mut open = Vec::new();
    let mut at = 0;
    while let Some(c) = text[at..].chars().next() {
        let mut len = c.len_utf8();
        match c {
            '\\' => len += text[at + len..].chars().next().map_or(0, char::len_utf8),
            '"' | '\'' => len = quoted_len(&text[at..]).unwrap_or(len),
            '(' | '[' | '{' if open.len() == MOST_OPEN => return None,
            '(' => open.push(')'),
            '[' => open.push(']'),
            '{' => open.push('}'),
            ')' | ']' | '}' => {
                // Those that are still open inside are characters.
                if let Some(partner) = open.iter().rposition(|it| *it == c) {
                    open.truncate(partner);
                    if open.is_empty() {
                        return Some(at + len);
                    }
                }
            }
            _ => (),
        }
        at += len;
    }
    None
}

/// Returns the length of a text in `"`, or of one character in `'`.
fn quoted_len(text: &str) -> Option<usize> {
    let quote = text.chars().next()?;
    let mut chars = text.char_indices().skip(1);
    let mut inside = 0_u32;
    while let Some((at, c)) = chars.next() {
        match c {
            c if c == quote && (quote == '"' || inside == 1) => return Some(at + 1),
            '\\' => _ = chars.next()?,
            _ => (),
        }
        inside += 1;
        if quote == '\'' && inside > 1 {
            return None;
        }
    }
    None
}

/// Returns the length of the text from a `<` up to its partner. `->` and `=>` close nothing.
fn closed_angle(text: &str) -> Option<usize> {
    let (mut depth, mut at) = (0_usize, 0);
    while let Some(c) = text[at..].chars().next() {
        let rest = &text[at..];
        at += match c {
            '\\' => 1 + rest[1..].chars().next().map_or(0, char::len_utf8),
            '(' | '[' | '{' => closed(rest)?,
            '<' if depth == MOST_OPEN => return None,
            ';' | '"' => return None,
            _ => c.len_utf8(),
        };
        match c {
            '<' => depth += 1,
            '>' if text[..at - 1].ends_with(['-', '=']) => (),
            '>' if depth == 1 => return Some(at),
            '>' => depth -= 1,
            _ => (),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn ends(text: &str, stops: &[&str], operand: &str) {
        assert_eq!(&text[..operand_len(text, stops)], operand, "{text}");
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
    fn brackets_close_around_quotes_and_lifetimes() {
        for (text, closes) in [
            ("(<[&'a u8] as T>::f) > 5", "(<[&'a u8] as T>::f)"),
            ("(f[p == \")\"]) > 5", "(f[p == \")\"])"),
            ("(a<*) > 5", "(a<*)"),
            ("(operator()) > 5", "(operator())"),
            ("(f[c == '\\'' || c == ')']) > 1", "(f[c == '\\'' || c == ')'])"),
            (r"(a\)b) > 5", r"(a\)b)"),
            ("(fn(&'a u8, &'b u8)) > 5", "(fn(&'a u8, &'b u8))"),
        ] {
            assert_eq!(closed(text).map(|len| &text[..len]), Some(closes), "{text}");
        }
        assert_eq!(closed("(a > 5"), None);
    }

    #[test]
    fn brackets_that_nobody_closes_take_no_long_time() {
        for (open, close) in [("<", "("), ("[", ")"), ("(", "\""), ("<(", ">"), ("[<{", ")>")] {
            let text = format!("{}{}", open.repeat(4000), close.repeat(4000));
            assert_eq!(operand_len(&text, &["for"]), text.len(), "{open} {close}");
        }
        let deep = |depth| format!("{}{}", "(".repeat(depth), ")".repeat(depth));
        assert_eq!((closed(&deep(MOST_OPEN)), closed(&deep(MOST_OPEN + 1))), (Some(2 * MOST_OPEN), None));
    }

    proptest::proptest! {
        #[test]
        fn any_text_has_an_operand(text in r#"([a ;<>()"'\\é-]|\[|\]|for|at most){0,40}"#) {
            let len = operand_len(&text, &["for", "at most"]);
            proptest::prop_assert!(text.is_char_boundary(len));
            proptest::prop_assert!(closed(&text).is_none_or(|len| text.is_char_boundary(len)));
        }
    }
}
