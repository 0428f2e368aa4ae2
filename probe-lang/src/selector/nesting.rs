//! Nesting of brackets in a path. Inside of brackets, `::` and `,` belong to their segment:
//! `geo::Map<a::Key,b::Value>::find` has three segments.
//!
//! A bracket without a partner is a character like any other, see [`brackets`](crate::brackets). A
//! path without brackets reads as if brackets did not exist. Pure, linear.

use std::ops::{ControlFlow, Range};

use crate::brackets::{Found, Reading, scan};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum ByteRole {
    /// Outside of brackets; also the brackets of an outermost pair.
    Outside,
    /// Inside of brackets.
    Inside,
    /// A round or square bracket without a partner, outside of other brackets.
    Stray,
    /// A backslash that is not itself part of the path.
    Escape,
    /// The character after an escaping backslash.
    Escaped,
}

/// Returns whether a path may have segments that a plain split at `::` does not find.
pub(super) fn is_nested(path: &str) -> bool {
    path.bytes().any(|byte| matches!(byte, b'<' | b'(' | b'[' | b'{'))
}

/// Returns the role of each byte of a path, or of one in a selector.
pub(super) fn marks(path: &str, reading: Reading) -> Vec<ByteRole> {
    let bytes = path.as_bytes();
    let mut marks = vec![ByteRole::Outside; bytes.len()];
    let mut strays: Vec<usize> = Vec::new();
    // Ordered by their ends.
    let mut pairs: Vec<(usize, usize)> = Vec::new();
    let _ = scan(path, reading, |found| {
        match found {
            Found::Pair(opener, closer) => pairs.push((opener, closer)),
            Found::Stray(at) => strays.push(at),
            Found::Escape(at, end) => {
                marks[at] = ByteRole::Escape;
                marks[at + 1..end].fill(ByteRole::Escaped);
            }
        }
        ControlFlow::Continue(())
    });
    // An outer pair comes before the pairs inside it.
    let mut begun = bytes.len();
    for (opener, closer) in pairs.into_iter().rev() {
        if closer < begun {
            let inside = marks[opener + 1..closer].iter_mut().filter(|mark| **mark == ByteRole::Outside);
            inside.for_each(|mark| *mark = ByteRole::Inside);
            begun = opener;
        }
    }
    for at in strays {
        if marks[at] == ByteRole::Outside && matches!(bytes[at], b'(' | b')' | b'[' | b']') {
            marks[at] = ByteRole::Stray;
        }
    }
    marks
}

/// Returns the segments of a path, separated by `::` outside of brackets.
pub(super) fn segments(path: &str, marks: &[ByteRole]) -> Vec<Range<usize>> {
    let mut segments = Vec::new();
    let (mut start, mut at) = (0, 0);
    while at < path.len() {
        if path.as_bytes()[at..].starts_with(b"::") && marks[at..at + 2] == [ByteRole::Outside; 2] {
            segments.push(start..at);
            at += 2;
            start = at;
        } else {
            at += path[at..].chars().next().map_or(1, char::len_utf8);
        }
    }
    segments.push(start..path.len());
    segments
}

/// Splits a path before its last segment: into its module and its name. A path of one segment is
/// both.
pub fn split_last(path: &str) -> (&str, &str) {
    if !is_nested(path) {
        return path.rsplit_once("::").unwrap_or((path, path));
    }
    match segments(path, &marks(path, Reading::Path)).last() {
        Some(last) if last.start != 0 => (&path[..last.start - "::".len()], &path[last.start..]),
        _ => (path, path),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(path: &str) -> Vec<&str> {
        segments(path, &marks(path, Reading::Path)).into_iter().map(|range| &path[range]).collect()
    }

    #[test]
    fn a_path_is_a_module_and_a_name() {
        for (path, module, name) in [
            ("app::net::handle", "app::net", "handle"),
            ("geo::Stack<a::B>::push", "geo::Stack<a::B>", "push"),
            ("geo::Stack<a::B>", "geo", "Stack<a::B>"),
            ("sort", "sort", "sort"),
            ("geo::push<a::b>", "geo", "push<a::b>"),
            (":", ":", ":"),
            ("a::operator()", "a", "operator()"),
            ("é::ü", "é", "ü"),
        ] {
            assert_eq!(split_last(path), (module, name), "{path}");
        }
    }

    #[test]
    fn brackets_that_close_nest() {
        for (path, expected) in [
            ("geo::Stack<int>::push", &["geo", "Stack<int>", "push"][..]),
            (
                "std::vector<a::B,std::allocator<a::B>>::push_back",
                &["std", "vector<a::B,std::allocator<a::B>>", "push_back"],
            ),
            (
                "geo::area(a::B)::{lambda(c::D)#1}::operator()",
                &["geo", "area(a::B)", "{lambda(c::D)#1}", "operator()"],
            ),
            ("(anonymousnamespace)::f[abi:cxx11]", &["(anonymousnamespace)", "f[abi:cxx11]"]),
            ("a::F<(b::c)>(d::e)>::g", &["a", "F<(b::c)>(d::e)>", "g"]),
            ("a::F<decltype(b()->c::d)>::g", &["a", "F<decltype(b()->c::d)>", "g"]),
            ("a::F<(x<y::z)>::g", &["a", "F<(x<y::z)>", "g"]),
            ("a::F<b::c(*)(d::e)>::g", &["a", "F<b::c(*)(d::e)>", "g"]),
        ] {
            assert_eq!(split(path), expected);
        }
    }

    #[test]
    fn brackets_of_operators_do_not() {
        for (path, expected) in [
            ("a::operator<", &["a", "operator<"][..]),
            ("a::operator<::b", &["a", "operator<", "b"]),
            ("a::operator<<::{lambda(c::d<e>)#1}::f", &["a", "operator<<", "{lambda(c::d<e>)#1}", "f"]),
            ("a::operator<<b::c>", &["a", "operator<<b::c>"]),
            ("a::operator<<<b::c>", &["a", "operator<<<b::c>"]),
            ("a::operator<=>::b", &["a", "operator<=>", "b"]),
            ("a::operator->::b", &["a", "operator->", "b"]),
            ("a::operator>>::b", &["a", "operator>>", "b"]),
            ("a::F<&b::operator>>::g", &["a", "F<&b::operator>>", "g"]),
            ("a::operator()::b", &["a", "operator()", "b"]),
            ("a::operator[]::b", &["a", "operator[]", "b"]),
            ("a::my_operator<b::c>::d", &["a", "my_operator<b::c>", "d"]),
        ] {
            assert_eq!(split(path), expected);
        }
    }

    #[test]
    fn brackets_without_a_partner_are_characters() {
        assert_eq!(split("a<*::b"), ["a<*", "b"]);
        assert_eq!(split("a>::b"), ["a>", "b"]);
        assert_eq!(split("a{::b<c::d>"), ["a{", "b<c::d>"]);
        let marks = marks("f(::g]", Reading::Path);
        assert_eq!((marks[1], marks[5]), (ByteRole::Stray, ByteRole::Stray));
    }

    #[test]
    fn an_escaped_bracket_is_a_character() {
        let marks = marks(r"a\<b::c>\é", Reading::Selector);
        assert_eq!(marks[1..3], [ByteRole::Escape, ByteRole::Escaped]);
        assert_eq!(segments(r"a\<b::c>\é", &marks), [0..4, 6..11]);
        assert_eq!(super::marks(r"a\", Reading::Selector)[1], ByteRole::Escape);
    }

    proptest::proptest! {
        #[test]
        fn every_text_has_segments(path in r"[a-z<>()\[\]{}:\\,é-]{0,40}") {
            for escapes in [Reading::Selector, Reading::Path] {
                let marks = marks(&path, escapes);
                let segments = segments(&path, &marks);
                let joined = segments.iter().map(|range| &path[range.clone()]).collect::<Vec<_>>().join("::");
                proptest::prop_assert_eq!(joined, path.clone());
            }
        }

        /// The segments after the first are those of the rest read alone, so a matcher may continue
        /// from any segment.
        #[test]
        fn the_rest_of_a_path_reads_the_same_alone(path in r"[ab<>()\[\]{}:-]{0,40}") {
            let all = split(&path);
            for (n, _) in all.iter().enumerate() {
                let rest = all[n..].join("::");
                proptest::prop_assert_eq!(split(&rest), &all[n..]);
            }
        }
    }
}
