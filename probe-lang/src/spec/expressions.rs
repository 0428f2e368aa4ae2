//! The parts of a spec that are not cut as selectors are: predicates in brackets at the ends of
//! selectors, consumers with brackets, and triggers. Pure.
//!
//! ```text
//! net::handle[bytes > 1024 && peer ~ "10.*"]=sum(bytes) by(path), b=count
//! net::handle                               =sum                , b=count     for the selector's parser
//! ```
//! The rest is cut as if they were spaces, so selectors need not know them.

use std::mem;
use std::ops::Range;

use super::CallTrigger;
use crate::aggregation::Function;
use crate::brackets::{closing, ends_in_operator};
use crate::error::ParseError;
use crate::rules::begins_when;
use crate::selector::{TextWords, is_key};

/// A text without these parts, and where they are.
pub(super) struct Blanked {
    /// As long as the text, with spaces in place of these parts.
    pub(super) text: String,
    /// The inside of the brackets of each predicate.
    pub(super) predicates: Vec<Range<usize>>,
    /// Each consumer with brackets, from its name on.
    pub(super) consumers: Vec<Range<usize>>,
    /// Each trigger, and its place from the end of the item before.
    pub(super) triggers: Vec<(CallTrigger, Range<usize>)>,
}

/// Finds these parts in a text; triggers only if it may have any.
pub(super) fn blank_expressions(text: &str, may_trigger: bool) -> Result<Blanked, ParseError> {
    let (mut predicates, mut consumers, mut triggers) = (Vec::new(), Vec::new(), Vec::new());
    let mut blanked = text.as_bytes().to_vec();
    let mut words = TextWords::new(text);
    let (mut at, mut begins_item) = (0, may_trigger);
    while let Some(c) = text[at..].chars().next() {
        if mem::take(&mut begins_item) && begins_when(&text[at..]) {
            let start = text.len() - text[at..].trim_start().len();
            let (trigger, end) = CallTrigger::parse(text, start)?;
            blanked[at..end].fill(b' ');
            triggers.push((trigger, at..end));
            words = TextWords::new(text);
            at = end;
            continue;
        }
        let is_outside = words.is_outside(at);
        match c {
            ',' => begins_item = may_trigger && is_outside,
            '[' if is_outside && begins_predicate(&text[..at], &text[at + 1..]) => {
                let Some(end) = closing(&text[at..]).map(|closer| at + closer) else {
                    let problem = "the `]` of this predicate is missing".to_owned();
                    return Err(ParseError { at, problem });
                };
                let after = text[end + 1..].trim_start();
                if !after.is_empty() && !after.starts_with('=') {
                    let problem = "a predicate stands at the end of a selector, before `=`, and is about all its \
                                   probes; write `a[n > 1]=count, b=count` for some of them";
                    return Err(ParseError { at, problem: problem.to_owned() });
                }
                if text[at + 1..end].contains(']') {
                    // It is in quotes, which a selector does not have.
                    words = TextWords::new(text);
                }
                predicates.push(at + 1..end);
                blanked[at..=end].fill(b' ');
                at = end + 1;
                continue;
            }
            '=' if is_outside && !is_key(&text[..at]) => {
                let found = aggregation(text, at + 1).or_else(|| with_options(text, at + 1));
                if let Some((name, range)) = found {
                    blanked[name..range.end].fill(b' ');
                    at = range.end;
                    consumers.push(range);
                    continue;
                }
            }
            _ => (),
        }
        at += c.len_utf8();
    }
    let text = String::from_utf8(blanked).unwrap_or_else(|_| text.to_owned());
    Ok(Blanked { text, predicates, consumers, triggers })
}

/// Returns whether the text of a consumer is an aggregation.
pub(super) fn is_aggregation(text: &str) -> bool {
    aggregation(text, 0).is_some()
}

/// Returns the end of the name, and the place, of the consumer with options that begins here. They
/// end at the first `)`, and the consumer with them.
fn with_options(text: &str, at: usize) -> Option<(usize, Range<usize>)> {
    let start = text.len() - text[at..].trim_start().len();
    let is_part = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-');
    let name = start + text[start..].find(|c| !is_part(c)).filter(|len| *len != 0)?;
    let closer = name + text[name..].strip_prefix('(')?.find(')')? + 1;
    let after = text[closer + 1..].trim_start();
    (after.is_empty() || after.starts_with(',')).then_some((name, start..closer + 1))
}

/// Returns whether a bracket begins a predicate. Those of a path begin a segment, follow the word
/// `operator`, or hold a tag of C++: `f[abi:cxx11]`. No predicate has a colon between two words.
fn begins_predicate(before: &str, after: &str) -> bool {
    let before = before.trim_ascii_end();
    let before_angles = before.trim_end_matches('<');
    let begins_segment = before.is_empty()
        || before.ends_with([':', ',', '!', '&', '/', '('])
        || before_angles != before && !ends_in_operator(before_angles);
    let is_word = |text: &str| !text.is_empty() && text.chars().all(|c| c.is_alphanumeric() || c == '_');
    let tag = after.split_once(']').and_then(|(inside, _)| inside.split_once(':'));
    let is_tag = tag.is_some_and(|(key, value)| is_word(key) && is_word(value));
    !begins_segment && !is_tag && !ends_in_operator(before) && !after.starts_with(']')
}

/// Returns the end of the name, and the place, of the aggregation that begins here.
fn aggregation(text: &str, at: usize) -> Option<(usize, Range<usize>)> {
    let start = text.len() - text[at..].trim_start().len();
    let rest = &text[start..];
    let function = Function::ALL.into_iter().find(|function| {
        let Some(after) = rest.strip_prefix(function.name()) else { return false };
        !after.starts_with(|c: char| c.is_alphanumeric() || c == '_' || c == '-' || c == ':')
    })?;
    let mut end = start + function.name().len();
    let name_end = end;
    if function.has_brackets() {
        let open = text.len() - text[end..].trim_start().len();
        if text[open..].starts_with('(') {
            end = closing(&text[open..]).map_or(text.len(), |closer| open + closer + 1);
        }
    }
    let after = text[end..].trim_start();
    let by = after.strip_prefix("by").map(str::trim_start).filter(|rest| rest.starts_with('('));
    if let Some(keys) = by {
        end = closing(keys).map_or(text.len(), |closer| text.len() - keys.len() + closer + 1);
    } else if function.needs_keys() {
        return None;
    }
    Some((name_end, start..end))
}

#[cfg(test)]
mod tests {
    use super::blank_expressions;

    #[track_caller]
    fn found(text: &str) -> (Vec<&str>, Vec<&str>) {
        let blanked = blank_expressions(text, true).unwrap();
        assert_eq!(blanked.text.len(), text.len());
        let of = |ranges: Vec<std::ops::Range<usize>>| ranges.into_iter().map(|it| &text[it]).collect();
        (of(blanked.predicates), of(blanked.consumers))
    }

    #[test]
    fn expressions_are_found() {
        for (text, predicates, aggregations) in [
            ("a::b[n > 1]=count", &["n > 1"][..], &[][..]),
            ("a::* [ n==1, ] = count", &[" n==1, "], &[]),
            ("**[p ~ \"]=\"] = sum(n, m) by(a, b), b=count", &["p ~ \"]=\""], &["sum(n, m) by(a, b)"]),
            ("a=count by(path), b=count(all), c=latency", &[], &["count by(path)", "count(all)"]),
            ("a=x(b = 1, c), kind=entry = y(), group=f(int), b=count", &[], &["x(b = 1, c)", "y()"]),
            ("a=sum, b=max(x)", &[], &["sum", "max(x)"]),
            ("a=min(len(\")\")) by(x)", &[], &["min(len(\")\")) by(x)"]),
            ("a[x<1]=latency by ( y ),b[y>2]=trace", &["x<1", "y>2"], &["latency by ( y )"]),
            (
                "a=until(b kind=exit, c by(x)) by(y), d=held",
                &[],
                &["until(b kind=exit, c by(x)) by(y)", "held"],
            ),
            ("geo::operator<[n > 1]=count", &["n > 1"], &[]),
            ("geo::operator<<[n > 1]=count", &["n > 1"], &[]),
            // A bracket without a partner is a character.
            ("a<*[n > 1]=sum(n)", &["n > 1"], &["sum(n)"]),
            ("a<*[p==\"](\"]=sum(n),b[m>1]=count", &["p==\"](\"", "m>1"], &["sum(n)"]),
            // Brackets of paths.
            ("<[u8] as T>::f=count", &[], &[]),
            ("geo::operator[]=count", &[], &[]),
            ("[T]::f=count", &[], &[]),
            ("f[abi:cxx11](int)=count, @src/[id].rs=count", &[], &[]),
            ("f[abi:cxx11]=count, f[abi:v2][abi == 1]=count", &["abi == 1"], &[]),
            ("F<[T; 3]>::f=count", &[], &[]),
            ("summary::sum=count", &[], &[]),
        ] {
            assert_eq!(found(text), (predicates.to_vec(), aggregations.to_vec()), "{text}");
        }
    }

    #[test]
    fn a_predicate_stands_at_the_end_of_a_selector() {
        for (text, at, problem) in [
            ("a[n > 1, b=count", 1, "the `]` of this predicate is missing"),
            ("a[n > 1], b=count", 1, "a predicate stands at the end of a selector"),
        ] {
            let error = blank_expressions(text, true).map(|_| ()).unwrap_err();
            assert!(error.at == at && error.problem.starts_with(problem), "{text}: {error:?}");
        }
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_blanked_or_a_mistake(text in r#"([a-z=,:<>(){}"'\\é -]|\[|\]|=sum\(|by\(|operator){0,24}"#) {
            match blank_expressions(&text, true) {
                Ok(blanked) => proptest::prop_assert_eq!(blanked.text.len(), text.len()),
                Err(error) => proptest::prop_assert!(text.is_char_boundary(error.at)),
            }
        }
    }
}
