//! The grammar of rules. Pure.
//!
//! ```text
//! rule        = "when" condition [ "for" TIME ] [ "until" condition [ "for" TIME ] ]
//!               "then" action { ";" action } { "at most" NUMBER "times" | "every" TIME }
//! condition   = all { "or" all }
//! all         = part { "and" part }
//! part        = "not" part | "(" condition ")" | comparison
//! comparison  = figure ( ">" | ">=" | "<" | "<=" | "==" | "!=" ) limit
//! figure      = ( "rate" | "count" | "p50" | "p90" | "p99" | "p999" | "mean" | "max" ) "(" SELECTOR ")"
//!             | ( "sum" | "avg" | "min" | "max" ) "(" EXPRESSION "of" SELECTOR ")"
//! limit       = TIME | NUMBER [ "K" | "M" | "G" ] [ "/s" ]
//! action      = "arm" SPEC | "disarm" SPEC | "record" SELECTOR "for" TIME [ "to" FILE ]
//!             | "snapshot" [ SELECTOR ] [ "to" FILE ] | "run" QUOTED
//! ```

use std::time::Duration;

use super::condition::{Comparison, Condition, Operator, check};
use super::figure::{Figure, Function, Unit};
use super::rule::{Action, Rule, SustainedCondition};
use crate::ParseError;
use crate::aggregation::Aggregation;
use crate::brackets::closing;
use crate::cursor::Cursor;
use crate::error::floor_char_boundary;
use crate::expression::Parser;
use crate::format::Format;
use crate::spec::selected;
use crate::suggest::unknown;
use crate::trigger::WHEN;
use crate::units;

/// Greatest length of a rule, in bytes.
const MOST_BYTES: usize = 8192;
/// Most `not` and parentheses around a comparison.
const MOST_DEEP: usize = 32;
/// Firings of a rule that does not say how many.
const AT_MOST: u32 = 10;

const EXAMPLE: &str = "when p99(net::handle) > 5ms for 2s then record db::* for 1s";
const FIGURES: [&str; 11] =
    ["rate", "count", "p50", "p90", "p99", "p999", "mean", "max", "sum", "avg", "min"];
const ACTIONS: [&str; 5] = ["arm", "disarm", "record", "snapshot", "run"];
/// Words after the last action.
const TAIL: [&str; 2] = ["at most", "every"];

/// Parses a rule that stands at this place: `FILE:LINE`, or `rule`.
pub fn parse(place: &str, text: &str) -> Result<Rule, ParseError> {
    if text.len() > MOST_BYTES {
        let problem = format!("a rule has at most {MOST_BYTES} bytes, and these are {}", text.len());
        return Err(ParseError { at: floor_char_boundary(text, MOST_BYTES), problem });
    }
    let mut cursor = Cursor::new(text);
    if !cursor.skip_word(WHEN) {
        return cursor.fail(format!("a rule begins with `{WHEN}`: `{EXAMPLE}`"));
    }
    let when = held(&mut cursor)?;
    let until = if cursor.skip_word("until") { Some(held(&mut cursor)?) } else { None };
    if !cursor.skip_word("then") {
        let words = if until.is_some() { "`for TIME` or `then`" } else { "`for TIME`, `until` or `then`" };
        return cursor.fail(format!("`and`, `or`, {words} stands after a comparison: `{EXAMPLE}`"));
    }
    let mut actions = Vec::new();
    let mut places = Vec::new();
    loop {
        places.push(cursor.at);
        actions.push(action(&mut cursor)?);
        if !cursor.skip(";") {
            break;
        }
    }
    let (at_most, every) = tail(&mut cursor)?;
    let (place, text) = (place.to_owned(), text.to_owned());
    let at_most = at_most.unwrap_or(AT_MOST);
    let rule = Rule { place, text, when, until, actions, places, at_most, every };
    check(&rule)?;
    Ok(rule)
}

/// Reads how often the rule fires.
fn tail(cursor: &mut Cursor<'_>) -> Result<(Option<u32>, Option<Duration>), ParseError> {
    let (mut at_most, mut every) = (None, None);
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
        } else if cursor.rest().is_empty() {
            return Ok((at_most, every));
        } else if cursor.rest().starts_with(';') && (at_most.is_some() || every.is_some()) {
            return cursor.fail("all actions stand before `at most` and `every`, which are of the rule");
        } else {
            return cursor
                .fail("`;` and another action, `at most 3 times`, `every 1m` or the end stands here");
        }
    }
}

/// Reads a condition, and for how long it must hold.
fn held(cursor: &mut Cursor<'_>) -> Result<SustainedCondition, ParseError> {
    let condition = any_of(cursor, false, 0)?;
    let time = if cursor.skip_word("for") { cursor.time()? } else { Duration::ZERO };
    Ok(SustainedCondition { condition, time })
}

/// Reads parts joined by `or`. Of a text that is negated, each comparison is, and `and` stands in
/// place of `or`.
fn any_of(cursor: &mut Cursor<'_>, is_negated: bool, depth: usize) -> Result<Condition, ParseError> {
    let mut parts = vec![all_of(cursor, is_negated, depth)?];
    while cursor.skip_word("or") {
        parts.push(all_of(cursor, is_negated, depth)?);
    }
    Ok(joined(parts, if is_negated { Condition::All } else { Condition::Any }))
}

fn all_of(cursor: &mut Cursor<'_>, is_negated: bool, depth: usize) -> Result<Condition, ParseError> {
    let mut parts = vec![part(cursor, is_negated, depth)?];
    while cursor.skip_word("and") {
        parts.push(part(cursor, is_negated, depth)?);
    }
    Ok(joined(parts, if is_negated { Condition::Any } else { Condition::All }))
}

fn joined(mut parts: Vec<Condition>, join: fn(Vec<Condition>) -> Condition) -> Condition {
    if parts.len() == 1 { parts.remove(0) } else { join(parts) }
}

fn part(cursor: &mut Cursor<'_>, is_negated: bool, depth: usize) -> Result<Condition, ParseError> {
    let is_not = cursor.word() == "not";
    if !is_not && !cursor.rest().starts_with('(') {
        return comparison(cursor, is_negated).map(Condition::Comparison);
    }
    if depth == MOST_DEEP {
        return cursor.fail(format!("at most {MOST_DEEP} `not` and parentheses stand around a comparison"));
    }
    if is_not {
        cursor.skip("not");
        return part(cursor, !is_negated, depth + 1);
    }
    cursor.skip("(");
    let inside = any_of(cursor, is_negated, depth + 1)?;
    if !cursor.skip(")") {
        return cursor.fail("`and`, `or` or `)` stands here; `for TIME` is behind the whole condition");
    }
    Ok(inside)
}

fn comparison(cursor: &mut Cursor<'_>, is_negated: bool) -> Result<Comparison, ParseError> {
    let at = cursor.at;
    let figure = figure(cursor)?;
    let Some((symbol, operator)) =
        Operator::ALL.into_iter().find(|(symbol, _)| cursor.rest().starts_with(symbol))
    else {
        return cursor.fail("a comparison stands here: `>`, `>=`, `<`, `<=`, `==` or `!=`, and a limit");
    };
    cursor.pass(symbol.len());
    let limit = limit(cursor, figure.unit())?;
    let operator = if is_negated { operator.negated() } else { operator };
    Ok(Comparison { figure, operator, limit, at })
}

/// Reads a figure, such as `p99(net::handle)` or `sum(bytes of net::sent)`.
fn figure(cursor: &mut Cursor<'_>) -> Result<Figure, ParseError> {
    let word = cursor.word();
    if !FIGURES.contains(&word) {
        return cursor.fail(format!(
            "{}; there are {}",
            unknown(word, "figure", &FIGURES),
            FIGURES.join(", ")
        ));
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
            let selector = selector(inside, rest, start)?;
            let figure = Figure::of_field(function, number, is_time, selector);
            let (_, aggregation) = figure.spec.rsplit_once('=').unwrap_or_default();
            Aggregation::parse(aggregation).map_err(|error| ParseError { at: start, ..error })?;
            Ok(figure)
        }
        (None, Some(function)) => Ok(Figure::of_hits(function, selector(inside, 0, start)?)),
        (None, None) => cursor.fail("this figure is not known"),
    }
}

/// Reads `bytes of ` at the beginning of a text. Returns the number, whether it is a time, and the
/// byte behind.
fn number(text: &str) -> Result<(&str, bool, usize), ParseError> {
    let mut parser = Parser::new(text, 0)?;
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

/// Checks the selector that begins at a byte of a text, which begins at a byte of the rule. A
/// predicate in brackets may follow it.
fn selector(text: &str, from: usize, start: usize) -> Result<&str, ParseError> {
    let text = &text[from..];
    let start = start + from + text.len() - text.trim_start().len();
    selected(text.trim()).map_err(|error| error.after(start))?;
    Ok(text.trim())
}

fn limit(cursor: &mut Cursor<'_>, unit: Unit) -> Result<f64, ParseError> {
    let is_end = |c: char| c.is_whitespace() || matches!(c, ';' | ')');
    let rest = cursor.rest();
    let mut len = rest.find(is_end).unwrap_or(rest.len());
    // As in other texts, a space may stand before the unit.
    let after = rest[len..].trim_start();
    let next = &after[..after.find(is_end).unwrap_or(after.len())];
    if matches!(next, "ns" | "us" | "µs" | "ms" | "s" | "m" | "h" | "K" | "M" | "G") {
        len = rest.len() - after.len() + next.len();
    }
    let text = &rest[..len];
    let (problem, limit) = match unit {
        Unit::Time => {
            let time = units::time(text).ok().map(|it| it.as_nanos() as f64);
            ("is no span of time; write `5ms` or `2s`", time)
        }
        Unit::Rate => {
            let number = units::hits(text.strip_suffix("/s").unwrap_or(text)).filter(|it| *it >= 0.0);
            ("is no number of hits a second; write `1000` or `10K`", number)
        }
        Unit::Number => ("is no number; write `1000` or `10K`", units::number(text)),
    };
    let Some(limit) = limit else { return cursor.fail(format!("`{text}` {problem}")) };
    cursor.pass(len);
    Ok(limit)
}

fn action(cursor: &mut Cursor<'_>) -> Result<Action, ParseError> {
    let word = cursor.word();
    if !ACTIONS.contains(&word) {
        return cursor.fail(format!(
            "{}; there are {}",
            unknown(word, "action", &ACTIONS),
            ACTIONS.join(", ")
        ));
    }
    cursor.pass(word.len());
    Ok(match word {
        "record" => {
            let (at, text) = cursor.operand(&["for"]);
            let selector = selector(text, 0, at)?.to_owned();
            if !cursor.skip_word("for") {
                return cursor.fail("`for` and a time stand here: `record db::* for 1s`");
            }
            let time = cursor.time()?;
            Action::Record { selector, time, file: file(cursor, &Format::RECORDED)? }
        }
        "snapshot" => {
            let (at, text) = cursor.operand(&["to", "at most", "every"]);
            let selector = if text.is_empty() { None } else { Some(selector(text, 0, at)?.to_owned()) };
            Action::Snapshot { selector, file: file(cursor, &Format::SNAPSHOTS)? }
        }
        "run" => {
            let command = cursor.quoted("`run 'systemctl reload app'`")?;
            if command.trim().is_empty() || command.contains('\0') {
                return cursor.fail("a command for the shell stands in the quotes before");
            }
            Action::Run(command.to_owned())
        }
        word => {
            let (at, spec) = cursor.operand(&TAIL);
            if spec.is_empty() {
                let problem = format!("consumers stand here, as in `PROBES`: `{word} db::**=latency`");
                return Err(ParseError { at, problem });
            }
            let spec = spec.to_owned();
            if word == "arm" { Action::Arm(spec) } else { Action::Disarm(spec) }
        }
    })
}

/// Reads the file of a trace. Its ending tells the format.
fn file(cursor: &mut Cursor<'_>, formats: &[Format]) -> Result<Option<String>, ParseError> {
    if !cursor.skip_word("to") {
        return Ok(None);
    }
    let at = cursor.at;
    let file = cursor.file()?;
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

#[cfg(test)]
mod tests;
