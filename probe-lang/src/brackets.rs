//! Brackets and their partners, in paths, selectors and expressions.
//!
//! A bracket closes the last open one of its kind. Brackets that are open inside of that pair, and
//! those without a partner, are characters: `operator<`, `operator->`, `a<*`. So each text has one
//! reading, and none is malformed.
//!
//! ```text
//! <         opens in paths and selectors, but not right after the word `operator`
//! >         closes a `<` that is the last opener; is a character in `->` and right after `operator`
//! \         in selectors and expressions: takes the next character as it is
//! "(" '('   in expressions: a text, or a character
//! ```
//! Pure, linear.

use std::ops::ControlFlow;

/// The kind of text that brackets are read in.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reading {
    /// In a path, without escapes.
    Path,
    /// In a selector, whose backslashes escape.
    Selector,
    /// In a rule, or an expression, which has quotes, and comparisons in place of angle brackets.
    Expression,
}

/// A finding of a scan, with its places.
#[derive(Clone, Copy)]
pub(crate) enum Found {
    /// A pair: where it opens and closes. A pair comes after the pairs inside it.
    Pair(usize, usize),
    /// A bracket without a partner.
    Stray(usize),
    /// A backslash, and the end of the character that it escapes.
    Escape(usize, usize),
}

/// Brackets that may be open at once in an expression. More close nothing, so that looking for the
/// partner of each of many open brackets takes a short time.
const MOST_OPEN: usize = 64;

/// Open brackets that wait for their partners, and the number of open round, square and curly ones.
#[derive(Default)]
struct Open {
    stack: Vec<usize>,
    round: usize,
    square: usize,
    curly: usize,
}

impl Open {
    fn count(&mut self, bracket: u8) -> Option<&mut usize> {
        match bracket {
            b'(' => Some(&mut self.round),
            b'[' => Some(&mut self.square),
            b'{' => Some(&mut self.curly),
            _ => None,
        }
    }

    fn push(&mut self, at: usize, bytes: &[u8]) {
        self.stack.push(at);
        self.count(bytes[at]).into_iter().for_each(|count| *count += 1);
    }

    fn pop(&mut self, bytes: &[u8]) -> Option<usize> {
        let at = self.stack.pop()?;
        self.count(bytes[at]).into_iter().for_each(|count| *count -= 1);
        Some(at)
    }

    /// Returns the last open bracket of this kind. Looks only at brackets that closing it removes,
    /// or at none if no such bracket is open.
    fn last(&mut self, bracket: u8, bytes: &[u8]) -> Option<usize> {
        self.count(bracket).filter(|count| **count != 0)?;
        self.stack.iter().rev().copied().find(|opener| bytes[*opener] == bracket)
    }
}

/// Finds the brackets of a text, until `found` breaks.
pub(crate) fn scan(
    text: &str,
    reading: Reading,
    mut found: impl FnMut(Found) -> ControlFlow<()>,
) -> ControlFlow<()> {
    let bytes = text.as_bytes();
    let has_angles = reading != Reading::Expression;
    let mut open = Open::default();
    let mut at = 0;
    while at < bytes.len() {
        let opener = match bytes[at] {
            b'\\' if reading != Reading::Path => {
                let end = at + 1 + text[at + 1..].chars().next().map_or(0, char::len_utf8);
                found(Found::Escape(at, end))?;
                at = end;
                continue;
            }
            b'"' | b'\'' if !has_angles => {
                at += quoted_len(&text[at..]).unwrap_or(1);
                continue;
            }
            b'<' | b'>' if !has_angles || ends_in_operator(&text[..at]) => None,
            b'>' if at > 0 && bytes[at - 1] == b'-' => None,
            b'<' | b'(' | b'[' | b'{' => {
                if !has_angles && open.stack.len() == MOST_OPEN {
                    return ControlFlow::Break(());
                }
                open.push(at, bytes);
                None
            }
            b'>' => open.stack.last().copied().filter(|opener| bytes[*opener] == b'<'),
            b')' => open.last(b'(', bytes),
            b']' => open.last(b'[', bytes),
            b'}' => open.last(b'{', bytes),
            _ => None,
        };
        if let Some(opener) = opener {
            while let Some(skipped) = open.pop(bytes).filter(|skipped| *skipped != opener) {
                found(Found::Stray(skipped))?;
            }
            found(Found::Pair(opener, at))?;
        } else if matches!(bytes[at], b')' | b']') {
            found(Found::Stray(at))?;
        }
        at += 1;
    }
    open.stack.into_iter().try_for_each(|at| found(Found::Stray(at)))
}

/// Returns the place of the bracket that closes the one at the beginning of an expression.
pub fn closing(text: &str) -> Option<usize> {
    let mut closer = None;
    let _ = scan(text, Reading::Expression, |found| match found {
        Found::Pair(0, at) => {
            closer = Some(at);
            ControlFlow::Break(())
        }
        Found::Stray(0) => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    });
    closer
}

/// Returns the length of a text in `"`, or of one character in `'`. Any other quote, such as that
/// of a lifetime, is a character.
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

/// Returns whether the last word is `operator`.
pub fn ends_in_operator(path: &str) -> bool {
    let before = path.strip_suffix("operator").map(|before| before.chars().next_back());
    before.is_some_and(|before| before.is_none_or(|before| !before.is_alphanumeric() && before != '_'))
}

#[cfg(test)]
mod tests {
    use super::*;

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
            assert_eq!(closing(text).map(|at| &text[..=at]), Some(closes), "{text}");
        }
        assert_eq!(closing("(a > 5"), None);
        let deep = |depth| format!("{}{}", "(".repeat(depth), ")".repeat(depth));
        let closers = [MOST_OPEN, MOST_OPEN + 1].map(|depth| closing(&deep(depth)));
        assert_eq!(closers, [Some(2 * MOST_OPEN - 1), None]);
    }

    proptest::proptest! {
        #[test]
        fn a_partner_is_a_bracket(text in r#"[(\[{][a ;<>()"'\\é-]{0,40}"#) {
            let closer = closing(&text).map(|at| text.as_bytes()[at]);
            let partner = match text.as_bytes()[0] {
                b'(' => b')',
                b'[' => b']',
                _ => b'}',
            };
            proptest::prop_assert!(closer.is_none_or(|closer| closer == partner));
        }
    }
}
