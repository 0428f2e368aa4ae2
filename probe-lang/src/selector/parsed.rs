//! A parsed selector and its matching.

use std::collections::HashMap;

use super::broaden::broaden;
use super::glob::Path;
use super::term::{Term, beginning};
use super::{Selectable, SelectorError, parse, path};

/// The number of selectors that this process has parsed, for tests.
#[cfg(feature = "counted")]
pub static PARSED: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);

/// A parsed selector, which names a set of probes.
///
/// ```text
/// selector  = term { "," term }           union of the terms, less the excluded ones
/// term      = [ "!" ] part { " " part }   all parts must match
/// part      = glob                        over the probe's path: "*" within a segment, "**" across segments
///           | "@" file [ ":" line ]       the source file (the end of its path; globs too), and a line
///           | "kind=" kind { "|" kind }   entry, exit, point, drop, suspend, resume, replace
///           | "group=" glob { "|" glob }  the probe's group; a group may have segments, as paths do
/// ```
/// A selector with only exclusions names all other probes.
///
/// | selector | probes that it names |
/// |---|---|
/// | `net::handle` | the probes with this path: a function's entry and exit, or a point |
/// | `net::*` | all in `net`, but not in modules inside of it: `*` is any part of one segment |
/// | `net::**` | all in `net`: `**` is any number of segments, also none |
/// | `**::handle` | all that are called `handle` |
/// | `net::*_request` | `net::read_request`, `net::write_request` |
/// | `@server.rs`, `@net/*.rs` | all in these files |
/// | `@server.rs:42` | the probes in that line |
/// | `kind=entry` | all entries |
/// | `net::** kind=entry\|exit` | the entries and exits in `net` |
/// | `group=db`, `group=db::*` | the probes of a group, of several groups |
/// | `net::**, db::**` | both |
/// | `net::**, !net::poll` | all in `net` but `net::poll` |
/// | `!**::poll` | all but those that are called `poll` |
/// | `geo::Stack<*>::push` | a method of all instances of a C++ template |
/// | `geo::operator\*` | an operator: a backslash takes the next character literally |
///
/// # Paths of C++
/// C++ paths need no quotes. Inside of brackets, `::` and `,` are part of a segment, and a `*`
/// matches them, too. So `geo::Stack<*>::push` names the method of all instances, and
/// `std::vector<int,std::allocator<int>>::*` has three segments. `geo::operator==`,
/// `geo::Shape::~Shape`, `geo::area()::{lambda(int)#1}::operator()` and `operator""_km` need no
/// escapes. A bracket without a partner is a character like any other (`operator<`).
///
/// A backslash takes the next character literally: `geo::operator\*`, `geo::operator\,`.
/// [`escape`](Self::escape) adds the backslashes that a path needs. A comma before an `@` ends a
/// term, even inside of brackets.
///
/// # Limits
/// A selector has at most 65,536 bytes, and at most 1,000 terms with `*`, `@file`, `kind=` or
/// `group=`. Paths without `*` are not counted.
///
/// ```
/// use probe_runtime::selector::Selectable;
/// use probe_runtime::{Kind, Selector};
///
/// /// The entry of `net::tcp::handle`.
/// struct Handle;
/// impl Selectable for Handle {
///     fn path(&self) -> &str { "net::tcp::handle" }
///     fn kind(&self) -> Kind { Kind::Entry }
///     fn file(&self) -> &str { "src/net/tcp.rs" }
///     fn line(&self) -> u32 { 42 }
///     fn group(&self) -> Option<&str> { Some("net::server") }
/// }
///
/// for (selector, is_named) in [
///     ("net::tcp::handle", true),
///     ("net::*", false),
///     ("net::**", true),
///     ("**::handle", true),
///     ("net::tcp::han*", true),
///     ("@tcp.rs", true),
///     ("@net/*.rs:42", true),
///     ("kind=exit|point", false),
///     ("net::** kind=entry", true),
///     ("group=net::*", true),
///     ("db::**, net::**", true),
///     ("net::**, !**::handle", false),
///     ("!db::**", true),
/// ] {
///     assert_eq!(Selector::parse(selector)?.matches(&Handle), is_named, "{selector}");
/// }
/// # Ok::<(), probe_runtime::selector::SelectorError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Selector {
    text: String,
    pub(super) terms: Vec<Term>,
    /// Terms that are only a path without wildcards, by that path.
    paths: HashMap<String, Sides<Option<usize>>>,
    /// The [marks](mark) of these paths. A path of which no mark is here need not be looked up.
    marks: u64,
    /// The other terms.
    patterns: Sides<Vec<usize>>,
    /// Whether all terms exclude; the selector then names everything that no term excludes.
    excludes_only: bool,
    /// Whether the selector is `**`, and no more: no probe's path needs to be read.
    is_any: bool,
    /// Common beginning of all paths that a term names or excludes. A probe whose path begins
    /// differently need not be matched.
    pub beginning: String,
}

/// One element for terms that name probes, and one for terms that exclude them.
type Sides<T> = [T; 2];

/// The places of the sides.
const NAMES: usize = 0;
const EXCLUDES: usize = 1;

/// Returns one of 64 bits, by the length of a path and its last two bytes. Hashing the whole path
/// costs more than all else that is done for a probe.
#[inline]
fn mark(path: &str) -> u64 {
    let [last, before] = path.as_bytes().last_chunk().map_or([0; 2], |chunk: &[u8; 2]| *chunk);
    let mixed = path.len() + usize::from(last) * 11 + usize::from(before) * 3;
    1 << (mixed % 64)
}

/// Records which terms have named a probe so far.
#[derive(Clone, Debug)]
pub struct NamedTerms(Vec<bool>);

impl Selector {
    /// Parses a selector.
    ///
    /// # Errors
    /// A [`SelectorError`] with the mistake and its place if the text is malformed or above one of
    /// the [limits](Self#limits).
    ///
    /// ```
    /// use probe_runtime::Selector;
    /// assert!(Selector::parse("net::*, !net::poll kind=exit, @server.rs:42").is_ok());
    /// let error = Selector::parse("net::*, kind=entrance").unwrap_err();
    /// assert_eq!(error.column(), 14);
    /// ```
    pub fn parse(text: &str) -> Result<Self, SelectorError> {
        #[cfg(feature = "counted")]
        PARSED.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let terms = parse::parse(text)?;
        let mut paths = HashMap::<_, Sides<Option<usize>>>::new();
        let mut patterns = Sides::<Vec<usize>>::default();
        for (at, term) in terms.iter().enumerate() {
            let side = usize::from(term.is_exclusion);
            match term.only() {
                Some(path) => _ = paths.entry(path).or_default()[side].get_or_insert(at),
                None => patterns[side].push(at),
            }
        }
        let excludes_only = terms.iter().all(|term| term.is_exclusion);
        let beginning = if excludes_only { String::new() } else { beginning(&terms) };
        let marks = paths.keys().fold(0, |marks, path| marks | mark(path));
        let is_any = matches!(&terms[..], [term] if !term.is_exclusion && term.is_any());
        Ok(Self { text: text.to_owned(), terms, paths, marks, patterns, excludes_only, is_any, beginning })
    }

    /// Returns the selector that names the probes with this path and no others. Escapes wildcards
    /// and other characters that have a meaning in a selector.
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

    /// Returns the text that it was parsed from.
    #[doc(hidden)]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns whether the selector names this probe.
    pub fn matches(&self, subject: &impl Selectable) -> bool {
        self.find::<false>(subject, &mut [], || false)
    }

    /// Returns the same as [`matches`](Self::matches), and records which terms name the probe.
    /// No term names a probe that is left out, which is asked only of those that match.
    #[inline]
    pub fn matches_noting(
        &self,
        subject: &impl Selectable,
        named: &mut NamedTerms,
        is_left_out: impl Fn() -> bool,
    ) -> bool {
        self.find::<true>(subject, &mut named.0, is_left_out)
    }

    /// If `NOTES`, `named` has a place for each term. A term that is already recorded is not
    /// matched again.
    fn find<const NOTES: bool>(
        &self,
        subject: &impl Selectable,
        named: &mut [bool],
        is_left_out: impl Fn() -> bool,
    ) -> bool {
        if self.is_any {
            let is_found = !is_left_out() && subject.module().is_none();
            if NOTES && is_found {
                named[0] = true;
            }
            return is_found;
        }
        let path = Path::new(subject.path());
        let is_possible = self.marks & mark(path.text) != 0;
        let by_path = if is_possible { self.paths.get(path.text) } else { None };
        let mut is_found = Sides::<bool>::default();
        for side in [NAMES, EXCLUDES] {
            if let Some(term) = by_path.and_then(|sides| sides[side]) {
                if is_found == [false; 2] && is_left_out() {
                    return false;
                }
                is_found[side] = true;
                if NOTES {
                    named[term] = true;
                }
            }
            for &term in &self.patterns[side] {
                if is_found[side] && !NOTES {
                    break;
                }
                if is_found[side] && named[term] {
                    continue;
                }
                if self.terms[term].matches(subject, &path) {
                    if is_found == [false; 2] && is_left_out() {
                        return false;
                    }
                    is_found[side] = true;
                    if NOTES {
                        named[term] = true;
                    }
                }
            }
        }
        match is_found {
            [true, is_excluded] => !is_excluded,
            [false, true] => false,
            [false, false] => self.excludes_only && !is_left_out() && subject.module().is_none(),
        }
    }

    /// Returns a record in which no term has named a probe yet.
    pub fn named(&self) -> NamedTerms {
        NamedTerms(vec![false; self.terms.len()])
    }

    /// Returns the terms that have named no probe, as they were written, without their `!`. A term
    /// that was written twice is returned once.
    pub fn unnamed(&self, named: &NamedTerms) -> impl Iterator<Item = &str> {
        let text = |at: &usize| &self.text[self.terms[*at].range.clone()];
        // Of equal paths, only the first one is recorded.
        let paths = self.paths.values().flatten().flatten();
        let all = paths.chain(self.patterns.iter().flatten()).copied();
        let mut unnamed: Vec<usize> = all.filter(|at| !named.0[*at]).collect();
        unnamed.sort_by(|a, b| text(a).cmp(text(b)).then(a.cmp(b)));
        unnamed.dedup_by(|a, b| text(a) == text(b));
        unnamed.sort_by(Ord::cmp);
        unnamed.into_iter().map(move |at| text(&at))
    }

    /// Suggests selectors similar to the first three terms that do not exclude.
    pub fn wider(&self) -> Vec<String> {
        let terms = self.terms.iter().filter(|term| !term.is_exclusion).take(3);
        let mut all = Vec::new();
        for term in terms {
            let path = &term.path_range;
            let path = path.start.saturating_sub(term.range.start)..path.end.saturating_sub(term.range.start);
            broaden(&self.text[term.range.clone()], path, &mut all);
        }
        all
    }

    /// Returns the first path in the selector, as it was written.
    pub fn path(&self) -> Option<&str> {
        let mut terms = self.terms.iter().filter(|term| !term.is_exclusion && term.path.is_some());
        terms.next().map(|term| &self.text[term.path_range.clone()])
    }

    /// Returns the first three groups of the selector that are not among `known`, as they were
    /// written.
    pub fn unknown_groups(&self, known: &[&str]) -> impl Iterator<Item = &str> {
        let asked =
            self.terms.iter().filter(|term| !term.is_exclusion).filter_map(|term| term.groups.as_ref());
        let unknown = asked
            .flatten()
            .filter(|asked| !known.iter().any(|group| asked.glob.matches(&Path::new(group))))
            .map(|asked| asked.text.as_str());
        unknown.take(3)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use probe_core::abi::Kind;

    struct Probe<'a>(&'a str, Kind);

    impl Selectable for Probe<'_> {
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
    fn a_module_is_named_by_its_name_only() {
        struct OfModule<'a>(&'a str);
        impl Selectable for OfModule<'_> {
            fn path(&self) -> &str {
                self.0
            }
            fn kind(&self) -> Kind {
                Kind::Entry
            }
            fn file(&self) -> &str {
                self.0
            }
            fn line(&self) -> u32 {
                1
            }
            fn module(&self) -> Option<&str> {
                self.0.split("::").next()
            }
        }
        let malloc = OfModule("memory::malloc");
        for (selector, is_named) in [
            ("memory::malloc", true),
            ("memory::*", true),
            ("memory::**", true),
            ("memory::m* kind=entry", true),
            ("memory::*, !**::malloc", false),
            ("**", false),
            ("**::malloc", false),
            ("kind=entry", false),
            ("@malloc", false),
            ("!net::**", false),
            ("mem*::malloc", false),
        ] {
            assert_eq!(Selector::parse(selector).unwrap().matches(&malloc), is_named, "{selector}");
            let mut named = Selector::parse(selector).unwrap().named();
            let noted = Selector::parse(selector).unwrap().matches_noting(&malloc, &mut named, || false);
            assert_eq!(noted, is_named, "{selector}");
        }
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

    #[test]
    fn selected_paths_have_a_common_beginning() {
        for (selector, beginning) in [
            ("net::tcp::**", "net::tcp"),
            ("net::tcp::ac*, !net::tls::** kind=exit", "net::t"),
            ("net::é, net::è", "net::"),
            ("net::**, kind=exit", ""),
            ("net::**, **::poll", ""),
            ("!net::poll", ""),
            (r"geo::F<\*>::*", "geo::F<*>::"),
        ] {
            assert_eq!(Selector::parse(selector).unwrap().beginning, beginning, "{selector}");
        }
    }

    #[test]
    fn paths_are_looked_up_however_many_there_are() {
        let paths: Vec<String> = (0..6_000).map(|n| format!("a::f{n}")).collect();
        let selector = Selector::parse(&paths.join(",")).unwrap();
        let mut named = selector.named();
        let steps = crate::selector::glob::tests::steps(|| {
            for path in &paths[..4_000] {
                assert!(selector.matches(&Probe(path, Kind::Entry)));
                assert!(selector.matches_noting(&Probe(path, Kind::Exit), &mut named, || false));
            }
            assert!(!selector.matches(&Probe("a::f", Kind::Entry)));
        });
        assert_eq!(steps, 0, "nothing is held against a pattern");
        assert_eq!(selector.unnamed(&named).count(), 2_000);
    }

    #[test]
    fn terms_that_name_nothing_are_returned_in_their_order() {
        let text = "b::*, zzz, a::b, !c, a::b, group=x kind=entry, !a::c, zzz, b::*, ! @none.rs:3";
        let selector = Selector::parse(text).unwrap();
        let mut named = selector.named();
        for (path, is_named) in [("a::b", true), ("a::c", false), ("net", false)] {
            assert_eq!(
                selector.matches_noting(&Probe(path, Kind::Entry), &mut named, || false),
                is_named,
                "{path}"
            );
        }
        let unnamed: Vec<_> = selector.unnamed(&named).collect();
        assert_eq!(unnamed, ["b::*", "zzz", "c", "group=x kind=entry", "@none.rs:3"]);
    }

    #[test]
    fn no_term_names_what_is_left_out() {
        for text in ["**", "a::*", "a::b", "!c", "a::b, **", "a::b, !a::*", "a::b, !a::b"] {
            let selector = Selector::parse(text).unwrap();
            let mut named = selector.named();
            assert!(!selector.matches_noting(&Probe("a::b", Kind::Entry), &mut named, || true), "{text}");
            assert!(!named.0.contains(&true), "{text}");
            let is_named = !text.contains(", !");
            let noted = selector.matches_noting(&Probe("a::b", Kind::Entry), &mut named, || false);
            assert_eq!(noted, is_named, "{text}");
            assert_eq!(named.0.contains(&false), text == "!c", "{text}");
        }
        // Asked only of what matches.
        let selector = Selector::parse("a::*, kind=exit, !x").unwrap();
        let mut named = selector.named();
        assert!(
            !selector.matches_noting(&Probe("b", Kind::Entry), &mut named, || panic!("no term names it"))
        );
    }

    #[test]
    fn most_paths_are_told_apart_without_a_lookup() {
        let selector = Selector::parse("a::f0123, a::f0456").unwrap();
        let may_match = |n: &usize| selector.marks & mark(&format!("a::f{n:04}")) != 0;
        assert!(may_match(&123) && may_match(&456));
        assert!((0..10_000).filter(may_match).count() < 600);
        for path in ["a", "ab", "é"] {
            assert!(matches(path, path, Kind::Entry), "{path}");
        }
    }

    proptest::proptest! {
        /// The definition: at least one term names the probe, and no excluding term does.
        #[test]
        fn a_selector_names_the_probes_of_its_terms(
            terms in proptest::collection::vec("!?[ab*](::[ab*])?( kind=exit)?", 1..6), path in "[ab](::[ab])?",
        ) {
            let probe = Probe(&path, Kind::Exit);
            let selector = Selector::parse(&terms.join(",")).unwrap();
            let begins = path.starts_with(&selector.beginning);
            let alone: Vec<bool> = (terms.iter())
                .map(|term| Selector::parse(term.trim_start_matches('!')).unwrap().matches(&probe))
                .collect();
            let any = |is_exclusion| {
                terms.iter().zip(&alone).any(|(term, named)| *named && term.starts_with('!') == is_exclusion)
            };
            proptest::prop_assert!(begins || !alone.contains(&true));
            let all_exclude = terms.iter().all(|term| term.starts_with('!'));
            let expected = (all_exclude || any(false)) && !any(true);
            proptest::prop_assert_eq!(selector.matches(&probe), expected);
            proptest::prop_assert!(begins || !expected);
            let mut named = selector.named();
            proptest::prop_assert_eq!(selector.matches_noting(&probe, &mut named, || false), expected);
            for unnamed in selector.unnamed(&named) {
                proptest::prop_assert!(!Selector::parse(unnamed).unwrap().matches(&probe));
            }
        }
    }
}
