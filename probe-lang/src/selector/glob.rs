//! Globs over paths. `::` outside of brackets separates the segments of probes' paths, and `/`
//! those of files' paths.
//!
//! Cost: a match costs as much as comparing two strings if the glob has no wildcards, if it is like
//! `a::b::**`, or if the path does not begin or end as the glob requires, as for most paths.
//! Otherwise it costs at most the square of the path's segments, whatever the glob: paths shorter
//! than the glob requires are rejected at once.

use std::cell::OnceCell;
use std::ops::Range;

use super::nesting::{ByteRole, is_nested, marks, segments};
use super::segment::{Lead, PathSegment, end, lead, start};
use crate::brackets::Reading;

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Glob {
    segments: Vec<PathSegment>,
    separator: &'static str,
    /// Length of the shortest path that it may match.
    shortest: usize,
    /// Common beginning of all paths that it matches; `end` is their common end.
    pub(super) start: String,
    end: String,
    lead: Lead,
}

/// A path to match with globs. It is split at most once.
pub(super) struct Path<'a> {
    pub(super) text: &'a str,
    split: OnceCell<Vec<&'a str>>,
}

impl<'a> Path<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self { text, split: OnceCell::new() }
    }

    fn rest(&self, separator: &'static str) -> PathRest<'_> {
        if separator != "::" || !is_nested(self.text) {
            return PathRest::Plain(self.text, separator);
        }
        self.nested()
    }

    fn nested(&self) -> PathRest<'_> {
        PathRest::Split(self.split.get_or_init(|| {
            let ranges = segments(self.text, &marks(self.text, Reading::Path));
            ranges.into_iter().map(|range| &self.text[range]).collect()
        }))
    }
}

/// The rest of a path; `None` after its last segment.
#[derive(Clone, Copy)]
enum PathRest<'a> {
    /// Text without brackets, and the separator of its segments.
    Plain(&'a str, &'static str),
    /// Segments of a path with brackets.
    Split(&'a [&'a str]),
}

impl<'a> PathRest<'a> {
    /// Returns the first segment and the rest after it.
    fn split(self) -> (&'a str, Option<Self>) {
        match self {
            Self::Plain(text, separator) => match find(text, separator) {
                Some(at) => (&text[..at], Some(Self::Plain(&text[at + separator.len()..], separator))),
                None => (text, None),
            },
            Self::Split([last]) => (last, None),
            Self::Split(segments) => (segments[0], Some(Self::Split(&segments[1..]))),
        }
    }
}

/// Returns whether the text has this end. Comparing the last byte rejects most texts without a
/// call.
#[inline]
fn ends(text: &str, end: &str) -> bool {
    let last = end.as_bytes().last();
    last.is_none() || text.as_bytes().last() == last && text.ends_with(end)
}

/// Returns the place of the first separator. In short segments `str::find` spends more time on its
/// set-up than on searching.
fn find(text: &str, separator: &str) -> Option<usize> {
    let (bytes, separator) = (text.as_bytes(), separator.as_bytes());
    let mut from = 0;
    loop {
        let at = from + bytes[from..].iter().position(|byte| Some(byte) == separator.first())?;
        if bytes[at..].starts_with(separator) {
            return Some(at);
        }
        from = at + 1;
    }
}

impl Glob {
    /// Parses a glob over a file's path, or over its last segments. Files have no brackets or
    /// escapes.
    pub(super) fn file(text: &str) -> Self {
        let mut segments = vec![PathSegment::Any];
        segments.extend(text.split('/').map(|text| PathSegment::new(text, &|_| false)));
        Self::new(segments, "/")
    }

    /// Makes a glob over a probe's path, from the roles of its bytes and its segments.
    pub(super) fn path(text: &str, marks: &[ByteRole], segments: Vec<Range<usize>>) -> Self {
        let segments = segments.into_iter().map(|range| {
            let marks = &marks[range.clone()];
            let mut kept = Vec::with_capacity(marks.len());
            let mut is_literal = Vec::with_capacity(marks.len());
            for (byte, mark) in text[range].bytes().zip(marks).filter(|(_, mark)| **mark != ByteRole::Escape)
            {
                kept.push(byte);
                is_literal.push(*mark == ByteRole::Escaped);
            }
            // Only whole characters were dropped.
            let text = String::from_utf8(kept).unwrap_or_default();
            PathSegment::new(&text, &|at| is_literal[at])
        });
        Self::new(segments.collect(), "::")
    }

    fn new(mut segments: Vec<PathSegment>, separator: &'static str) -> Self {
        // Two `**` in a row match the same as one.
        segments.dedup_by(|a, b| matches!((a, b), (PathSegment::Any, PathSegment::Any)));
        let lengths = segments.iter().filter_map(PathSegment::shortest);
        let (count, sum) = lengths.fold((0_usize, 0), |(count, sum), len| (count + 1, sum + len));
        let shortest = sum + separator.len() * count.saturating_sub(1);
        let (start, end) = (start(&segments, separator), end(&segments, separator));
        let lead = lead(&segments, separator);
        Self { segments, separator, shortest, start, end, lead }
    }

    /// Returns the only path that matches, if there is no wildcard.
    pub(super) fn only(&self) -> Option<String> {
        let exact = self.segments.iter().map(PathSegment::exact);
        Some(exact.collect::<Option<Vec<_>>>()?.join(self.separator))
    }

    /// Returns whether every path matches.
    #[inline]
    pub(super) fn is_any(&self) -> bool {
        matches!(self.segments[..], [PathSegment::Any])
    }

    /// Returns whether the whole path matches.
    #[inline]
    pub(super) fn matches(&self, path: &Path<'_>) -> bool {
        if self.is_any() {
            return true;
        }
        path.text.len() >= self.shortest
            && (self.start.is_empty() || path.text.starts_with(&self.start))
            && ends(path.text, &self.end)
            && self.matches_behind_lead(path)
    }

    /// Returns whether a path matches that is known to begin with `start`.
    fn matches_behind_lead(&self, path: &Path<'_>) -> bool {
        let Lead { count, len } = self.lead;
        let (later, text) = (&self.segments[count..], &path.text[len..]);
        if count == 0 || later.is_empty() {
            return Self::rest(&self.segments, Some(path.rest(self.separator)));
        }
        // No bracket is open here, so this separator ends a segment.
        let rest = match text.strip_prefix(self.separator) {
            None if text.is_empty() => None,
            None => return false,
            Some(_) if matches!(later, [PathSegment::Any]) => return true,
            Some(rest) if self.separator != "::" || !is_nested(rest) => {
                Some(PathRest::Plain(rest, self.separator))
            }
            Some(_) => return Self::rest(&self.segments, Some(path.nested())),
        };
        Self::rest(later, rest)
    }

    /// Matches segment by segment. If the segments after a `**` fail to match at one place, the
    /// next place is tried. An earlier `**` need not be tried again, so the cost is at most
    /// quadratic.
    fn rest(mut segments: &[PathSegment], mut path: Option<PathRest<'_>>) -> bool {
        let mut retry: Option<(&[PathSegment], PathRest<'_>)> = None;
        loop {
            if let Some((PathSegment::Any, later)) = segments.split_first() {
                let Some(at) = path else { return later.iter().all(|segment| *segment == PathSegment::Any) };
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

#[cfg(test)]
pub(super) mod tests {
    use std::cell::Cell;

    use super::*;
    use proptest::prelude::*;

    thread_local! {
        static STEPS: Cell<usize> = const { Cell::new(0) };
    }

    /// Counts a comparison of segments.
    pub(in crate::selector) fn count_a_step() {
        STEPS.set(STEPS.get() + 1);
    }

    /// Returns the number of segments that `of` compares on this thread.
    pub(in crate::selector) fn steps(of: impl FnOnce()) -> usize {
        let before = STEPS.get();
        of();
        STEPS.get() - before
    }

    fn matches(glob: &str, path: &str) -> bool {
        let marks = marks(glob, Reading::Selector);
        Glob::path(glob, &marks, segments(glob, &marks)).matches(&Path::new(path))
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
    fn paths_with_the_globs_beginning_may_have_other_segments() {
        assert!(matches("a::b::**", "a::b") && matches("a::b::**", "a::b::c<d::e>::f"));
        assert!(!matches("a::b::**", "a::bc::d") && !matches("a::b::**", "a::b:c"));
        assert!(matches("a::**::f", "a::c<d::e>::f") && !matches("a::**::e>", "a::c<d::e>"));
        assert!(matches("a::*", "a::c<d::e>") && !matches("a::*", "a::c<d::e>::f"));
        assert!(!matches("a<b::**", "a<b::c>::d") && matches("a<b::**", "a<b::c"));
        assert!(matches("a<b>::**", "a<b>") && matches("a<b>::**", "a<b>::c"));
        assert!(!matches(r"a\:\:b::**", "a::b::c"), "an escaped separator is none");
        assert!(matches("a::**::b::*", "a::x::b::c") && !matches("a::b::**::c", "a::b::d"));
    }

    #[test]
    fn an_escaped_star_is_no_wildcard() {
        assert!(matches(r"a::operator\*", "a::operator*") && !matches(r"a::operator\*", "a::operator->"));
        assert!(matches(r"a::F<b\*,*>", "a::F<b*,c::d>") && !matches(r"a::F<b\*,*>", "a::F<b,c::d>"));
        assert!(matches(r"\*\*", "**") && !matches(r"\*\*", "a"));
    }

    #[test]
    fn globs_with_many_wildcards_cost_the_square_of_the_path_at_most() {
        let path = vec!["a"; 200].join("::");
        for (glob, most) in [
            ("**::a::".repeat(100) + "b*", 200 * 2),
            ("**::a::a::a::a::".repeat(40) + "b*", 200 * 5),
            (format!("**::{}b*", "a::".repeat(99)), 200 * 100),
            // The glob is too long for this path.
            ("**::a::".repeat(10_000) + "b*", 0),
            ("*::".repeat(10_000) + "b*", 0),
            ("**::".repeat(10_000) + "b*", 200),
            // The path has another beginning or end.
            ("b::**::a::".repeat(20) + "*", 0),
            ("**::a::".repeat(20) + "*b", 0),
        ] {
            let steps = steps(|| assert!(!matches(&glob, &path)));
            assert!(steps <= most, "{steps} of {most}");
        }
    }

    #[test]
    fn files_match_from_any_folder_on() {
        let matches = |glob: &str, path: &str| Glob::file(glob).matches(&Path::new(path));
        assert!(matches("b.rs", "b.rs") && matches("b.rs", "/x/a/b.rs") && matches("a/*.rs", "/x/a/b.rs"));
        assert!(matches("/x/**", "/x/a/b.rs") && matches("x/**", "/x/a/b.rs"));
        assert!(!matches("b.rs", "/x/ab.rs") && !matches("x/b.rs", "/x/a/b.rs") && !matches("/a/*", "x/a/b"));
        assert!(matches("a<b/c", "x/a<b/c"), "nothing nests");
    }

    /// The definition of matching in its simplest form.
    fn reference(glob: &[&str], path: &[&str]) -> bool {
        match (glob.split_first(), path.split_first()) {
            (None, None) => true,
            (Some((&"**", later)), _) => {
                reference(later, path) || !path.is_empty() && reference(glob, &path[1..])
            }
            (Some((segment, later)), Some((head, tail))) => {
                let is_same = segment.split_once('*').map_or(segment == head, |(start, end)| {
                    head.strip_prefix(start).is_some_and(|rest| rest.ends_with(end))
                });
                is_same && reference(later, tail)
            }
            _ => false,
        }
    }

    proptest! {
        #[test]
        fn agrees_with_the_reference(
            glob in prop::collection::vec(
                prop::sample::select(vec!["a", "b", "*", "**", "a*", "*b", "a*b"]),
                1..6,
            ),
            path in prop::collection::vec(prop::sample::select(vec!["a", "b", "ab", "<a::b>"]), 1..7),
        ) {
            prop_assert_eq!(matches(&glob.join("::"), &path.join("::")), reference(&glob, &path));
        }
    }
}
