//! The segments of a glob, and the checks they allow on a path before it is split.

use super::nesting::is_nested;

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum PathSegment {
    /// `**`: any number of segments, or none.
    Any,
    /// A segment without wildcards.
    Exact(String),
    /// A segment with `*`: the literal parts between the wildcards.
    Parts(Vec<String>),
}

impl PathSegment {
    /// Parses a segment. A `*` is a wildcard unless `is_literal` returns true for its place.
    pub(super) fn new(text: &str, is_literal: &dyn Fn(usize) -> bool) -> Self {
        let (mut parts, mut start) = (Vec::new(), 0);
        for at in (0..text.len()).filter(|at| text.as_bytes()[*at] == b'*' && !is_literal(*at)) {
            parts.push(text[start..at].to_owned());
            start = at + 1;
        }
        match parts.len() {
            0 => return Self::Exact(text.to_owned()),
            2 if text == "**" => return Self::Any,
            _ => parts.push(text[start..].to_owned()),
        }
        Self::Parts(parts)
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
            Self::Parts(parts) => Some(parts.iter().map(String::len).sum()),
        }
    }

    pub(super) fn matches(&self, text: &str) -> bool {
        #[cfg(test)]
        super::glob::tests::count_a_step();
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

/// Returns the text of the segments before the first wildcard, including the beginning of the
/// segment that contains it. Segments joined by separators are the path's text, even if brackets
/// nest in it.
pub(super) fn start(segments: &[PathSegment], separator: &str) -> String {
    let mut start = String::new();
    for (at, segment) in segments.iter().enumerate() {
        match segment {
            PathSegment::Any => break,
            PathSegment::Exact(text) => start.push_str(text),
            PathSegment::Parts(parts) => {
                start.extend(parts.first().map(String::as_str));
                break;
            }
        }
        // A `**` may match no segment, so the separator before it may be missing.
        if matches!(segments.get(at + 1), Some(PathSegment::Exact(_) | PathSegment::Parts(_))) {
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
            PathSegment::Parts(parts) => {
                texts.extend(parts.last().map(String::as_str));
                break;
            }
        }
    }
    texts.reverse();
    texts.join(separator)
}
