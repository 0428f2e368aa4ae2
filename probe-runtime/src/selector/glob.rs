//! Globs over paths whose segments are separated by `::` (probes) or `/` (files).

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

impl Glob {
    pub(super) fn new(text: &str, separator: &'static str) -> Self {
        let segments = (text.split(separator))
            .map(|segment| match segment {
                "**" => Segment::Any,
                _ if segment.contains('*') => Segment::Parts(segment.split('*').map(str::to_owned).collect()),
                _ => Segment::Exact(segment.to_owned()),
            })
            .collect();
        Self { segments, separator }
    }

    /// Whether every path matches.
    pub(super) fn is_everything(&self) -> bool {
        self.segments == [Segment::Any]
    }

    /// Whether the whole path matches.
    pub(super) fn matches(&self, path: &str) -> bool {
        Self::rest(&self.segments, Some(path), self.separator)
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
    fn rest(mut segments: &[Segment], mut path: Option<&str>, separator: &str) -> bool {
        let mut retry: Option<(&[Segment], &str)> = None;
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
                    let (head, tail) = match at.split_once(separator) {
                        Some((head, tail)) => (head, Some(tail)),
                        None => (at, None),
                    };
                    segment.matches(head).then_some((later, tail))
                }
                _ => None,
            };
            match (matched, &mut retry) {
                (Some((later, tail)), _) => (segments, path) = (later, tail),
                (None, Some((start, at))) => {
                    let Some((_, tail)) = at.split_once(separator) else { return false };
                    *at = tail;
                    (segments, path) = (*start, Some(tail));
                }
                (None, None) => return false,
            }
        }
    }
}

impl Segment {
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
        Glob::new(glob, "::").matches(path)
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
