//! Globs over paths whose segments are separated by `::` outside of brackets (probes) or by `/` (files).

use super::nesting::{Escapes, Mark, is_nested, marks, segments};

/// A parsed glob.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Glob {
    segments: Vec<Segment>,
    separator: &'static str,
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum Segment {
    /// `**`: any number of segments, also none.
    Any,
    /// A segment without wildcards.
    Exact(String),
    /// A segment with `*` in it: the literal parts between them.
    Parts(Vec<String>),
}

/// What is left of a path: `None` of it once its last segment was taken.
#[derive(Clone, Copy)]
enum Rest<'a> {
    /// Text without brackets, and what separates its segments.
    Plain(&'a str, &'static str),
    /// Segments of a path with brackets.
    Split(&'a [&'a str]),
}

impl<'a> Rest<'a> {
    /// The first segment, and what follows it.
    fn split(self) -> (&'a str, Option<Self>) {
        match self {
            Self::Plain(text, separator) => match text.split_once(separator) {
                Some((head, tail)) => (head, Some(Self::Plain(tail, separator))),
                None => (text, None),
            },
            Self::Split([last]) => (last, None),
            Self::Split(segments) => (segments[0], Some(Self::Split(&segments[1..]))),
        }
    }
}

impl Glob {
    /// Over a file's path: nothing nests, nothing is escaped.
    pub(super) fn file(text: &str) -> Self {
        let segments = text.split('/').map(|text| Segment::new(text, |_| false)).collect();
        Self { segments, separator: "/" }
    }

    /// Over a probe's path.
    pub(super) fn path(text: &str) -> Self {
        let marks = marks(text, Escapes::Read);
        let segments = segments(text, &marks)
            .into_iter()
            .map(|range| {
                let marks = &marks[range.clone()];
                let mut kept = Vec::with_capacity(marks.len());
                let mut is_literal = Vec::with_capacity(marks.len());
                for (byte, mark) in text[range].bytes().zip(marks).filter(|(_, mark)| **mark != Mark::Escape)
                {
                    kept.push(byte);
                    is_literal.push(*mark == Mark::Escaped);
                }
                // Whole characters were dropped.
                let text = String::from_utf8(kept).unwrap_or_default();
                Segment::new(&text, |at| is_literal[at])
            })
            .collect();
        Self { segments, separator: "::" }
    }

    /// Whether every path matches.
    pub(super) fn is_everything(&self) -> bool {
        self.segments == [Segment::Any]
    }

    /// Whether the whole path matches.
    pub(super) fn matches(&self, path: &str) -> bool {
        if self.separator == "::" && is_nested(path) {
            let ranges = segments(path, &marks(path, Escapes::None));
            let split: Vec<&str> = ranges.into_iter().map(|range| &path[range]).collect();
            Self::rest(&self.segments, Rest::Split(&split))
        } else {
            Self::rest(&self.segments, Rest::Plain(path, self.separator))
        }
    }

    /// Whether the path, or an end of it that begins at a segment, matches.
    pub(super) fn matches_end(&self, path: &str) -> bool {
        let mut rest = Some(path);
        while let Some(path) = rest {
            if self.matches(path) {
                return true;
            }
            rest = path.split_once(self.separator).map(|(_, rest)| rest);
        }
        false
    }

    /// Matches segment by segment. After a `**` fails to match at one place, the next is tried; an earlier
    /// `**` need not be tried again, so it is quadratic at worst.
    fn rest(mut segments: &[Segment], path: Rest<'_>) -> bool {
        let mut path = Some(path);
        let mut retry: Option<(&[Segment], Rest<'_>)> = None;
        loop {
            if let Some((Segment::Any, later)) = segments.split_first() {
                let Some(at) = path else { return later.iter().all(|segment| *segment == Segment::Any) };
                if later.is_empty() {
                    return true;
                }
                segments = later;
                retry = Some((later, at));
                continue;
            }
            let matched = match (segments.split_first(), path) {
                (None, None) => return true,
                (Some((segment, later)), Some(at)) => {
                    let (head, tail) = at.split();
                    segment.matches(head).then_some((later, tail))
                }
                _ => None,
            };
            match (matched, &mut retry) {
                (Some((later, tail)), _) => (segments, path) = (later, tail),
                (None, Some((start, at))) => {
                    let (_, Some(tail)) = at.split() else { return false };
                    *at = tail;
                    (segments, path) = (*start, Some(tail));
                }
                (None, None) => return false,
            }
        }
    }
}

impl Segment {
    /// From text, where a `*` is a wildcard unless it is said to be literal at its place.
    fn new(text: &str, is_literal: impl Fn(usize) -> bool) -> Self {
        let is_star = |at: usize| text.as_bytes()[at] == b'*' && !is_literal(at);
        let wildcards: Vec<usize> = (0..text.len()).filter(|at| is_star(*at)).collect();
        if text == "**" && wildcards.len() == 2 {
            return Self::Any;
        }
        if wildcards.is_empty() {
            return Self::Exact(text.to_owned());
        }
        let starts = [0].into_iter().chain(wildcards.iter().map(|at| at + 1));
        let ends = wildcards.iter().copied().chain([text.len()]);
        Self::Parts(starts.zip(ends).map(|(start, end)| text[start..end].to_owned()).collect())
    }

    fn matches(&self, text: &str) -> bool {
        match self {
            Self::Any => true,
            Self::Exact(exact) => exact == text,
            Self::Parts(parts) => {
                let [first, middle @ .., last] = parts.as_slice() else { return false };
                let Some(mut rest) = text.strip_prefix(first.as_str()) else { return false };
                for part in middle {
                    let Some(at) = rest.find(part.as_str()) else { return false };
                    rest = &rest[at + part.len()..];
                }
                rest.ends_with(last.as_str())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn matches(glob: &str, path: &str) -> bool {
        Glob::path(glob).matches(path)
    }

    #[test]
    fn one_star_stays_in_its_segment() {
        assert!(matches("a::*", "a::b") && matches("*::b", "a::b") && matches("a*c", "abc"));
        assert!(!matches("a::*", "a::b::c") && !matches("*", "a::b") && !matches("a*c", "ab"));
        assert!(matches("*a*b*", "xaxbx") && !matches("*a*b*", "xbxax"));
        assert!(!matches("ab*ba", "aba"), "the parts must not overlap");
    }

    #[test]
    fn two_stars_cross_segments() {
        assert!(matches("**", "a") && matches("**", "a::b::c"));
        assert!(matches("a::**", "a") && matches("a::**", "a::b::c"));
        assert!(matches("**::c", "c") && matches("**::c", "a::b::c") && !matches("**::c", "a::b"));
        assert!(matches("a::**::d", "a::d") && matches("a::**::d", "a::b::c::d"));
        assert!(matches("**::b::**::b", "a::b::c::b::b") && !matches("**::b::**::b", "a::b"));
    }

    #[test]
    fn a_star_matches_brackets_and_what_is_in_them() {
        assert!(matches("geo::Stack<*>::push", "geo::Stack<a::B>::push"));
        assert!(matches("geo::*::push", "geo::Stack<a::B>::push"));
        assert!(
            matches("**::push", "geo::Stack<a::B>::push")
                && matches("**::Stack<**>::*", "geo::Stack<a::B>::push")
        );
        assert!(matches("std::vector<int,*>::*", "std::vector<int,std::allocator<int>>::push_back"));
        assert!(
            !matches("geo::*", "geo::Stack<a::B>::push")
                && !matches("**::B>::push", "geo::Stack<a::B>::push")
        );
        assert!(matches("a::operator<", "a::operator<") && !matches("a::operator<", "a::operator<="));
        assert!(matches("a::operator*", "a::operator->") && matches("Stack<*", "Stack<a::B>"));
    }

    #[test]
    fn what_is_escaped_is_no_wildcard() {
        assert!(matches(r"a::operator\*", "a::operator*") && !matches(r"a::operator\*", "a::operator->"));
        assert!(matches(r"a::F<b\*,*>", "a::F<b*,c::d>") && !matches(r"a::F<b\*,*>", "a::F<b,c::d>"));
        assert!(matches(r"\*\*", "**") && !matches(r"\*\*", "a"));
    }

    #[test]
    #[cfg_attr(miri, ignore = "asks for speed")]
    fn hostile_globs_end_in_time() {
        let path = vec!["a"; 200].join("::");
        assert!(!matches(&format!("{}b", "**::a::".repeat(100)), &path));
    }

    /// The definition of matching, without any cleverness.
    fn reference(glob: &[&str], path: &[&str]) -> bool {
        match (glob.split_first(), path.split_first()) {
            (None, None) => true,
            (Some((&"**", later)), _) => {
                reference(later, path) || !path.is_empty() && reference(glob, &path[1..])
            }
            (Some((&"*", later)), Some((_, tail))) => reference(later, tail),
            (Some((segment, later)), Some((head, tail))) => segment == head && reference(later, tail),
            _ => false,
        }
    }

    proptest! {
        #[test]
        fn agrees_with_the_reference(
            glob in prop::collection::vec(prop::sample::select(vec!["a", "b", "*", "**"]), 1..6),
            path in prop::collection::vec(prop::sample::select(vec!["a", "b"]), 1..7),
        ) {
            prop_assert_eq!(matches(&glob.join("::"), &path.join("::")), reference(&glob, &path));
        }
    }
}
