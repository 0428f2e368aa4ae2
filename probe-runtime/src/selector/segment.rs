//! The segments of a glob, and what they say of a path before it is split.

use super::nesting::is_nested;

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Segment {
    /// `**`: any number of segments, also none.
    Any,
    /// A segment without wildcards.
    Exact(String),
    /// A segment with `*` in it: the literal parts between them.
    Parts(Vec<String>),
}

impl Segment {
    /// From text, where a `*` is a wildcard unless it is literal at its place.
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

    /// The only text that matches, if there is no wildcard.
    pub(super) fn exact(&self) -> Option<&str> {
        match self {
            Self::Exact(text) => Some(text),
            _ => None,
        }
    }

    /// The length of the shortest text that matches; `None` if it needs none.
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

/// The text of the segments before the first wildcard, and of that one's as far as the wildcard.
/// Segments with separators between them are the path's text, whatever nests in it.
pub(super) fn start(segments: &[Segment], separator: &str) -> String {
    let mut start = String::new();
    for (at, segment) in segments.iter().enumerate() {
        match segment {
            Segment::Any => break,
            Segment::Exact(text) => start.push_str(text),
            Segment::Parts(parts) => {
                start.extend(parts.first().map(String::as_str));
                break;
            }
        }
        // Before a `**` there may be nothing.
        if matches!(segments.get(at + 1), Some(Segment::Exact(_) | Segment::Parts(_))) {
            start.push_str(separator);
        }
    }
    start
}

/// The segments before the first wildcard, as far as each path that begins with `start` begins with
/// these segments, too.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct Lead {
    /// How many there are.
    pub(super) count: usize,
    /// Their length in bytes, with the separators between them.
    pub(super) len: usize,
}

/// The lead of a glob: none where a segment has brackets, or part of a separator. The same text may be
/// other segments then.
pub(super) fn lead(segments: &[Segment], separator: &str) -> Lead {
    let exact = || segments.iter().map_while(Segment::exact);
    if exact().any(|text| is_nested(text) || text.contains(':')) {
        return Lead::default();
    }
    let count = exact().count();
    let len = exact().map(str::len).sum::<usize>() + separator.len() * count.saturating_sub(1);
    Lead { count, len }
}

/// As `start`, of the segments after the last wildcard.
pub(super) fn end(segments: &[Segment], separator: &str) -> String {
    let mut texts = Vec::new();
    for segment in segments.iter().rev() {
        match segment {
            Segment::Any => break,
            Segment::Exact(text) => texts.push(text.as_str()),
            Segment::Parts(parts) => {
                texts.extend(parts.last().map(String::as_str));
                break;
            }
        }
    }
    texts.reverse();
    texts.join(separator)
}
