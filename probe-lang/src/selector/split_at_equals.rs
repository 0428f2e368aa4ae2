//! The end of a term in a selector, and the consumer that is assigned to it: `a::b
//! kind=entry=count`.
//!
//! The text is cut in the same way as by the selector's parser, so commas in brackets or after a
//! backslash belong to the path. A `=` assigns unless it is part of the term: the one of a
//! [`TermKey`] such as `kind=`, one in brackets or after a backslash, or one in the name of an
//! operator. In `geo::operator===count` the last `=` assigns. Pure.

use super::nesting::{ByteRole, marks};
use super::path::is_in_operator;
use super::words::{TermKey, TextWords};
use crate::brackets::Reading;

/// One term of a text.
#[derive(PartialEq, Eq, Debug)]
pub struct SpecTerm {
    /// Byte offset of its end: a comma, or the end of the text.
    pub end: usize,
    /// Byte offset of the `=` that assigns, if there is one.
    pub equals: Option<usize>,
}

/// Returns the term that begins at `start` of the text, which `words` cuts.
pub fn split_at_equals(text: &str, words: &mut TextWords<'_>, start: usize) -> SpecTerm {
    let mut at = start;
    let mut equals = None;
    loop {
        at = text.len() - text[at..].trim_start().len();
        if text[at..].is_empty() || text[at..].starts_with(',') {
            return SpecTerm { end: at, equals };
        }
        if text[at..].starts_with('!') {
            at += 1;
            continue;
        }
        let part = words.part(at);
        // The text after the `=` belongs to the consumer. The last `=` assigns.
        equals = last_equals(part).map(|offset| at + offset).or(equals);
        at += part.len();
    }
}

/// Returns the last `=` that does not belong to the part itself.
fn last_equals(part: &str) -> Option<usize> {
    if part.starts_with('@') {
        return part.rfind('=');
    }
    let marks = marks(part, Reading::Selector);
    let at = part.rmatch_indices('=').map(|(at, _)| at).find(|at| marks[*at] == ByteRole::Outside)?;
    let ends_operator = part[at + 1..].is_empty() && is_in_operator(last_segment(&part[..at]));
    (TermKey::named(&part[..at]).is_none() && !ends_operator).then_some(at)
}

fn last_segment(path: &str) -> &str {
    path.rsplit("::").next().unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_equals_sign_that_assigns() {
        for (text, end, equals) in [
            ("a::b=count", 10, Some(4)),
            ("a::b", 4, None),
            ("a = count, b", 9, Some(2)),
            ("!a kind=entry", 13, None),
            ("!kind=entry=count", 17, Some(11)),
            ("! group=net", 11, None),
            ("group=net=count", 15, Some(9)),
            ("a=", 2, Some(1)),
            ("@a.rs:3=count", 13, Some(7)),
            ("F<a,b=c>::d=count,e", 17, Some(11)),
            (r"geo::operator\,=count,e", 21, Some(15)),
            ("geo::operator==, b=count", 15, None),
            ("geo::operator=, b=count", 14, None),
            ("geo::operator<=, b=count", 15, None),
            ("geo::operator===count", 21, Some(15)),
            ("geo::operator<=>=count", 22, Some(16)),
            (r"a\=b", 4, None),
        ] {
            assert_eq!(
                split_at_equals(text, &mut TextWords::new(text), 0),
                SpecTerm { end, equals },
                "{text}"
            );
        }
        for key in TermKey::ALL.map(TermKey::name) {
            let (alone, assigning) = (format!("{key}=x"), format!("{key}=x=count"));
            let equals =
                [&alone, &assigning].map(|it| split_at_equals(it, &mut TextWords::new(it), 0).equals);
            assert_eq!(equals, [None, Some(key.len() + 2)], "{key}");
        }
        let text = "a, b=count";
        assert_eq!(
            split_at_equals(text, &mut TextWords::new(text), 2),
            SpecTerm { end: 10, equals: Some(4) }
        );
    }
}
