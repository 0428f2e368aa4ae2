//! One term of a selector.

use std::ops::Range;

use super::Selectable;
use super::glob::{Glob, Path};
use probe_core::abi::Kind;

/// Conditions that a probe must meet for the term to name it.
#[derive(Clone, Debug, Default)]
pub(super) struct Term {
    /// Place of the term in the selector, without its `!`.
    pub(super) range: Range<usize>,
    pub(super) is_exclusion: bool,
    pub(super) path: Option<Glob>,
    /// Place of its path in the selector.
    pub(super) path_range: Range<usize>,
    pub(super) file: Option<Glob>,
    pub(super) line: Option<u32>,
    pub(super) kinds: Option<Vec<Kind>>,
    pub(super) groups: Option<Vec<GroupGlob>>,
}

/// A glob over groups, and its text.
#[derive(Clone, Debug)]
pub(super) struct GroupGlob {
    pub(super) text: String,
    pub(super) glob: Glob,
}

impl Term {
    /// Returns the only path that the term names, if it has no other condition and no wildcard.
    pub(super) fn only(&self) -> Option<String> {
        let is_path_alone = self.file.is_none() && self.kinds.is_none() && self.groups.is_none();
        self.path.as_ref().filter(|_| is_path_alone)?.only()
    }

    /// Returns whether the term is `**` and no more, so it matches every probe.
    pub(super) fn is_any(&self) -> bool {
        let is_path_alone = self.file.is_none() && self.kinds.is_none() && self.groups.is_none();
        is_path_alone && self.path.as_ref().is_some_and(Glob::is_any)
    }

    /// Returns the number of patterns that the term compares with a probe.
    pub(super) fn patterns(&self) -> usize {
        self.groups.as_ref().map_or(1, Vec::len)
    }

    #[inline]
    pub(super) fn matches(&self, subject: &impl Selectable, path: &Path<'_>) -> bool {
        self.kinds.as_ref().is_none_or(|kinds| kinds.contains(&subject.kind()))
            && self.line.is_none_or(|line| line == subject.line())
            && self.path.as_ref().is_none_or(|glob| glob.matches(path))
            && self.file.as_ref().is_none_or(|glob| glob.matches(&Path::new(subject.file())))
            && self.groups.as_ref().is_none_or(|groups| {
                let group = subject.group().map(Path::new);
                group.is_some_and(|group| groups.iter().any(|asked| asked.glob.matches(&group)))
            })
    }
}

/// The common beginning of all paths that one of these terms may match.
pub(super) fn beginning(terms: &[Term]) -> String {
    let mut starts = terms.iter().map(|term| term.path.as_ref().map_or("", |glob| glob.start.as_str()));
    let first = starts.next().unwrap_or_default();
    starts.fold(first, common).to_owned()
}

/// The common beginning of two texts.
fn common<'a>(a: &'a str, b: &str) -> &'a str {
    let same = a.chars().zip(b.chars()).take_while(|(a, b)| a == b);
    &a[..same.map(|(c, _)| c.len_utf8()).sum()]
}
