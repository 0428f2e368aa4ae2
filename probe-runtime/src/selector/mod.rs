//! Selectors: the text that names a set of probes.
//!
//! ```text
//! selector  = term { "," term }           union of the terms, less the excluded ones
//! term      = [ "!" ] part { " " part }   all parts must match
//! part      = glob                        over the probe's path: "*" within a segment, "**" across segments
//!           | "@" file [ ":" line ]       the source file (the end of its path; globs too), and a line
//!           | "kind=" kind { "|" kind }   entry, exit, point, drop, suspend, resume, replace
//!           | "group=" glob { "|" glob }  the probe's group; a group may have segments, as paths do
//! ```
//! With exclusions only, everything else is selected. Pure: parsing and matching touch nothing.
//!
//! The paths of C++ need no quotes: `::` and `,` inside of brackets are part of a segment, where a `*` matches them, too. So
//! `geo::Stack<*>::push` names that of all instances, `std::vector<int,std::allocator<int>>::*` has three segments, and
//! `geo::operator==`, `geo::Shape::~Shape`, `geo::area()::{lambda(int)#1}::operator()` are what they look like. A bracket without a
//! partner is a character like any other (`operator<`). A backslash takes the next character as it is: `geo::operator\*`,
//! `geo::operator\,`; [`Selector::escape`] puts it where a path needs it.

mod assigned;
mod glob;
mod nearest;
mod nesting;
mod parse;
mod path;
mod subject;

pub use parse::SelectorError;

pub(crate) use assigned::{Assigned, assigned};
pub(crate) use nearest::nearest;

use crate::abi::Kind;
use glob::Glob;

/// A parsed selector.
#[derive(Clone, Debug)]
pub struct Selector {
    terms: Vec<Term>,
}

#[derive(Clone, Debug, Default)]
struct Term {
    is_exclusion: bool,
    path: Option<Glob>,
    file: Option<Glob>,
    line: Option<u32>,
    kinds: Option<Vec<Kind>>,
    groups: Option<Vec<Group>>,
}

/// A glob over groups, and how it was written.
#[derive(Clone, Debug)]
struct Group {
    text: String,
    glob: Glob,
}

/// What of a probe a selector looks at. Asked for as needed: most selectors need the path alone.
pub trait Subject {
    /// The probe's path.
    fn path(&self) -> &str;
    /// What it marks.
    fn kind(&self) -> Kind;
    /// Its source file.
    fn file(&self) -> &str;
    /// Its source line.
    fn line(&self) -> u32;
    /// The group that it is in; none if not said otherwise.
    fn group(&self) -> Option<&str> {
        None
    }
}

impl Selector {
    /// Parses a selector.
    ///
    /// # Errors
    /// A [`SelectorError`] says what is wrong and where.
    ///
    /// ```
    /// use probe_runtime::Selector;
    /// assert!(Selector::parse("net::*, !net::poll kind=exit, @server.rs:42").is_ok());
    /// let error = Selector::parse("net::*, kind=entrance").unwrap_err();
    /// assert_eq!(error.column(), 14);
    /// ```
    pub fn parse(text: &str) -> Result<Self, SelectorError> {
        parse::parse(text)
    }

    /// The selector that names probes with this path, and no other: wildcards, and what else a selector would read otherwise, are
    /// escaped.
    ///
    /// ```
    /// use probe_runtime::Selector;
    /// assert_eq!(Selector::escape("geo::Stack<int>::push"), "geo::Stack<int>::push");
    /// assert_eq!(Selector::escape("geo::operator*"), r"geo::operator\*");
    /// assert_eq!(Selector::escape("F<char*,int>::operator,"), r"F<char\*,int>::operator\,");
    /// ```
    pub fn escape(path: &str) -> String {
        path::escape(path)
    }

    /// Whether the selector names this probe.
    pub fn matches(&self, subject: &impl Subject) -> bool {
        let hits = |exclusion| {
            let mut terms = self.terms.iter().filter(move |term| term.is_exclusion == exclusion);
            terms.any(|term| term.matches(subject))
        };
        let names_none = self.terms.iter().all(|term| term.is_exclusion);
        (names_none || hits(false)) && !hits(true)
    }

    /// The groups that it asks for and that are none of these, as they were written.
    pub(crate) fn unknown_groups(&self, known: &[&str]) -> impl Iterator<Item = &str> {
        let asked =
            self.terms.iter().filter(|term| !term.is_exclusion).filter_map(|term| term.groups.as_ref());
        asked
            .flatten()
            .filter(|asked| !known.iter().any(|group| asked.glob.matches(group)))
            .map(|asked| asked.text.as_str())
    }
}

impl Term {
    fn matches(&self, subject: &impl Subject) -> bool {
        self.kinds.as_ref().is_none_or(|kinds| kinds.contains(&subject.kind()))
            && self.line.is_none_or(|line| line == subject.line())
            && self.path.as_ref().is_none_or(|glob| glob.is_everything() || glob.matches(subject.path()))
            && self.file.as_ref().is_none_or(|glob| glob.matches_end(subject.file()))
            && self.groups.as_ref().is_none_or(|groups| {
                subject.group().is_some_and(|group| groups.iter().any(|asked| asked.glob.matches(group)))
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Probe<'a>(&'a str, Kind);

    impl Subject for Probe<'_> {
        fn path(&self) -> &str {
            self.0
        }

        fn kind(&self) -> Kind {
            self.1
        }

        fn file(&self) -> &'static str {
            "src/net/server.rs"
        }

        fn line(&self) -> u32 {
            42
        }

        fn group(&self) -> Option<&str> {
            self.0.contains("net").then_some("net::tcp")
        }
    }

    fn matches(selector: &str, path: &str, kind: Kind) -> bool {
        Selector::parse(selector).unwrap().matches(&Probe(path, kind))
    }

    #[test]
    fn walks_the_grammar() {
        use Kind::{Entry, Exit, Point};
        let path = "app::net::handle";
        for (selector, kind, expected) in [
            ("app::net::handle", Entry, true),
            ("app::net::handle", Exit, true),
            ("app::*", Entry, false),
            ("app::**", Entry, true),
            ("**", Point, true),
            ("app::*::handle", Entry, true),
            ("**::handle", Entry, true),
            ("app::net::hand*", Entry, true),
            ("app::net::*", Entry, true),
            ("net::handle", Entry, false),
            ("kind=entry", Entry, true),
            ("kind=entry", Exit, false),
            ("kind=entry|exit", Exit, true),
            ("app::** kind=point", Entry, false),
            ("@server.rs", Entry, true),
            ("@net/server.rs:42", Entry, true),
            ("@rver.rs", Entry, false),
            ("@server.rs:41", Entry, false),
            ("@*.rs:42", Entry, true),
            ("@src/**", Entry, true),
            ("!app::net::*", Entry, false),
            ("!other::*", Entry, true),
            ("app::**, !app::net::handle kind=exit", Entry, true),
            ("app::**, !app::net::handle kind=exit", Exit, false),
            ("other::*, app::net::handle", Entry, true),
            ("group=net::tcp", Entry, true),
            ("group=net", Entry, false),
            ("group=net::*", Entry, true),
            ("group=**", Entry, true),
            ("group=db|n*::t*", Entry, true),
            ("group=net::tcp kind=exit", Entry, false),
            ("!group=net::tcp", Entry, false),
            ("app::** group=net::tcp @server.rs:42 kind=entry", Entry, true),
        ] {
            assert_eq!(matches(selector, path, kind), expected, "{selector} on {path} {kind:?}");
        }
        assert!(!matches("group=**", "app::db", Entry), "without a group");
        let selector = Selector::parse("!group=a, group=b|net*|net::*, group=c* kind=exit").unwrap();
        assert_eq!(selector.unknown_groups(&["net::tcp", "cd"]).collect::<Vec<_>>(), ["b", "net*"]);
    }
}
