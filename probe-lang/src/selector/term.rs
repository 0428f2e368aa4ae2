//! One term of a selector, and the things that it can match: definitions, listed probes, and types
//! of the program.

use std::ops::Range;

use super::glob::{Glob, Path};
use probe_core::abi::{Definition, Kind};

/// A value that a [`Selector`](crate::Selector) can be matched against.
///
/// Definitions and listed probes are subjects. Implement the trait for a type of your own to select
/// other things by the same grammar, for example the lines of a recorded trace. A selector calls a
/// method only when it needs that property; most need only the path.
///
/// ```
/// use probe_runtime::selector::Selectable;
/// use probe_runtime::{Kind, Selector};
///
/// /// An event of a recorded trace.
/// struct Recorded {
///     path: String,
///     kind: Kind,
/// }
///
/// impl Selectable for Recorded {
///     fn path(&self) -> &str { &self.path }
///     fn kind(&self) -> Kind { self.kind }
///     fn file(&self) -> &str { "src/net.rs" }
///     fn line(&self) -> u32 { 7 }
/// }
///
/// let event = Recorded { path: "net::poll".to_owned(), kind: Kind::Exit };
/// assert!(Selector::parse("net::* kind=exit")?.matches(&event));
/// assert!(!Selector::parse("group=db")?.matches(&event)); // it is in no group
/// # Ok::<(), probe_runtime::selector::SelectorError>(())
/// ```
pub trait Selectable {
    /// Returns the probe's path.
    fn path(&self) -> &str;
    /// Returns the kind of place that the probe marks.
    fn kind(&self) -> Kind;
    /// Returns its source file.
    fn file(&self) -> &str;
    /// Returns its source line.
    fn line(&self) -> u32;
    /// Returns the probe's group. By default there is none.
    fn group(&self) -> Option<&str> {
        None
    }
    /// Returns the module that it belongs to, a first segment of its path. Only terms that begin
    /// with that segment name it. By default there is none.
    fn module(&self) -> Option<&str> {
        None
    }
}

impl Selectable for Definition {
    fn path(&self) -> &str {
        self.path()
    }

    fn kind(&self) -> Kind {
        self.kind()
    }

    fn file(&self) -> &str {
        self.file()
    }

    fn line(&self) -> u32 {
        self.line()
    }

    fn group(&self) -> Option<&str> {
        self.note("group")
    }

    fn module(&self) -> Option<&str> {
        self.note("module")
    }
}

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
            && (self.is_exclusion || subject.module().is_none_or(|module| self.begins_with(module)))
    }

    /// Returns whether all paths that it names begin with this segment.
    fn begins_with(&self, segment: &str) -> bool {
        let start = self.path.as_ref().and_then(|glob| glob.start.strip_prefix(segment));
        start.is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
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
