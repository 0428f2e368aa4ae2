//! The expressions in a text: predicates in brackets at the ends of selectors, and aggregations in
//! the place of consumers. Pure.
//!
//! ```text
//! net::handle[bytes > 1024 && peer ~ "10.*"]=sum(bytes) by(path), b=count
//! net::handle                               =sum                , b=count     for the selector's parser
//! ```
//! The rest is cut as if they were spaces, so selectors need not know them.

use std::ops::Range;

use crate::ParseError;
use crate::aggregation::Function;
use crate::brackets::{closing, ends_in_operator};
use crate::selector::TextWords;

/// A text without its expressions, and where they are.
pub struct Blanked {
    /// As long as the text, with spaces in place of expressions.
    pub text: String,
    /// The inside of the brackets of each predicate.
    pub predicates: Vec<Range<usize>>,
    /// Each aggregation, with its name.
    pub aggregations: Vec<Range<usize>>,
}

/// Finds the expressions in a text.
pub fn blank_expressions(text: &str) -> Result<Blanked, ParseError> {
    let (mut predicates, mut aggregations) = (Vec::new(), Vec::new());
    let mut masked = text.as_bytes().to_vec();
    let mut words = TextWords::new(text);
    let mut at = 0;
    while let Some(c) = text[at..].chars().next() {
        let is_outside = words.is_outside(at);
        match c {
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
                masked[at..=end].fill(b' ');
                at = end;
            }
            '=' if is_outside => {
                if let Some((name, range)) = aggregation(text, at + 1) {
                    masked[name..range.end].fill(b' ');
                    at = range.end - 1;
                    aggregations.push(range);
                }
            }
            _ => (),
        }
        at += c.len_utf8();
    }
    let text = String::from_utf8(masked).unwrap_or_else(|_| text.to_owned());
    Ok(Blanked { text, predicates, aggregations })
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
    let (name, takes_value) = Function::ALL.map(Function::name).into_iter().find_map(|name| {
        let after = rest.strip_prefix(name)?;
        let is_whole = !after.starts_with(|c: char| c.is_alphanumeric() || c == '_' || c == '-' || c == ':');
        is_whole.then_some((name, !matches!(name, "count" | "latency")))
    })?;
    let mut end = start + name.len();
    let name_end = end;
    if takes_value {
        let open = text.len() - text[end..].trim_start().len();
        if text[open..].starts_with('(') {
            end = closing(&text[open..]).map_or(text.len(), |closer| open + closer + 1);
        }
    }
    let after = text[end..].trim_start();
    let by = after.strip_prefix("by").map(str::trim_start).filter(|rest| rest.starts_with('('));
    if let Some(keys) = by {
        end = closing(keys).map_or(text.len(), |closer| text.len() - keys.len() + closer + 1);
    } else if !takes_value {
        return None;
    }
    Some((name_end, start..end))
}

#[cfg(test)]
mod tests {
    use super::blank_expressions;

    #[track_caller]
    fn found(text: &str) -> (Vec<&str>, Vec<&str>) {
        let masked = blank_expressions(text).unwrap();
        assert_eq!(masked.text.len(), text.len());
        let of = |ranges: Vec<std::ops::Range<usize>>| ranges.into_iter().map(|it| &text[it]).collect();
        (of(masked.predicates), of(masked.aggregations))
    }

    #[test]
    fn expressions_are_found() {
        for (text, predicates, aggregations) in [
            ("a::b[n > 1]=count", &["n > 1"][..], &[][..]),
            ("a::* [ n==1, ] = count", &[" n==1, "], &[]),
            ("**[p ~ \"]=\"] = sum(n, m) by(a, b), b=count", &["p ~ \"]=\""], &["sum(n, m) by(a, b)"]),
            ("a=count by(path), b=count(all), c=latency", &[], &["count by(path)"]),
            ("a=sum, b=max(x)", &[], &["sum", "max(x)"]),
            ("a=min(len(\")\")) by(x)", &[], &["min(len(\")\")) by(x)"]),
            ("a[x<1]=latency by ( y ),b[y>2]=trace", &["x<1", "y>2"], &["latency by ( y )"]),
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
            let error = blank_expressions(text).map(|_| ()).unwrap_err();
            assert!(error.at == at && error.problem.starts_with(problem), "{text}: {error:?}");
        }
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_masked_or_a_mistake(text in r#"([a-z=,:<>(){}"'\\é -]|\[|\]|=sum\(|by\(|operator){0,24}"#) {
            match blank_expressions(&text) {
                Ok(masked) => proptest::prop_assert_eq!(masked.text.len(), text.len()),
                Err(error) => proptest::prop_assert!(text.is_char_boundary(error.at)),
            }
        }
    }
}
