//! The segments of a glob, and the checks they allow on a path before it is split.

use super::nesting::is_nested;
use crate::glob;

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum PathSegment {
    /// `**`: any number of segments, or none.
    Any,
    /// A segment without wildcards.
    Exact(String),
    /// A segment with `*`.
    Wild {
        /// The pattern, for [`glob::matches`].
        pattern: String,
        /// The text before the first `*`.
        start: String,
        /// The text after the last `*`.
        end: String,
        /// Length of the shortest text that matches.
        shortest: usize,
    },
}

impl PathSegment {
    /// Parses a segment. A `*` is a wildcard unless `is_literal` returns true for its place.
    pub(super) fn new(text: &str, is_literal: &dyn Fn(usize) -> bool) -> Self {
        let is_star = |at: &usize| text.as_bytes()[*at] == b'*' && !is_literal(*at);
        let wildcards: Vec<_> = (0..text.len()).filter(is_star).collect();
        let [first, .., last] = [&wildcards[..], &wildcards].concat()[..] else {
            return Self::Exact(text.to_owned());
        };
        if wildcards.len() == 2 && text == "**" {
            return Self::Any;
        }
        let mut pattern = String::with_capacity(text.len());
        for (at, c) in text.char_indices() {
            if matches!(c, '*' | '?' | '\\') && !is_star(&at) {
                pattern.push('\\');
            }
            pattern.push(c);
        }
        let (start, end) = (text[..first].to_owned(), text[last + 1..].to_owned());
        Self::Wild { pattern, start, end, shortest: text.len() - wildcards.len() }
    }

    /// Returns the only text that matches, if there is no wildcard.
    pub(super) fn exact(&self) -> Option<&str> {
        match self {
            Self::Exact(text) => Some(text),
            _ => None,
        }
    }

    /// Returns the length of the shortest text that matches; `None` if the segment may be missing.
    pub(super) fn shortest(&self) -> Option<usize> {
        match self {
            Self::Any => None,
            Self::Exact(text) => Some(text.len()),
            Self::Wild { shortest, .. } => Some(*shortest),
        }
    }

    pub(super) fn matches(&self, text: &str) -> bool {
        #[cfg(test)]
        super::glob::tests::count_a_step();
        match self {
            Self::Any => true,
            Self::Exact(exact) => exact == text,
            Self::Wild { pattern, start, end, shortest } => {
                // Most texts fail here already.
                let is_possible = text.len() >= *shortest && text.starts_with(start) && text.ends_with(end);
                is_possible && glob::matches(pattern.as_bytes(), text.as_bytes())
            }
        }
    }
}

/// Returns the text of the segments before the first wildcard, including the beginning of the
/// segment that contains it. Segments joined by separators are the path's text, even if brackets
/// nest in it.
pub(super) fn start(segments: &[PathSegment], separator: &str) -> String {
    let mut start = String::new();
    for (at, segment) in segments.iter().enumerate() {
        match segment {
            PathSegment::Any => break,
            PathSegment::Exact(text) => start.push_str(text),
            PathSegment::Wild { start: first, .. } => {
                start.push_str(first);
                break;
            }
        }
        // A `**` may match no segment, so the separator before it may be missing.
        if matches!(segments.get(at + 1), Some(PathSegment::Exact(_) | PathSegment::Wild { .. })) {
            start.push_str(separator);
        }
    }
    start
}

/// The leading segments without wildcards that every path with the beginning `start` has as its own
/// segments.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct Lead {
    /// Number of segments.
    pub(super) count: usize,
    /// Length in bytes, including the separators between them.
    pub(super) len: usize,
}

/// Returns the lead of a glob. It is empty if a segment has brackets or part of a separator, since
/// a path may split the same text differently.
pub(super) fn lead(segments: &[PathSegment], separator: &str) -> Lead {
    let exact = || segments.iter().map_while(PathSegment::exact);
    if exact().any(|text| is_nested(text) || text.contains(':')) {
        return Lead::default();
    }
    let count = exact().count();
    let len = exact().map(str::len).sum::<usize>() + separator.len() * count.saturating_sub(1);
    Lead { count, len }
}

/// Returns the text of the segments after the last wildcard, as `start` does for the first.
pub(super) fn end(segments: &[PathSegment], separator: &str) -> String {
    let mut texts = Vec::new();
    for segment in segments.iter().rev() {
        match segment {
            PathSegment::Any => break,
            PathSegment::Exact(text) => texts.push(text.as_str()),
            PathSegment::Wild { end, .. } => {
                texts.push(end);
                break;
            }
        }
    }
    texts.reverse();
    texts.join(separator)
}
