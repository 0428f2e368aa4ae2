//! The grammar of `when`: of rules, and of triggers in `PROBES`. Pure.
//!
//! ```text
//! when        = "when" condition [ "for" TIME ] [ "until" condition [ "for" TIME ] ]
//!               "then" action { "," action } { "at most" NUMBER "times" | "every" TIME }
//! condition   = all { "||" all }
//! all         = part { "&&" part }
//! part        = "!" part | "(" condition ")" | comparison      what `!` negates stands in parentheses
//! comparison  = figure ( ">" | ">=" | "<" | "<=" | "==" | "!=" ) limit
//! figure      = ( "rate" | "count" | "latency" | "p50" | "p90" | "p99" | "p999" | "mean" | "max" ) "(" SELECTOR ")"
//!             | ( "sum" | "avg" | "min" | "max" ) "(" EXPRESSION "of" SELECTOR ")"
//! limit       = TIME | NUMBER [ "K" | "M" | "G" ] [ "/s" ]
//! action      = "arm" SPEC | "disarm" SPEC | "record" SELECTOR "for" TIME [ "to" FILE ]
//!             | "snapshot" [ SELECTOR ] [ "to" FILE | "in one file" ] | "attach" SELECTOR "for" TIME
//!             | "run" QUOTED
//! ```
//! A comma ends an action if another one begins behind it: `arm a=count, b=latency, snapshot`.

use std::time::Duration;

use super::condition::{Comparison, Condition, check};
use super::figure::{Figure, Function, Unit};
use super::rule::{Action, Rule, SustainedCondition};
use crate::aggregation::Aggregation;
use crate::brackets::closing;
use crate::cursor::Cursor;
use crate::error::{ParseError, floor_char_boundary};
use crate::format::Format;
use crate::selector::unknown;
use crate::spec::{Selected, selected};
use crate::{expression, units};

/// The first word of a rule, and of a trigger.
pub const WHEN: &str = "when";
/// Greatest length of a rule, in bytes.
const MOST_BYTES: usize = 8192;
/// Most `!` and parentheses around a comparison.
const MOST_DEEP: usize = 32;
/// Firings of a rule that does not say how many.
pub(crate) const AT_MOST: u32 = 10;

const EXAMPLE: &str = "when p99(net::handle) > 5ms for 2s then record db::* for 1s";
const FIGURES: [&str; 12] =
    ["rate", "count", "latency", "p50", "p90", "p99", "p999", "mean", "max", "sum", "avg", "min"];
const ACTIONS: [&str; 6] = ["arm", "attach", "disarm", "record", "run", SNAPSHOT];
const SNAPSHOT: &str = "snapshot";
/// Words after the last action.
const TAIL: [&str; 2] = ["at most", "every"];

/// A `when` as it was written.
pub(crate) struct When<'a> {
    pub(crate) condition: SustainedCondition,
    pub(crate) until: Option<SustainedCondition>,
    /// The actions, each with the byte where it stands.
    pub(crate) actions: Vec<(Verb, usize)>,
    pub(crate) at_most: Option<u32>,
    pub(crate) every: Option<Duration>,
    /// Its selectors, in their order.
    pub(crate) selected: Vec<Selected>,
    /// The text of the last limit.
    pub(crate) limit: &'a str,
    /// The byte behind it: that of a comma, or the end of the text.
    pub(crate) end: usize,
}

/// An action as it was written.
#[derive(PartialEq, Eq, Debug)]
pub(crate) enum Verb {
    /// An action of rules.
    Act(Action),
    /// Adds probes to the recorders of `PROBES`, for this time.
    Attach(Duration),
    /// A snapshot that replaces the one before.
    SnapshotInOneFile,
}

/// Returns whether a text begins with this word of the grammar, and not with a selector that names
/// such a path: that continues with `=`, a comma, or a condition such as `kind=`. `is_alone` says
/// whether nothing needs to stand behind the word.
fn begins(text: &str, word: &str, is_alone: bool) -> bool {
    let Some(rest) = text.trim_start().strip_prefix(word) else { return false };
    let next = rest.trim_start();
    if next.is_empty() || next.starts_with(',') {
        return is_alone;
    }
    let goes_on = ["=", "@", "[", "kind=", "group="];
    next.len() < rest.len() && !goes_on.iter().any(|it| next.starts_with(it))
}

/// Returns whether a text begins with a `when`, and not with a selector.
pub fn begins_when(text: &str) -> bool {
    begins(text, WHEN, false)
}

fn begins_action(text: &str) -> bool {
    ACTIONS.iter().any(|word| begins(text, word, *word == SNAPSHOT))
}

/// Parses a rule that stands at this place: `FILE:LINE`, or `rule`.
///
/// # Errors
/// A mistake in it, with its place.
pub fn parse(place: &str, text: &str) -> Result<Rule, ParseError> {
    if text.len() > MOST_BYTES {
        let problem = format!("a rule has at most {MOST_BYTES} bytes, and these are {}", text.len());
        return Err(ParseError { at: floor_char_boundary(text, MOST_BYTES), problem });
    }
    let When { condition: when, until, actions, at_most, every, .. } = Parser::new(text, 0, true).when()?;
    let (mut acts, mut places) = (Vec::new(), Vec::new());
    for (verb, at) in actions {
        let problem = match verb {
            Verb::Act(action) => {
                acts.push(action);
                places.push(at);
                continue;
            }
            Verb::Attach(_) => {
                "`attach` adds probes to a flight recorder of `PROBES`; here, `record db::** for 1s`"
            }
            Verb::SnapshotInOneFile => {
                "here, each snapshot has a file of its own: `snapshot to slow.pftrace`"
            }
        };
        return Err(ParseError { at, problem: problem.to_owned() });
    }
    let (place, text, at_most) = (place.to_owned(), text.to_owned(), at_most.unwrap_or(AT_MOST));
    let rule = Rule { place, text, when, until, actions: acts, places, at_most, every };
    check(&rule)?;
    Ok(rule)
}

/// Parses the `when` that begins at a byte of a text, and ends at a comma or with the text.
pub(crate) fn when_at(text: &str, at: usize) -> Result<When<'_>, ParseError> {
    Parser::new(text, at, false).when()
}

struct Parser<'a> {
    cursor: Cursor<'a>,
    /// Whether the text has nothing behind the `when`.
    is_whole: bool,
    selected: Vec<Selected>,
    limit: &'a str,
}

impl<'a> Parser<'a> {
    fn new(text: &'a str, at: usize, is_whole: bool) -> Self {
        Self { cursor: Cursor::new(text, at), is_whole, selected: Vec::new(), limit: "" }
    }

    fn when(mut self) -> Result<When<'a>, ParseError> {
        if !self.cursor.skip_word(WHEN) {
            return self.cursor.fail(format!("a rule begins with `{WHEN}`: `{EXAMPLE}`"));
        }
        let condition = self.sustained()?;
        let until = if self.cursor.skip_word("until") { Some(self.sustained()?) } else { None };
        if !self.cursor.skip_word("then") {
            return self.not_joined(if until.is_some() {
                "`for TIME` or `then`"
            } else {
                "`for TIME`, `until` or `then`"
            });
        }
        let mut actions = Vec::new();
        loop {
            let at = self.cursor.at;
            actions.push((self.action()?, at));
            let behind = self.cursor.rest().strip_prefix(',');
            if !behind.is_some_and(|behind| self.is_whole || begins_action(behind)) {
                break;
            }
            self.cursor.pass(1);
        }
        let (at_most, every) = self.tail()?;
        let Self { cursor, selected, limit, .. } = self;
        Ok(When { condition, until, actions, at_most, every, selected, limit, end: cursor.at })
    }

    /// Says what may stand behind a comparison, besides what joins it with another one.
    fn not_joined<T>(&self, others: &str) -> Result<T, ParseError> {
        let problem = match self.cursor.word() {
            "and" => "write `&&`".to_owned(),
            "or" => "write `||`".to_owned(),
            _ if self.cursor.rest().starts_with(':') => {
                "write `then` in place of `:`, as in `when latency(db::query) > 5ms then snapshot`".to_owned()
            }
            _ => format!("`&&`, `||`, {others} stands after a comparison: `{EXAMPLE}`"),
        };
        self.cursor.fail(problem)
    }

    /// Reads how often it fires.
    fn tail(&mut self) -> Result<(Option<u32>, Option<Duration>), ParseError> {
        let (mut at_most, mut every) = (None, None);
        let cursor = &mut self.cursor;
        loop {
            if at_most.is_none() && cursor.skip_word("at") {
                if !cursor.skip_word("most") {
                    return cursor.fail("write `at most 3 times`");
                }
                at_most = Some(cursor.number("at most 3 times")?);
                if !cursor.skip_word("times") && !cursor.skip_word("time") {
                    return cursor.fail("write `at most 3 times`");
                }
            } else if every.is_none() && cursor.skip_word("every") {
                every = Some(cursor.time()?);
            } else if cursor.rest().is_empty() || (cursor.rest().starts_with(',') && !self.is_whole) {
                return Ok((at_most, every));
            } else {
                return cursor.fail(match cursor.rest().as_bytes()[0] {
                    b',' => "all actions stand before `at most` and `every`, which are of the rule",
                    b';' => "a comma stands between two actions",
                    b'(' => {
                        "what a snapshot may have stands behind it, without parentheses: `snapshot in one file`, \
                         `at most 3 times`, `every 1m`"
                    }
                    _ => "a comma and another action, `at most 3 times`, `every 1m` or the end stands here",
                });
            }
        }
    }

    /// Reads a condition, and for how long it must hold.
    fn sustained(&mut self) -> Result<SustainedCondition, ParseError> {
        let condition = self.any_of(false, 0)?;
        let time = if self.cursor.skip_word("for") { self.cursor.time()? } else { Duration::ZERO };
        Ok(SustainedCondition { condition, time })
    }

    /// Reads parts joined by `||`. Of a text that is negated, each comparison is, and `&&` stands
    /// in place of `||`.
    fn any_of(&mut self, is_negated: bool, depth: usize) -> Result<Condition, ParseError> {
        let mut parts = vec![self.all_of(is_negated, depth)?];
        while self.cursor.skip("||") {
            parts.push(self.all_of(is_negated, depth)?);
        }
        Ok(joined(parts, if is_negated { Condition::All } else { Condition::Any }))
    }

    fn all_of(&mut self, is_negated: bool, depth: usize) -> Result<Condition, ParseError> {
        let mut parts = vec![self.part(is_negated, depth)?];
        while self.cursor.skip("&&") {
            parts.push(self.part(is_negated, depth)?);
        }
        Ok(joined(parts, if is_negated { Condition::Any } else { Condition::All }))
    }

    fn part(&mut self, is_negated: bool, depth: usize) -> Result<Condition, ParseError> {
        let is_not = self.cursor.rest().starts_with('!');
        if !is_not && !self.cursor.rest().starts_with('(') {
            return self.comparison(is_negated).map(Condition::Comparison);
        }
        if depth == MOST_DEEP {
            let problem = format!("at most {MOST_DEEP} `!` and parentheses stand around a comparison");
            return self.cursor.fail(problem);
        }
        if is_not {
            self.cursor.skip("!");
            if !self.cursor.rest().starts_with(['!', '(']) {
                return self.cursor.fail("what `!` negates stands in parentheses: `!(rate(f) > 5)`");
            }
            return self.part(!is_negated, depth + 1);
        }
        self.cursor.skip("(");
        let inside = self.any_of(is_negated, depth + 1)?;
        if !self.cursor.skip(")") {
            if self.cursor.word() == "for" {
                return self.cursor.fail("`for TIME` is behind the whole condition");
            }
            return self.not_joined("or `)`");
        }
        Ok(inside)
    }

    fn comparison(&mut self, is_negated: bool) -> Result<Comparison, ParseError> {
        let at = self.cursor.at;
        let figure = self.figure()?;
        let Some((symbol, operator)) = expression::Comparison::at_start(self.cursor.rest()) else {
            return self
                .cursor
                .fail("a comparison stands here: `>`, `>=`, `<`, `<=`, `==` or `!=`, and a limit");
        };
        self.cursor.pass(symbol.len());
        let limit = self.limit(&figure)?;
        let operator = if is_negated { operator.negated() } else { operator };
        Ok(Comparison { figure, operator, limit, at })
    }

    /// Reads a figure, such as `p99(net::handle)` or `sum(bytes of net::sent)`.
    fn figure(&mut self) -> Result<Figure, ParseError> {
        let cursor = &mut self.cursor;
        let word = cursor.word();
        if word == "not" {
            return cursor.fail("write `!(…)`");
        }
        if !FIGURES.contains(&word) {
            let problem = unknown(word, "figure", &FIGURES);
            return cursor.fail(format!("{problem}; there are {}", FIGURES.join(", ")));
        }
        cursor.pass(word.len());
        if !cursor.rest().starts_with('(') {
            return cursor.fail(format!("a selector in parentheses stands after `{word}`: `{EXAMPLE}`"));
        }
        let Some(closer) = closing(cursor.rest()) else {
            return cursor.fail("this parenthesis is not closed");
        };
        let start = cursor.at + 1;
        let inside = &cursor.pass(closer + 1)[1..closer];
        let of_hits = Function::named(word, false);
        let number = match (of_hits, Function::named(word, true)) {
            (_, None) => None,
            // `max(f)` is of calls, `max(bytes of f)` is of a field.
            (Some(_), Some(function)) => number(inside).ok().map(|it| (function, it)),
            (None, Some(function)) => Some((function, number(inside).map_err(|error| error.after(start))?)),
        };
        match (number, of_hits) {
            (Some((function, (number, is_time, rest))), _) => {
                let selector = self.selector(&inside[rest..], start + rest)?;
                let figure = Figure::of_field(function, number, is_time, selector);
                let (_, aggregation) = figure.spec.rsplit_once('=').unwrap_or_default();
                Aggregation::parse(aggregation).map_err(|error| ParseError { at: start, ..error })?;
                Ok(figure)
            }
            (None, Some(function)) => Ok(Figure::of_hits(function, self.selector(inside, start)?)),
            (None, None) => self.cursor.fail("this figure is not known"),
        }
    }

    /// Takes the selector of a text that begins at a byte of the whole one. A predicate in brackets
    /// may follow it.
    fn selector(&mut self, text: &'a str, start: usize) -> Result<&'a str, ParseError> {
        let start = start + text.len() - text.trim_start().len();
        self.selected.push(selected(text.trim()).map_err(|error| error.after(start))?);
        Ok(text.trim())
    }

    fn limit(&mut self, figure: &Figure) -> Result<f64, ParseError> {
        let len = units::quantity_len(self.cursor.rest());
        let text = &self.cursor.rest()[..len];
        let (problem, limit) = match figure.unit() {
            Unit::Time => {
                let time = units::time(text).ok().map(|it| it.as_nanos() as f64);
                ("is no span of time; write `5ms` or `2s`", time)
            }
            Unit::Rate => {
                let number = units::hits(text.strip_suffix("/s").unwrap_or(text)).filter(|it| *it >= 0.0);
                ("is no number of hits a second; write `1000` or `10K/s`", number)
            }
            Unit::Number if figure.function == Function::Count => {
                ("is no number of hits; write `1000` or `10K`", units::hits(text))
            }
            Unit::Number => ("is no number; write `1000` or `64K`", units::number(text)),
        };
        let Some(limit) = limit else { return self.cursor.fail(format!("`{text}` {problem}")) };
        self.limit = self.cursor.pass(len);
        Ok(limit)
    }

    fn action(&mut self) -> Result<Verb, ParseError> {
        let word = self.cursor.word();
        if !ACTIONS.contains(&word) {
            let problem = unknown(word, "action", &ACTIONS);
            return self.cursor.fail(format!("{problem}; there are {}", ACTIONS.join(", ")));
        }
        self.cursor.pass(word.len());
        Ok(Verb::Act(match word {
            "record" => {
                let (selector, time) = self.for_a_time("record db::* for 1s")?;
                let selector = selector.to_owned();
                Action::Record { selector, time, file: self.file(&Format::RECORDED)? }
            }
            "attach" => return Ok(Verb::Attach(self.for_a_time("attach db::** for 200ms")?.1)),
            SNAPSHOT => {
                let stops = ["to", "in one", "at most", "every"];
                let (at, text) = if self.cursor.rest().starts_with(['(', ',']) {
                    (self.cursor.at, "")
                } else {
                    self.cursor.operand(&stops, begins_action)
                };
                let selector = if text.is_empty() { None } else { Some(self.selector(text, at)?.to_owned()) };
                if selector.is_none() && self.cursor.skip_word("in") {
                    if !self.cursor.skip_word("one") || !self.cursor.skip_word("file") {
                        return self.cursor.fail("write `snapshot in one file`");
                    }
                    return Ok(Verb::SnapshotInOneFile);
                }
                Action::Snapshot { selector, file: self.file(&Format::SNAPSHOTS)? }
            }
            "run" => {
                let command = self.cursor.quoted("`run 'systemctl reload app'`")?;
                if command.trim().is_empty() || command.contains('\0') {
                    return self.cursor.fail("a command for the shell stands in the quotes before");
                }
                Action::Run(command.to_owned())
            }
            word => {
                let (at, spec) = self.cursor.operand(&TAIL, begins_action);
                if spec.is_empty() {
                    let problem = format!("consumers stand here, as in `PROBES`: `{word} db::**=latency`");
                    return Err(ParseError { at, problem });
                }
                let spec = spec.to_owned();
                if word == "arm" { Action::Arm(spec) } else { Action::Disarm(spec) }
            }
        }))
    }

    /// Reads `SELECTOR for TIME`.
    fn for_a_time(&mut self, example: &str) -> Result<(&'a str, Duration), ParseError> {
        let (at, text) = self.cursor.operand(&["for"], |_| false);
        let selector = self.selector(text, at)?;
        if !self.cursor.skip_word("for") {
            return self.cursor.fail(format!("`for` and a time stand here: `{example}`"));
        }
        Ok((selector, self.cursor.time()?))
    }

    /// Reads the file of a trace. Its ending tells the format.
    fn file(&mut self, formats: &[Format]) -> Result<Option<String>, ParseError> {
        if !self.cursor.skip_word("to") {
            return Ok(None);
        }
        let at = self.cursor.at;
        let file = self.cursor.file()?;
        if file.is_empty() || file.chars().any(char::is_control) {
            let problem = "this is no name of a file".to_owned();
            return Err(ParseError { at, problem });
        }
        if Format::of_name(file, formats.iter().copied()).is_none() {
            let endings: Vec<_> = formats.iter().map(|format| format!("`.{}`", format.ending())).collect();
            let problem = format!("`{file}` tells no format: use a name with {}", endings.join(", "));
            return Err(ParseError { at, problem });
        }
        Ok(Some(file.to_owned()))
    }
}

fn joined(mut parts: Vec<Condition>, join: fn(Vec<Condition>) -> Condition) -> Condition {
    if parts.len() == 1 { parts.remove(0) } else { join(parts) }
}

/// Reads `bytes of ` at the beginning of a text. Returns the number, whether it is a time, and the
/// byte behind.
fn number(text: &str) -> Result<(&str, bool, usize), ParseError> {
    let mut parser = expression::Parser::new(text, 0)?;
    let node = parser.expression()?;
    let at = parser.at;
    match text[at..].strip_prefix("of").filter(|rest| rest.starts_with(char::is_whitespace)) {
        Some(rest) => Ok((text[..at].trim(), node.time().is_some(), text.len() - rest.len())),
        None => Err(ParseError {
            at,
            problem: "`of` and a selector stand here: `sum(bytes of net::sent)`".to_owned(),
        }),
    }
}

#[cfg(test)]
mod tests;
