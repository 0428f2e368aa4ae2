//! From text to selector.

use std::error;
use std::fmt;

use super::glob::Glob;
use super::{Selector, Term};
use crate::abi::Kind;

/// What is wrong with a selector, and where.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SelectorError {
    selector: String,
    at: usize,
    problem: String,
}

impl SelectorError {
    /// The column, in characters, from 1.
    pub fn column(&self) -> usize {
        self.selector[..self.at].chars().count() + 1
    }

    /// What is wrong there, and what would be right.
    pub fn problem(&self) -> &str {
        &self.problem
    }
}

impl fmt::Display for SelectorError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = self.selector.replace(char::is_control, " ");
        writeln!(f, "malformed selector, column {}: {}", self.column(), self.problem)?;
        writeln!(f, "  {shown}")?;
        write!(f, "  {:>width$}", "^", width = self.column())
    }
}

impl error::Error for SelectorError {}

pub(super) fn parse(text: &str) -> Result<Selector, SelectorError> {
    let parser = Parser { text };
    let mut terms = Vec::new();
    let mut start = 0;
    for term in text.split(',') {
        terms.push(parser.term(start, term)?);
        start += term.len() + 1;
    }
    Ok(Selector { terms })
}

struct Parser<'a> {
    text: &'a str,
}

impl Parser<'_> {
    fn error<T>(&self, at: usize, problem: impl Into<String>) -> Result<T, SelectorError> {
        Err(SelectorError { selector: self.text.to_owned(), at, problem: problem.into() })
    }

    fn term(&self, start: usize, text: &str) -> Result<Term, SelectorError> {
        let mut term = Term::default();
        let mut at = start + (text.len() - text.trim_start().len());
        let mut rest = text.trim();
        if rest.is_empty() {
            return self.error(at.min(self.text.len()), "a probe's path, `@file` or `kind=` is missing here");
        }
        if let Some(excluded) = rest.strip_prefix('!') {
            term.is_exclusion = true;
            at += 1 + (excluded.len() - excluded.trim_start().len());
            rest = excluded.trim_start();
            if rest.is_empty() {
                return self.error(at.min(self.text.len()), "`!` must be followed by what to exclude");
            }
        }
        while !rest.is_empty() {
            let len = rest.find(char::is_whitespace).unwrap_or(rest.len());
            self.part(&mut term, at, &rest[..len])?;
            let later = rest[len..].trim_start();
            at += rest.len() - later.len();
            rest = later;
        }
        Ok(term)
    }

    fn part(&self, term: &mut Term, at: usize, part: &str) -> Result<(), SelectorError> {
        if let Some(file) = part.strip_prefix('@') {
            self.file(term, at, file)
        } else if let Some((key, value)) = part.split_once('=') {
            if key != "kind" {
                return self.error(at, format!("`{key}=` is not known; there is `kind=entry|exit|point`"));
            }
            self.kinds(term, at, at + key.len() + 1, value)
        } else {
            self.path(term, at, part)
        }
    }

    fn path(&self, term: &mut Term, at: usize, path: &str) -> Result<(), SelectorError> {
        if term.path.is_some() {
            return self.error(at, "a second path in one term; separate terms by a comma");
        }
        let mut start = at;
        for segment in path.split("::") {
            self.segment(start, segment, |c| c.is_alphanumeric() || "_-.*<>{}#".contains(c))?;
            start += segment.len() + 2;
        }
        term.path = Some(Glob::new(path, "::"));
        Ok(())
    }

    fn segment(&self, at: usize, segment: &str, allowed: impl Fn(char) -> bool) -> Result<(), SelectorError> {
        if segment.is_empty() {
            return self.error(at, "an empty segment");
        }
        if let Some((offset, wrong)) = segment.char_indices().find(|(_, c)| !allowed(*c)) {
            let hint = if wrong == '!' { "; `!` belongs at the beginning of a term" } else { "" };
            return self.error(at + offset, format!("`{wrong}` can't be part of a path{hint}"));
        }
        match segment.find("**") {
            Some(offset) if segment != "**" => self.error(at + offset, "`**` must be a segment of its own"),
            _ => Ok(()),
        }
    }

    fn file(&self, term: &mut Term, at: usize, text: &str) -> Result<(), SelectorError> {
        if term.file.is_some() {
            return self.error(at, "a second `@file` in one term; separate terms by a comma");
        }
        let (file, line) = match text.rsplit_once(':') {
            Some((file, line)) => (file, Some(line)),
            None => (text, None),
        };
        let after = at + 1;
        if file.is_empty() {
            return self.error(after, "`@` must be followed by a file name");
        }
        let mut start = after;
        for segment in file.trim_start_matches('/').split('/') {
            self.segment(start, segment, |c| !c.is_control())?;
            start += segment.len() + 1;
        }
        if let Some(line) = line {
            match line.parse() {
                Ok(number) if number != 0 => term.line = Some(number),
                _ => {
                    let at = after + file.len() + 1;
                    return self.error(at, format!("`{line}` is not a line number"));
                }
            }
        }
        term.file = Some(Glob::new(file, "/"));
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
                Some(kind) => kinds.push(kind),
                None => {
                    return self
                        .error(start, format!("`{word}` is not a kind; there are entry, exit and point"));
                }
            }
            start += word.len() + 1;
        }
        term.kinds = Some(kinds);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

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
            ("@x.rs:", 7, "is not a line number"),
            ("@x.rs:0", 7, "is not a line number"),
            ("@x.rs:1x", 7, "`1x` is not a line number"),
            ("@x.rs @y.rs", 7, "a second `@file`"),
            ("kind=", 6, "is not a kind"),
            ("a, kind=entry|entrance", 15, "`entrance` is not a kind"),
            ("kind=entry kind=exit", 12, "a second `kind=`"),
            ("kinds=entry", 1, "`kinds=` is not known"),
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
            "malformed selector, column 14: `entrance` is not a kind; there are entry, exit and point\n  \
             net::*, kind=entrance\n               ^"
        );
    }

    proptest! {
        #[test]
        fn never_panics(text: String) {
            if let Err(error) = parse(&text) {
                let _ = error.to_string();
            }
        }

        #[test]
        fn never_panics_on_likely_text(text in "[ab:*!@,. =|0-9a-z/]{0,30}") {
            if let Err(error) = parse(&text) {
                prop_assert!(error.column() <= text.chars().count() + 1);
                let _ = error.to_string();
            }
        }
    }
}
