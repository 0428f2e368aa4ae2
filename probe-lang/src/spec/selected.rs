//! A selector, and the predicate in brackets that may follow it.

use super::blank_expressions;
use crate::ParseError;
use crate::expression::Predicate;
use crate::selector::{Selector, TextWords, split_at_equals};

/// Parses a selector, and the predicate in brackets that may follow it.
///
/// # Errors
/// A mistake in the text, also if it assigns a consumer.
pub fn selected(text: &str) -> Result<(Selector, Option<Predicate>), ParseError> {
    let blanked = blank_expressions(text)?;
    let range = blanked.predicates.into_iter().next();
    let end = range.as_ref().map_or(text.len(), |range| range.start - 1);
    let (selector, mut words, mut at) = (&text[..end], TextWords::new(&text[..end]), 0);
    while at <= end {
        let term = split_at_equals(selector, &mut words, at);
        if term.equals.is_some() {
            return Err(ParseError::new("a selector stands here, and no consumer: `db::*`"));
        }
        at = term.end + 1;
    }
    let selector = Selector::parse(selector.trim_end()).map_err(|error| error.parse_error())?;
    let predicate = range.map(|range| {
        text[range.clone()].parse().map_err(|error: ParseError| error.after(range.start).within(text))
    });
    Ok((selector, predicate.transpose()?))
}
