//! The expressions in a text: predicates in brackets at the ends of selectors, and aggregations in
//! the place of consumers. Pure.
//!
//! ```text
//! net::handle[bytes > 1024 && peer ~ "10.*"]=sum(bytes) by(path), b=count
//! net::handle                               =sum                , b=count     for the selector's parser
//! ```
//! The rest is cut as if they were spaces, so selectors need not know them.

use std::ops::Range;

use super::table::AGGREGATIONS;
use crate::expression::closing;
use crate::syntax::ParseError;

/// A text without its expressions, and where they are.
pub(super) struct Masked {
    /// As long as the text, with spaces in place of expressions.
    pub(super) text: String,
    /// The inside of the brackets of each predicate.
    pub(super) predicates: Vec<Range<usize>>,
    /// Each aggregation, with its name.
    pub(super) aggregations: Vec<Range<usize>>,
}

/// Finds the expressions in a text.
pub(super) fn masked(text: &str) -> Result<Masked, ParseError> {
    let (mut predicates, mut aggregations) = (Vec::new(), Vec::new());
    let mut masked = text.as_bytes().to_vec();
    let bytes = text.as_bytes();
    let (mut at, mut depth) = (0, 0_usize);
    while at < bytes.len() {
        let before = &text.as_bytes()[..at];
        match bytes[at] {
            b'\\' => at += 1,
            b'<' | b'(' | b'{' if !ends_in_operator(before) => depth += 1,
            b'>' | b')' | b'}' if !ends_in_operator(before) && !before.ends_with(b"-") => {
                depth = depth.saturating_sub(1);
            }
            b'[' if depth == 0 && begins_predicate(before, &bytes[at + 1..]) => {
                let Some(end) = closing(text, at + 1) else {
                    let problem = "the `]` of this predicate is missing".to_owned();
                    return Err(ParseError { at, problem });
                };
                if !text[end + 1..].trim_start().starts_with('=') {
                    let problem = "a predicate stands at the end of a selector, before `=`, and is about all its \
                                   probes; write `a[n > 1]=count, b=count` for some of them";
                    return Err(ParseError { at, problem: problem.to_owned() });
                }
                predicates.push(at + 1..end);
                masked[at..=end].fill(b' ');
                at = end;
            }
            b'=' if depth == 0 => {
                if let Some((name, range)) = aggregation(text, at + 1) {
                    masked[name..range.end].fill(b' ');
                    at = range.end - 1;
                    aggregations.push(range);
                }
            }
            b',' if depth != 0 && text[at + 1..].trim_start().starts_with("when ") => depth = 0,
            _ => (),
        }
        at += 1;
    }
    let text = String::from_utf8(masked).unwrap_or_else(|_| text.to_owned());
    Ok(Masked { text, predicates, aggregations })
}

fn ends_in_operator(before: &[u8]) -> bool {
    let symbols = before.iter().rev().take(2).take_while(|byte| b"<>=-&".contains(byte)).count();
    before[..before.len() - symbols].ends_with(b"operator")
}

/// Returns whether a bracket begins a predicate. Those of a path begin a segment, or follow the
/// word `operator`.
fn begins_predicate(before: &[u8], after: &[u8]) -> bool {
    let before = before.trim_ascii_end();
    let begins_segment = before.last().is_none_or(|last| b":,!&*/".contains(last) && !before.ends_with(b"*"));
    // C++ has tags after names: `f[abi:cxx11]`.
    let is_tag = after.starts_with(b"abi:");
    !begins_segment && !is_tag && !before.ends_with(b"operator") && after.first() != Some(&b']')
}

/// Returns the end of the name, and the place, of the aggregation that begins here.
fn aggregation(text: &str, at: usize) -> Option<(usize, Range<usize>)> {
    let start = text.len() - text[at..].trim_start().len();
    let rest = &text[start..];
    let (name, takes_value) = AGGREGATIONS.iter().map(|row| row.name).find_map(|name| {
        let after = rest.strip_prefix(name)?;
        let is_whole = !after.starts_with(|c: char| c.is_alphanumeric() || c == '_' || c == '-' || c == ':');
        is_whole.then_some((name, !matches!(name, "count" | "latency")))
    })?;
    let mut end = start + name.len();
    let name_end = end;
    if takes_value {
        let open = text.len() - text[end..].trim_start().len();
        if text[open..].starts_with('(') {
            end = matching(text, open);
        }
    }
    let after = text[end..].trim_start();
    let by = after.strip_prefix("by").map(str::trim_start).filter(|rest| rest.starts_with('('));
    if let Some(keys) = by {
        end = matching(text, text.len() - keys.len());
    } else if !takes_value {
        return None;
    }
    Some((name_end, start..end))
}

/// Returns the byte after the bracket that closes the one at `open`; of a text without one, its
/// end.
fn matching(text: &str, open: usize) -> usize {
    let (mut depth, mut quote, mut is_escaped) = (0_usize, None, false);
    for (at, c) in text[open..].char_indices() {
        match (quote, c) {
            _ if is_escaped => is_escaped = false,
            (Some(_), '\\') => is_escaped = true,
            (Some(quoted), c) if c == quoted => quote = None,
            (None, '"' | '\'') => quote = Some(c),
            (None, '(') => depth += 1,
            (None, ')') => {
                depth -= 1;
                if depth == 0 {
                    return open + at + 1;
                }
            }
            _ => (),
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::masked;

    #[track_caller]
    fn found(text: &str) -> (Vec<&str>, Vec<&str>) {
        let masked = masked(text).unwrap();
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
            // Brackets of paths.
            ("<[u8] as T>::f=count", &[], &[]),
            ("geo::operator[]=count", &[], &[]),
            ("[T]::f=count", &[], &[]),
            ("f[abi:cxx11](int)=count, @src/[id].rs=count", &[], &[]),
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
            let error = masked(text).map(|_| ()).unwrap_err();
            assert!(error.at == at && error.problem.starts_with(problem), "{text}: {error:?}");
        }
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_masked_or_a_mistake(text in r#"([a-z=,:<>(){}"'\\é -]|\[|\]|=sum\(|by\(|operator){0,24}"#) {
            match masked(&text) {
                Ok(masked) => proptest::prop_assert_eq!(masked.text.len(), text.len()),
                Err(error) => proptest::prop_assert!(text.is_char_boundary(error.at)),
            }
        }
    }
}
