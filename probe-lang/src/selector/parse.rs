//! Parsing a text into a selector's terms.

use super::term::{GroupGlob, Term};
use super::words::{TermKey, TextWords, keyed};
use super::{MAX_LEN, MAX_PATTERNS, SelectorError, path, too_long};
use crate::error::ParseError;
use probe_core::abi::Kind;

pub(super) fn parse(text: &str) -> Result<Vec<Term>, SelectorError> {
    let mut parser = Parser { text, words: TextWords::new(text) };
    if let Some(at) = too_long(text) {
        let problem = format!(
            "a selector has at most {MAX_LEN} bytes, and this one has {}; name many probes at once, by `**`, \
             `@file` or `group=`, or select in several steps",
            text.len()
        );
        return parser.error(at, problem);
    }
    let (mut terms, mut patterns) = (Vec::new(), 0);
    let mut at = 0;
    loop {
        let term = parser.term(at)?;
        let (start, end) = (term.range.start, term.range.end);
        if term.only().is_none() {
            patterns += term.patterns();
        }
        if patterns > MAX_PATTERNS {
            let problem = format!(
                "a selector has at most {MAX_PATTERNS} terms with `*`, `@file`, `kind=` or `group=`, each group counted; \
                 name more at once, by `**`, or select in several steps"
            );
            return parser.error(start, problem);
        }
        terms.push(term);
        if end == text.len() {
            return Ok(terms);
        }
        at = end + 1;
    }
}

struct Parser<'a> {
    text: &'a str,
    words: TextWords<'a>,
}

impl Parser<'_> {
    fn error<T>(&self, at: usize, problem: impl Into<String>) -> Result<T, SelectorError> {
        Err(self.mistaken(at, problem.into()))
    }

    /// The same for an error in a part of the text that begins at `at`.
    fn error_in<T>(&self, at: usize, wrong: ParseError) -> Result<T, SelectorError> {
        let ParseError { at, problem } = wrong.after(at);
        self.error(at, problem)
    }

    #[cold]
    fn mistaken(&self, at: usize, problem: String) -> SelectorError {
        SelectorError { selector: self.text.to_owned(), at, problem }
    }

    fn skip_whitespace(&self, at: usize) -> usize {
        self.text.len() - self.text[at..].trim_start().len()
    }

    /// Returns whether a term ends here: at a comma, or at the end of the text.
    fn is_end(&self, at: usize) -> bool {
        self.text[at..].is_empty() || self.text[at..].starts_with(',')
    }

    /// Parses the term that begins here.
    fn term(&mut self, start: usize) -> Result<Term, SelectorError> {
        let mut term = Term::default();
        let mut at = self.skip_whitespace(start);
        if self.is_end(at) {
            return self.error(at, "a probe's path, `@file`, `kind=` or `group=` is missing here");
        }
        if self.text[at..].starts_with('!') {
            term.is_exclusion = true;
            at = self.skip_whitespace(at + 1);
            if self.is_end(at) {
                return self.error(at, "`!` must be followed by what to exclude");
            }
        }
        let start = at;
        while !self.is_end(at) {
            let part = self.words.part(at);
            self.part(&mut term, at, part)?;
            at = self.skip_whitespace(at + part.len());
        }
        term.range = start..at;
        Ok(term)
    }

    fn part(&self, term: &mut Term, at: usize, part: &str) -> Result<(), SelectorError> {
        if let Some(file) = part.strip_prefix('@') {
            return self.file(term, at, file);
        }
        let Some((key, value)) = keyed(part) else { return self.path(term, at, part) };
        let start = at + key.len() + 1;
        match TermKey::named(key) {
            Some(TermKey::Kind) => self.kinds(term, at, start, value),
            Some(TermKey::Group) => self.groups(term, at, start, value),
            None => self.error(
                at,
                format!(
                    "`{key}=` is not known; there are `kind=entry|exit|point|drop|suspend|resume|replace` and `group=…`"
                ),
            ),
        }
    }

    fn path(&self, term: &mut Term, at: usize, path: &str) -> Result<(), SelectorError> {
        if term.path.is_some() {
            let hint =
                if path.contains(['>', ')', ']', '}']) { " (in brackets, leave out spaces)" } else { "" };
            return self.error(at, format!("a second path in one term; separate terms by a comma{hint}"));
        }
        term.path = Some(path::path(path).or_else(|wrong| self.error_in(at, wrong))?);
        term.path_range = at..at + path.len();
        Ok(())
    }

    fn file(&self, term: &mut Term, at: usize, text: &str) -> Result<(), SelectorError> {
        if term.file.is_some() {
            return self.error(at, "a second `@file` in one term; separate terms by a comma");
        }
        let (file, line) = text.rsplit_once(':').map_or((text, None), |(file, line)| (file, Some(line)));
        let after = at + 1;
        if file.is_empty() {
            return self.error(after, "`@` must be followed by a file name");
        }
        let glob = path::file(file).or_else(|wrong| self.error_in(after, wrong))?;
        if let Some(line) = line {
            match line.parse() {
                Ok(number) if number != 0 => term.line = Some(number),
                _ => {
                    let at = after + file.len() + 1;
                    return self.error(at, format!("`{line}` is not a line number"));
                }
            }
        }
        term.file = Some(glob);
        Ok(())
    }

    fn kinds(&self, term: &mut Term, at: usize, start: usize, text: &str) -> Result<(), SelectorError> {
        if term.kinds.is_some() {
            return self.error(at, "a second `kind=` in one term; join kinds by `|`");
        }
        let mut kinds = Vec::new();
        let mut start = start;
        for word in text.split('|') {
            match Kind::ALL.into_iter().find(|kind| kind.name() == word) {
                Some(kind) if kinds.contains(&kind) => (),
                Some(kind) => kinds.push(kind),
                None => {
                    return self.error(
                        start,
                        format!("`{word}` is not a kind; there are entry, exit, point, drop, suspend, resume and replace"),
                    );
                }
            }
            start += word.len() + 1;
        }
        term.kinds = Some(kinds);
        Ok(())
    }

    fn groups(&self, term: &mut Term, at: usize, start: usize, text: &str) -> Result<(), SelectorError> {
        if term.groups.is_some() {
            return self.error(at, "a second `group=` in one term; join groups by `|`");
        }
        let mut groups = Vec::new();
        let mut start = start;
        for word in text.split('|') {
            if word.is_empty() {
                return self.error(start, "the name of a group is missing here");
            }
            let glob = path::path(word).or_else(|wrong| self.error_in(start, wrong))?;
            groups.push(GroupGlob { text: word.to_owned(), glob });
            start += word.len() + 1;
        }
        term.groups = Some(groups);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn an_unknown_key_names_the_known_ones() {
        let problem = parse("kinds=entry").unwrap_err().problem;
        for key in TermKey::ALL.map(TermKey::name) {
            assert!(problem.contains(&format!("`{key}=")), "{key}: {problem}");
        }
    }

    #[test]
    fn every_mistake_is_shown_where_it_is() {
        for (text, column, problem) in [
            ("", 1, "is missing here"),
            ("a, ", 4, "is missing here"),
            (",a", 1, "is missing here"),
            ("a,,b", 3, "is missing here"),
            ("!", 2, "must be followed by what to exclude"),
            ("a::", 4, "an empty segment"),
            ("a::::b", 4, "an empty segment"),
            ("a:b", 2, "`:` can't be part of a path"),
            ("a::b!", 5, "`!` belongs at the beginning"),
            ("é::a**", 5, "`**` must be a segment of its own"),
            ("a b", 3, "a second path"),
            ("@", 2, "must be followed by a file name"),
            ("@/a//b", 5, "an empty segment"),
            ("@//a**", 5, "`**` must be a segment of its own"),
            ("@x.rs:", 7, "is not a line number"),
            ("@x.rs:0", 7, "is not a line number"),
            ("@x.rs:1x", 7, "`1x` is not a line number"),
            ("@x.rs @y.rs", 7, "a second `@file`"),
            ("kind=", 6, "is not a kind"),
            ("a, kind=entry|entrance", 15, "`entrance` is not a kind"),
            ("kind=entry kind=exit", 12, "a second `kind=`"),
            ("kinds=entry", 1, "`kinds=` is not known"),
            ("group=", 7, "the name of a group is missing here"),
            ("group=a|", 9, "the name of a group is missing here"),
            ("group=a::", 10, "an empty segment"),
            ("group=a|b/c", 10, "`/` can't be part of a path"),
            ("group=a group=b", 9, "a second `group=`"),
            ("=entry", 1, "`=` is not known"),
            ("a::b=c", 5, "`=` can't be part of a path"),
            ("a::f(int", 5, "`(` can't be part of a path without what closes it"),
            ("a::f)::b", 5, "`)` can't be part of a path without what opens it"),
            ("a, S<int>::", 12, "an empty segment"),
            ("S<unsigned int>::f", 12, "leave out spaces"),
            ("a::b,c|d", 7, "`|` can't be part of a path"),
            ("src/main.rs", 4, "files begin with `@`"),
            ("a\\", 2, "without the character that it escapes"),
            ("a<b>**", 5, "`**` must be a segment of its own"),
        ] {
            let error = parse(text).expect_err(text);
            assert_eq!(error.column(), column, "{error}");
            assert!(error.problem().contains(problem), "{error}");
        }
    }

    #[test]
    fn the_message_points_at_the_place() {
        let text = parse("net::*, kind=entrance").unwrap_err().to_string();
        assert_eq!(
            text,
            "malformed selector, column 14: `entrance` is not a kind; there are entry, exit, point, drop, suspend, resume and replace\n  \
             net::*, kind=entrance\n               ^"
        );
    }

    #[test]
    fn a_selector_has_a_limit() {
        let list = |len: usize| "a,".repeat(len / 2 - 1) + "é";
        assert_eq!(parse(&list(MAX_LEN)).unwrap().len(), MAX_LEN / 2);
        let error = parse(&(list(MAX_LEN) + "é")).unwrap_err();
        assert_eq!(error.column(), MAX_LEN);
        let text = error.to_string();
        let problem = "malformed selector, column 65536: a selector has at most 65536 bytes, and this one has 65538; name many \
                       probes at once, by `**`, `@file` or `group=`, or select in several steps\n  …,a,a,";
        assert!(text.starts_with(problem) && text.len() < 500, "{text}");
    }

    #[test]
    fn patterns_have_a_limit() {
        let all = ["a*", "@a.rs", "kind=exit", "group=a|b", "!b::**"];
        let terms = all.repeat(MAX_PATTERNS / 6).join(",");
        assert!(parse(&(terms.clone() + ",a,b" + &",a*".repeat(MAX_PATTERNS % 6))).is_ok());
        let terms = terms + &",a*".repeat(MAX_PATTERNS % 6) + ", !c*";
        let error = parse(&terms).unwrap_err();
        assert_eq!(error.column(), terms.len() - 1);
        assert!(error.problem().starts_with("a selector has at most 1000 terms with `*`"), "{error}");
    }

    /// Parses each text repeated up to the limit. A quadratic parser would be so slow that the test
    /// needs no clock.
    #[test]
    #[cfg_attr(miri, ignore = "takes Miri too long")]
    fn long_texts_are_read_once() {
        for (text, is_right) in [
            ("a,", true),
            ("a*,", false),
            ("(", false),
            ("[(<{", false),
            ("<", true),
            ("<)", false),
            ("a<b,", true),
            ("a(b,", false),
            ("operator(", true),
            ("operator==", true),
            ("operator=,", true),
            ("=", false),
            ("@a,b(,", false),
            ("!@a,(,", false),
            ("\\(,", true),
            ("a::", true),
            ("*::", true),
            ("kind=entry|", false),
            ("group=a|", false),
            ("a ", false),
            ("!", false),
            ("é<", true),
        ] {
            let long = text.repeat(MAX_LEN / text.len() - 1) + "a";
            assert_eq!(parse(&long).is_ok(), is_right, "{text}");
            for partner in [")", "]"] {
                let _ = parse(&(long.clone() + partner));
            }
        }
        let nested = |open: &str, close: &str| {
            let n = MAX_LEN / (open.len() + close.len()) - 1;
            format!("a{}{}", open.repeat(n), close.repeat(n))
        };
        for (open, close) in [("(", ")"), ("<", ">"), ("<,", ">"), ("({[<", ">]})"), ("(<<<<", ")")] {
            assert_eq!(parse(&nested(open, close)).unwrap().len(), 1, "{open}");
        }
    }

    proptest! {
        #[test]
        fn never_panics(text: String) {
            if let Err(error) = parse(&text) {
                let _ = error.to_string();
            }
        }

        #[test]
        fn never_panics_on_likely_text(text in r"[ab:*!@,. =|0-9a-z/<>(){}\[\]\\-]{0,30}") {
            if let Err(error) = parse(&text) {
                prop_assert!(error.column() <= text.chars().count() + 1);
                let _ = error.to_string();
            }
        }
    }
}
