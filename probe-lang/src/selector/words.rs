//! The parts of a selector, and their ends. Pure and linear: each byte is visited a fixed number of
//! times, however many parts there are.
//!
//! A word ends at whitespace, or at a comma before an `@file`. The brackets of a word are matched
//! once. Outside of brackets, the text after a comma reads the same in the word as alone: no
//! bracket before the comma has its partner after it.

use std::ops::Range;

use super::nesting::{ByteRole, marks};
use crate::brackets::{Reading, ends_in_operator};

/// Cuts a text into parts, from its beginning to its end.
pub struct TextWords<'a> {
    text: &'a str,
    /// Range of the current word; `marks` holds the roles of its bytes.
    word: Range<usize>,
    marks: Vec<ByteRole>,
}

impl<'a> TextWords<'a> {
    /// Cuts this text.
    pub fn new(text: &'a str) -> Self {
        Self { text, word: 0..0, marks: Vec::new() }
    }

    /// Returns the part that begins at `at`, up to the next whitespace or comma. `at` is neither.
    /// Whitespace and commas in brackets or after a backslash belong to the part, but not in the
    /// name of a file.
    pub(super) fn part(&mut self, at: usize) -> &'a str {
        let rest = &self.text[at..];
        if rest.starts_with('@') {
            let end = rest.find(|c: char| c.is_whitespace() || c == ',');
            return &rest[..end.unwrap_or(rest.len())];
        }
        let marks = self.roles(at);
        let comma =
            rest.bytes().zip(marks).position(|(byte, mark)| byte == b',' && *mark == ByteRole::Outside);
        &rest[..comma.unwrap_or(marks.len())]
    }

    /// Returns whether a character is neither in brackets nor escaped. Ask for one after the other,
    /// since a word begins where the one before has ended.
    pub fn is_outside(&mut self, at: usize) -> bool {
        self.roles(at).first().is_none_or(|role| matches!(role, ByteRole::Outside | ByteRole::Stray))
    }

    /// Returns the roles of the bytes from `at` to the end of its word.
    fn roles(&mut self, at: usize) -> &[ByteRole] {
        if !self.word.contains(&at) {
            self.word = at..at + word_len(&self.text[at..]);
            self.marks = marks(&self.text[self.word.clone()], Reading::Selector);
        }
        &self.marks[at - self.word.start..]
    }
}

/// A key that a part of a term may begin with, such as `kind` in `kind=entry`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum TermKey {
    Kind,
    Group,
}

impl TermKey {
    pub(super) const ALL: [Self; 2] = [Self::Kind, Self::Group];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Kind => "kind",
            Self::Group => "group",
        }
    }

    pub(super) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|key| key.name() == name)
    }
}

/// Returns whether a text ends with a word that is a `TermKey`.
pub fn is_key(text: &str) -> bool {
    let word = text.rfind(|c: char| c.is_whitespace() || matches!(c, ',' | '!')).map_or(0, |at| at + 1);
    // The character there is of one byte, or whitespace, which no key has.
    TermKey::ALL.iter().any(|key| text.get(word..) == Some(key.name()))
}

/// Returns the key and the value of a part such as `kind=entry`; the key need not be a `TermKey`.
/// A path has no key, also if the name of an operator, or a bracket, holds a `=`.
pub(super) fn keyed(part: &str) -> Option<(&str, &str)> {
    let is_word = |text: &str| text.chars().all(|c| c.is_alphanumeric() || c == '_');
    part.split_once('=').filter(|(key, _)| is_word(key) && !ends_in_operator(key))
}

/// Returns the length of the word at the beginning of a text. A backslash may escape whitespace in
/// it, and the comma before an `@`.
fn word_len(text: &str) -> usize {
    let mut is_escaped = false;
    let mut comma = None;
    for (at, c) in text.char_indices() {
        match c {
            _ if is_escaped => (is_escaped, comma) = (false, None),
            c if c.is_whitespace() => return at,
            '\\' => (is_escaped, comma) = (true, None),
            ',' => comma = Some(at),
            '!' => (),
            '@' if comma.is_some() => return comma.unwrap_or(at),
            _ => comma = None,
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Returns all parts as the parser walks them.
    fn parts(text: &str) -> Vec<&str> {
        let mut words = TextWords::new(text);
        walk(text, |at| words.part(at).len())
    }

    fn walk(text: &str, mut len: impl FnMut(usize) -> usize) -> Vec<&str> {
        let (mut parts, mut at) = (Vec::new(), 0);
        while at < text.len() {
            let c = text[at..].chars().next().unwrap_or_default();
            if c.is_whitespace() || matches!(c, ',' | '!') {
                at += c.len_utf8();
                continue;
            }
            let len = len(at);
            assert_ne!(len, 0, "no end in sight");
            parts.push(&text[at..at + len]);
            at += len;
        }
        parts
    }

    /// The definition in its simplest form: matches the brackets anew for each part.
    fn reference(text: &str, at: usize) -> usize {
        let rest = &text[at..];
        if rest.starts_with('@') {
            return rest.find(|c: char| c.is_whitespace() || c == ',').unwrap_or(rest.len());
        }
        let word = &rest[..word_len(rest)];
        let marks = marks(word, Reading::Selector);
        let comma = word.match_indices(',').find(|(at, _)| marks[*at] == ByteRole::Outside);
        comma.map_or(word.len(), |(at, _)| at)
    }

    #[test]
    fn parts_end_at_whitespace_and_commas() {
        for (text, expected) in [
            ("a b,c", &["a", "b", "c"][..]),
            ("F<a,b>::c,d kind=entry", &["F<a,b>::c", "d", "kind=entry"]),
            (r"a\,b\ c,d", &[r"a\,b\ c", "d"]),
            ("f(a,@b(c,!d", &["f(a", "@b(c", "d"]),
            ("f(a,!@b),c)", &["f(a", "@b)", "c)"]),
            (r"f(a\,@b),c", &[r"f(a\,@b)", "c"]),
            ("f(a@b,c),d", &["f(a@b,c)", "d"]),
        ] {
            assert_eq!(parts(text), expected, "{text}");
        }
    }

    proptest! {
        #[test]
        fn words_are_matched_once_as_if_they_were_matched_for_each_part(
            text in r"([a,!@ \\<>()\[\]{}-]|operator){0,60}",
        ) {
            prop_assert_eq!(parts(&text), walk(&text, |at| reference(&text, at)));
        }
    }
}
