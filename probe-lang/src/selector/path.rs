//! The syntax of a path in a selector: its end, its characters, and its escapes.
//!
//! - Outside of brackets: letters, digits and a few signs.
//! - In the name of an operator, from the word `operator` on: also the signs of operators.
//! - Inside of brackets: everything but whitespace.
//! - After a backslash: any character.

use super::glob::Glob;
use super::nesting::{ByteRole, marks, segments};
use crate::brackets::{Reading, ends_in_operator};
use crate::error::ParseError;

/// Reads the path of a probe, or of a group.
///
/// # Errors
/// The first byte that can't be part of it, and the reason.
pub(super) fn path(text: &str) -> Result<Glob, ParseError> {
    let marks = marks(text, Reading::Selector);
    let segments = segments(text, &marks);
    for range in &segments {
        let (segment, marks) = (&text[range.clone()], &marks[range.clone()]);
        let is_outside = |at: usize| marks[at..at + 2] == [ByteRole::Outside; 2];
        let wrong = misplaced(segment, marks).next();
        check(segment, wrong, is_outside).map_err(|error| error.after(range.start))?;
    }
    Ok(Glob::path(text, &marks, segments))
}

/// Reads the path of a file.
///
/// # Errors
/// As for [`path`].
pub(super) fn file(text: &str) -> Result<Glob, ParseError> {
    let mut at = text.len() - text.trim_start_matches('/').len();
    for segment in text[at..].split('/') {
        let wrong = segment.char_indices().find(|(_, c)| c.is_control());
        check(segment, wrong, |_| true).map_err(|error| error.after(at))?;
        at += segment.len() + 1;
    }
    Ok(Glob::file(text))
}

/// Checks a segment: it is not empty, has no wrong character, and no `**` beside other characters.
fn check(
    segment: &str,
    wrong: Option<(usize, char)>,
    is_outside: impl Fn(usize) -> bool,
) -> Result<(), ParseError> {
    let error = |at, problem: &str| Err(ParseError { at, problem: problem.to_owned() });
    if segment.is_empty() {
        return error(0, "an empty segment");
    }
    if let Some((at, wrong)) = wrong {
        return error(at, &not_in_a_path(wrong));
    }
    match segment.match_indices("**").find(|(at, _)| is_outside(*at)) {
        Some((at, _)) if segment != "**" => error(at, "`**` must be a segment of its own"),
        _ => Ok(()),
    }
}

/// Returns the characters that are not allowed at their places in a segment, with these places.
/// Linear.
fn misplaced<'a>(segment: &'a str, marks: &'a [ByteRole]) -> impl Iterator<Item = (usize, char)> + 'a {
    // Whether the next character belongs to the name of an operator.
    let mut is_in_operator = false;
    segment.char_indices().filter(move |(at, c)| {
        let end = at + c.len_utf8();
        let is_allowed = match marks[*at] {
            ByteRole::Escaped => true,
            ByteRole::Escape => end < segment.len(),
            ByteRole::Inside => !c.is_control(),
            ByteRole::Stray => is_in_operator,
            ByteRole::Outside => is_plain(*c) || is_operator(*c) && is_in_operator,
        };
        if !goes_on_in_operator(*c) {
            is_in_operator = ends_in_operator(&segment[..end]);
        }
        !is_allowed
    })
}

/// Returns whether a character may stand anywhere in a path.
fn is_plain(c: char) -> bool {
    c.is_alphanumeric() || "_-.*<>{}#()[]~$'".contains(c)
}

/// Returns whether this character may stand in the name of an operator.
fn is_operator(c: char) -> bool {
    "!%&+/=^|\"".contains(c)
}

fn goes_on_in_operator(c: char) -> bool {
    is_operator(c) || "-*<>()[]~".contains(c)
}

/// Returns whether the next character belongs to the name of an operator that began in this
/// segment.
pub(super) fn is_in_operator(segment: &str) -> bool {
    ends_in_operator(segment.trim_end_matches(goes_on_in_operator))
}

/// Returns the message about a character that is not allowed.
fn not_in_a_path(wrong: char) -> String {
    let hint = match wrong {
        '!' => "; `!` belongs at the beginning of a term",
        '(' | '[' => " without what closes it",
        ')' | ']' => " without what opens it",
        '\\' => " without the character that it escapes",
        '/' => "; files begin with `@`",
        _ => "",
    };
    format!("`{wrong}` can't be part of a path{hint}")
}

/// Returns the path with the escapes that a selector needs.
pub(super) fn escape(path: &str) -> String {
    let marks = marks(path, Reading::Path);
    let escaped = segments(path, &marks).into_iter().map(|range| {
        let (segment, marks) = (&path[range.clone()], &marks[range]);
        let mut misplaced = misplaced(segment, marks).map(|(at, _)| at).peekable();
        let mut escaped = String::with_capacity(segment.len());
        for (at, c) in segment.char_indices() {
            let is_misplaced = misplaced.next_if_eq(&at).is_some();
            if is_misplaced || matches!(c, '*' | '\\') || c.is_whitespace() {
                escaped.push('\\');
            }
            escaped.push(c);
        }
        escaped
    });
    escaped.collect::<Vec<_>>().join("::")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::selector::{Selectable, Selector};
    use probe_core::abi::Kind;
    use proptest::prelude::*;

    fn parse(text: &str) -> Selector {
        Selector::parse(text).unwrap_or_else(|error| panic!("{error}"))
    }

    /// A probe with this path.
    struct Probe<'a>(&'a str);

    impl Selectable for Probe<'_> {
        fn path(&self) -> &str {
            self.0
        }

        fn kind(&self) -> Kind {
            Kind::Entry
        }

        fn file(&self) -> &'static str {
            "a.cpp"
        }

        fn line(&self) -> u32 {
            1
        }
    }

    const CPP: [&str; 36] = [
        "sqlite3VdbeExec",
        "geo::Stack<int>::push",
        "std::vector<int,std::allocator<int>>::push_back",
        "geo::Shape::~Shape",
        "geo::operator==",
        "operator==",
        "geo::operator!=",
        "geo::operator!",
        "geo::operator<",
        "geo::operator<=>",
        "geo::operator<<<char,std::char_traits<char>>",
        "geo::Ptr<geo::Shape>::operator->",
        "geo::operator>>",
        "geo::operator+=",
        "geo::operator|=",
        "geo::operator^",
        "geo::operator%",
        "geo::operator/",
        "geo::operator&&",
        "geo::F::operator()",
        "geo::F::operator[]",
        "geo::F::operatorbool",
        "geo::F::operatorconstchar",
        "operatornew[]",
        "operator\"\"_km",
        "geo::literals::operator\"\"_km",
        "geo::operator\"\"_km<'4','2'>",
        "geo::operator\"\"s",
        "geo::fetch(int).resume",
        "geo::fetch.destroy",
        "geo::fetch(geo::fetch(int)::_Z5fetchi.Frame)[clone.actor]",
        "geo::area()::{lambda(int)#1}::operator()",
        "geo::area(int,double)::'lambda'(int,geo::Shape<a::B>&&)::operator()",
        "(anonymousnamespace)::f[abi:cxx11]",
        "a::F<(b::E)1,&c::d,'x'>::g",
        "_GLOBAL__sub_I_$x.cold",
    ];

    #[test]
    fn paths_of_cpp_are_selectors() {
        for path in CPP {
            let selector = parse(path);
            assert_eq!(selector.terms.len(), 1, "{path}");
            assert_eq!(escape(path), path, "nothing to escape");
            for other in CPP {
                assert_eq!(selector.matches(&Probe(other)), path == other, "{path} on {other}");
            }
        }
        for (path, escaped) in [
            ("geo::operator*", r"geo::operator\*"),
            ("geo::operator,", r"geo::operator\,"),
            ("geo::operator->*", r"geo::operator->\*"),
            ("geo::F<char*,int>::g", r"geo::F<char\*,int>::g"),
            ("a b", r"a\ b"),
            ("geo::operator\"\" _km", r#"geo::operator""\ _km"#),
            ("geo::fetch(int) [clone .actor]", r"geo::fetch(int)\ [clone\ .actor]"),
            ("kind=entry", r"kind\=entry"),
            ("@file", r"\@file"),
            ("!a", r"\!a"),
        ] {
            assert_eq!(escape(path), escaped);
            assert!(parse(escaped).matches(&Probe(path)), "{path}");
        }
    }

    #[test]
    fn terms_are_cut_at_commas_outside_of_brackets() {
        for (selector, paths) in [
            ("F<a,b>::c,d kind=entry, e", &["F<a,b>::c", "d", "e"][..]),
            ("geo::operator<, geo::operator>", &["geo::operator<", "geo::operator>"]),
            ("a::operator<=,a::operator>=", &["a::operator<=", "a::operator>="]),
            ("a<*,b", &["a<x", "b"]),
            (r"a\,b,c", &["a,b", "c"]),
            ("f(int,int), @x,y", &["f(int,int)", "y"]),
        ] {
            let parsed = parse(selector);
            for path in paths {
                assert!(parsed.matches(&Probe(path)), "{selector} on {path}");
            }
        }
        assert_eq!(parse("F<a,b>::c,d").terms.len(), 2);
        assert_eq!(parse("!F<a,b>::c, !G<a,b>").terms.len(), 2);
        assert_eq!(parse("@a(b,c").terms.len(), 2, "no brackets in file names");
    }

    /// Names as demanglers print them: nested templates, lambdas, operators, argument lists.
    fn cpp_path() -> impl Strategy<Value = String> {
        let word = prop::sample::select(vec![
            "geo", "Stack", "push", "~Shape", "f", "é", "x_1", "(anonymousnamespace)",
        ]);
        let operator = prop::sample::select(vec![
            "==", "!=", "<", ">", "<=", ">=", "<=>", "<<", ">>", "->", "->*", "()", "[]", "*", ",", "&&",
            "||", "!", "~", "+=", "^", "bool", "new[]", "\"\"_x",
        ]);
        let name = prop_oneof![
            word.prop_map(str::to_owned),
            operator.prop_map(|operator| format!("operator{operator}"))
        ];
        let path = prop::collection::vec(name, 1..4).prop_map(|segments| segments.join("::"));
        path.prop_recursive(3, 24, 4, |inner| {
            let arguments =
                || prop::collection::vec(inner.clone(), 0..3).prop_map(|arguments| arguments.join(","));
            prop_oneof![
                (inner.clone(), arguments(), inner.clone()).prop_map(|(a, b, c)| format!("{a}<{b}>::{c}")),
                (inner.clone(), arguments()).prop_map(|(a, b)| format!("{a}<{b}*,int&>")),
                (inner.clone(), arguments())
                    .prop_map(|(a, b)| format!("{a}({b})::{{lambda({b})#1}}::operator()")),
                (inner.clone(), arguments()).prop_map(|(a, b)| format!("{a}<({b})1>[abi:cxx11]")),
            ]
        })
    }

    /// Terms without brackets in their paths. They must read as if brackets had no meaning.
    fn plain_term() -> impl Strategy<Value = (String, String)> {
        let segment = "[a-zé_.*-]{1,4}".prop_filter("`**` alone", |s| s == "**" || !s.contains("**"));
        let path = prop::collection::vec(segment, 1..4).prop_map(|segments| segments.join("::"));
        let more = prop::sample::select(vec!["", " kind=entry", " @a/b.rs:3", " kind=exit|point @*.rs"]);
        (path.clone(), prop::bool::ANY, more).prop_map(|(path, is_exclusion, more)| {
            (format!("{}{path}{more}", if is_exclusion { "! " } else { "" }), path)
        })
    }

    proptest! {
        #[test]
        fn every_path_of_cpp_selects_itself(path in cpp_path()) {
            let escaped = escape(&path);
            let selector = parse(&escaped);
            prop_assert_eq!(selector.terms.len(), 1);
            prop_assert!(selector.matches(&Probe(&path)), "{} on {}", escaped, path);
            prop_assert!(!selector.matches(&Probe(&format!("{path}x"))), "{} on more", escaped);
            let among = format!("before, {escaped} kind=entry,after");
            prop_assert!(parse(&among).matches(&Probe(&path)), "{}", among);
        }

        #[test]
        fn selectors_without_brackets_read_as_they_are(terms in prop::collection::vec(plain_term(), 1..4)) {
            let text = terms.iter().map(|(term, _)| term.as_str()).collect::<Vec<_>>().join(", ");
            let selector = parse(&text);
            prop_assert_eq!(selector.terms.len(), terms.len());
            for (term, (written, path)) in selector.terms.iter().zip(&terms) {
                prop_assert_eq!(term.is_exclusion, written.starts_with('!'));
                prop_assert_eq!(term.kinds.is_some(), written.contains("kind="));
                prop_assert_eq!(term.file.is_some(), written.contains('@'));
                prop_assert_eq!(&term.path, &super::path(path).ok());
            }
        }
    }
}
