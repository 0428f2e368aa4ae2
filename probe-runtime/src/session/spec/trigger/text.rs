//! The text of a trigger. Pure.
//!
//! ```text
//! trigger  = "when" "latency(" SELECTOR ")" ">" TIME ":" action
//! action   = [ "attach" SELECTOR "for" TIME "," "then" ] "snapshot" [ "(" options ")" ]
//! options  = "at_most=NUMBER" | "rest=TIME" | "replace", separated by commas
//! ```
//! Parentheses of the first selector are balanced, or escaped. The word `for` ends the second one.

use std::fmt;
use std::time::Duration;

use super::keep::Keep;
use probe_lang::ParseError;
use probe_lang::brackets::closing;
use probe_lang::selector::Selector;
use probe_lang::suggest::unknown;
use probe_lang::trigger::WHEN;
use probe_lang::units::{time, time_len};

const CONDITION: &str = "latency(db::query) > 5ms";
const ATTACH: &str = "attach db::** for 200ms, then snapshot";

/// A trigger as the text has it.
#[derive(Clone, Debug)]
pub(crate) struct TriggerRequest<'a> {
    /// Selects the functions whose calls may take too long.
    pub(super) selector: &'a str,
    pub(super) limit: Time<'a>,
    /// Selects the probes that are attached before the snapshot, and says for how long.
    pub(super) more: Option<(&'a str, Time<'a>)>,
    options: Option<&'a str>,
    pub(super) keep: Keep,
    /// The place of the word `snapshot`.
    pub(in crate::session::spec) at: usize,
}

/// A span of time, and its text.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Time<'a> {
    pub(super) span: Duration,
    pub(super) text: &'a str,
}

impl fmt::Display for TriggerRequest<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{WHEN} latency({}) > {}: ", self.selector, self.limit.text)?;
        if let Some((selector, time)) = self.more {
            write!(f, "attach {selector} for {}, then ", time.text)?;
        }
        f.write_str("snapshot")?;
        self.options.map_or(Ok(()), |options| write!(f, "({options})"))
    }
}

impl<'a> TriggerRequest<'a> {
    /// Parses the trigger that begins at this byte of the text. Returns it and its end: a comma, or
    /// the end of the text.
    pub(in crate::session::spec) fn parse(text: &'a str, at: usize) -> Result<(Self, usize), ParseError> {
        let mut cursor = Cursor { text, at };
        cursor.skip_word(WHEN);
        let selector = cursor.condition()?;
        if !cursor.skip(">") {
            return cursor.fail(format!("a limit must follow the selector: `{CONDITION}`"));
        }
        let limit = cursor.time()?;
        if !cursor.skip(":") {
            return cursor
                .fail(format!("`:` must stand between the limit and the action: `{CONDITION}: snapshot`"));
        }
        let more = if cursor.skip_word("attach") { Some(cursor.more()?) } else { None };
        let action = cursor.at;
        cursor.snapshot(more.is_some())?;
        let (options, keep) = cursor.options()?;
        if !cursor.rest().is_empty() && !cursor.rest().starts_with(',') {
            return cursor.fail("a comma must stand between a trigger and the text after it");
        }
        Ok((Self { selector, limit, more, options, keep, at: action }, cursor.at))
    }
}

/// The place up to which the text is read. It is never at whitespace.
struct Cursor<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Cursor<'a> {
    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn fail<T>(&self, problem: impl Into<String>) -> Result<T, ParseError> {
        Err(ParseError { at: self.at, problem: problem.into() })
    }

    /// Goes on by so many bytes, and behind the whitespace after them.
    fn go(&mut self, bytes: usize) -> &'a str {
        let passed = &self.rest()[..bytes];
        let rest = self.rest()[bytes..].trim_start();
        self.at = self.text.len() - rest.len();
        passed
    }

    fn skip(&mut self, expected: &str) -> bool {
        let is_there = self.rest().starts_with(expected);
        if is_there {
            self.go(expected.len());
        }
        is_there
    }

    /// Returns the word that begins here.
    fn word(&self) -> &'a str {
        let rest = self.rest();
        let is_end = |c: char| c.is_whitespace() || matches!(c, ',' | ':' | '(' | ')' | '>');
        &rest[..rest.find(is_end).unwrap_or(rest.len())]
    }

    fn skip_word(&mut self, expected: &str) -> bool {
        self.word() == expected && self.skip(expected)
    }

    /// Reads `latency(SELECTOR)`.
    fn condition(&mut self) -> Result<&'a str, ParseError> {
        let word = self.word();
        if word != "latency" {
            return self.fail(format!(
                "{}; a trigger waits for long calls: `{CONDITION}`",
                unknown(word, "condition", &["latency"])
            ));
        }
        self.go(word.len());
        let rest = self.rest();
        if !rest.starts_with('(') {
            return self.fail(format!("a selector in parentheses must follow `latency`: `{CONDITION}`"));
        }
        let Some(closed) = closing(rest) else {
            return self.fail(format!("this parenthesis is not closed; write `{CONDITION}`"));
        };
        self.go(1);
        let end = self.text.len() - rest.len() + closed;
        let selector = self.selector(&self.text[self.at.min(end)..end])?;
        self.at = end;
        self.go(1);
        Ok(selector)
    }

    /// Checks a selector that begins here.
    fn selector(&self, text: &'a str) -> Result<&'a str, ParseError> {
        let text = text.trim_end();
        match Selector::parse(text) {
            Ok(_) => Ok(text),
            Err(error) => Err(error.parse_error().after(self.at)),
        }
    }

    fn time(&mut self) -> Result<Time<'a>, ParseError> {
        let text = &self.rest()[..time_len(self.rest())];
        match time(text) {
            Ok(span) => Ok(Time { span, text: self.go(text.len()).trim_end() }),
            Err(problem) => self.fail(problem),
        }
    }

    /// Reads `SELECTOR for TIME, then`.
    fn more(&mut self) -> Result<(&'a str, Time<'a>), ParseError> {
        let Some(end) = before_for(self.rest()) else {
            return self.fail(format!("`for` and a time must follow this selector: `{ATTACH}`"));
        };
        let selector = self.selector(&self.rest()[..end])?;
        self.go(end);
        self.skip("for");
        let time = self.time()?;
        let at = self.at;
        if !self.skip(",") || !self.skip_word("then") {
            self.at = at;
            return self.fail(format!("`, then snapshot` must follow the time: `{ATTACH}`"));
        }
        Ok((selector, time))
    }

    fn snapshot(&mut self, is_second: bool) -> Result<(), ParseError> {
        let word = self.word();
        let (known, all): (&[_], _) = if is_second {
            (&["snapshot"], "`snapshot` must follow `then`".to_owned())
        } else {
            (&["snapshot", "attach"], format!("there are `snapshot` and `{ATTACH}`"))
        };
        if word != "snapshot" {
            return self.fail(format!("{}; {all}", unknown(word, "action", known)));
        }
        self.go(word.len());
        Ok(())
    }

    /// Reads options in parentheses, if there are any.
    fn options(&mut self) -> Result<(Option<&'a str>, Keep), ParseError> {
        if !self.rest().starts_with('(') {
            return Ok((None, Keep::default()));
        }
        let Some(closed) = self.rest().find(')') else {
            return self.fail("this parenthesis is not closed; write `snapshot(at_most=20, rest=1m)`");
        };
        let options = &self.rest()[1..closed];
        let keep = Keep::parse(options).map_err(|error| error.after(self.at + 1))?;
        self.go(closed + 1);
        Ok((Some(options), keep))
    }
}

/// Returns the length of the text before the word `for`. It is no name: Rust and C reserve it.
fn before_for(text: &str) -> Option<usize> {
    let is_word = |at: usize| {
        let (before, after) = (&text[..at], &text[at + 3..]);
        let is_apart = before.ends_with(char::is_whitespace) && !before.trim_end().ends_with('\\');
        (at == 0 || is_apart) && (after.is_empty() || after.starts_with(char::is_whitespace))
    };
    text.match_indices("for").map(|(at, _)| at).find(|at| is_word(*at))
}

#[cfg(test)]
mod tests;
