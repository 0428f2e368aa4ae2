//! Triggers in a spec: `when latency(db::query) > 5ms then attach db::** for 200ms, snapshot`.
//! Pure.
//!
//! A trigger is a `when` about single calls, whose actions are about the flight recorders of the
//! same text. A `when` about windows of time needs a driver, which a spec does not have.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::error::ParseError;
use crate::expression::Predicate;
use crate::rules::{AT_MOST, Action, Verb, WHEN, When, when_at};
use crate::selector::Selector;

const EXAMPLE: &str = "when latency(db::query) > 5ms then attach db::** for 200ms, snapshot";

/// A trigger. Prints as it was written.
#[derive(Debug)]
pub struct CallTrigger {
    text: String,
    /// Selects the functions whose calls may take too long.
    pub selector: Arc<Selector>,
    /// The calls that matter.
    pub predicate: Option<Predicate>,
    /// The time over which a call takes too long.
    pub limit: Duration,
    /// The text of the limit.
    pub limit_text: String,
    /// Selects the probes that are attached before the snapshot, and says for how long.
    pub more: Option<(Arc<Selector>, Duration)>,
    /// The most snapshots that it takes.
    pub at_most: u32,
    /// The time between a snapshot and the next one.
    pub rest: Duration,
    /// Whether each snapshot replaces the one before.
    pub is_replaced: bool,
    /// The byte where it begins.
    pub start: usize,
    /// The byte of the word `snapshot`.
    pub at: usize,
}

impl fmt::Display for CallTrigger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl CallTrigger {
    /// Parses the trigger that begins at this byte of a text. Returns it and its end: a comma, or
    /// the end of the text.
    pub(super) fn parse(text: &str, start: usize) -> Result<(Self, usize), ParseError> {
        let When { condition, until, actions, at_most, every, selected, limit, end } = when_at(text, start)?;
        let fail = |at, problem: String| Err(ParseError { at, problem });
        let Some(nanoseconds) = condition.call_limit().filter(|_| until.is_none()) else {
            return fail(
                start + WHEN.len() + 1,
                format!(
                    "here, `{WHEN}` is about single calls: `{EXAMPLE}`; a rule about windows of time stands in the \
                     file that PROBE_RULES names, or in `probectl watch`"
                ),
            );
        };
        let (more, snapshot) = match &actions[..] {
            [(Verb::Attach(time), _), snapshot] => (Some(*time), snapshot),
            [snapshot] => (None, snapshot),
            [_, (_, at), ..] => return fail(*at, actions_of_a_trigger()),
            [] => return fail(end, actions_of_a_trigger()),
        };
        let is_replaced = match &snapshot.0 {
            Verb::SnapshotInOneFile => true,
            Verb::Act(Action::Snapshot { selector: None, file: None }) => false,
            Verb::Act(Action::Snapshot { .. }) => {
                let problem =
                    "here, a snapshot is of each flight recorder, in a file beside its report: `snapshot`";
                return fail(snapshot.1, problem.to_owned());
            }
            _ => return fail(snapshot.1, actions_of_a_trigger()),
        };
        let mut selected = selected.into_iter();
        let (selector, predicate) = selected.next().ok_or_else(|| ParseError::new(actions_of_a_trigger()))?;
        let attached = selected.next();
        if let Some((selector, Some(_))) = &attached {
            let problem =
                format!("`{}` is attached with all its hits, so without a predicate", selector.text());
            return fail(actions[0].1, problem);
        }
        let more = more.and_then(|time| Some((Arc::new(attached?.0), time)));
        let trigger = Self {
            text: text[start..end].trim_end().to_owned(),
            selector: Arc::new(selector),
            predicate,
            limit: Duration::from_nanos(nanoseconds),
            limit_text: limit.to_owned(),
            more,
            at_most: at_most.unwrap_or(if is_replaced { u32::MAX } else { AT_MOST }),
            rest: every.unwrap_or(Duration::from_secs(1)),
            is_replaced,
            start,
            at: snapshot.1,
        };
        Ok((trigger, end))
    }
}

fn actions_of_a_trigger() -> String {
    format!("here, the actions are `snapshot`, or `attach` and then `snapshot`: `{EXAMPLE}`")
}

#[cfg(test)]
mod tests {
    use super::super::parse_spec;
    use super::*;

    fn parse(text: &str) -> Result<(CallTrigger, usize), ParseError> {
        CallTrigger::parse(text, 0)
    }

    /// Returns the number of items and of triggers of a spec.
    fn counted(text: &str) -> Result<(usize, usize), ParseError> {
        let spec = parse_spec(text, |consumer| Ok(consumer.to_string()))?;
        Ok((spec.items.len(), spec.triggers.len()))
    }

    #[test]
    fn a_trigger_has_calls_a_limit_and_an_action() {
        let (trigger, end) = parse("when latency(db::query) > 5ms then snapshot").unwrap();
        assert_eq!((trigger.selector.text(), trigger.limit), ("db::query", Duration::from_millis(5)));
        assert!(trigger.more.is_none() && trigger.predicate.is_none() && !trigger.is_replaced);
        assert_eq!((trigger.at_most, trigger.rest), (10, Duration::from_secs(1)));
        assert_eq!((trigger.at, end), (35, 43));

        let text = "when latency ( geo::area(int), !b kind=exit ) >0.5 s then attach db::**, @for.rs for 2m , snapshot every 1m, b=count";
        let (trigger, end) = parse(text).unwrap();
        assert_eq!(trigger.selector.text(), "geo::area(int), !b kind=exit");
        let (more, time) = trigger.more.as_ref().unwrap();
        assert_eq!((more.text(), *time), ("db::**, @for.rs", Duration::from_secs(120)));
        assert_eq!((trigger.limit_text.as_str(), trigger.rest), ("0.5 s", Duration::from_secs(60)));
        assert_eq!((&text[end..], trigger.to_string().as_str()), (", b=count", &text[..end]));
    }

    #[test]
    fn a_trigger_says_how_many_how_often_and_where() {
        let of = |tail: &str| {
            let trigger = parse(&format!("when latency(f[n > 1]) > 1s then snapshot {tail}")).unwrap().0;
            assert_eq!(trigger.predicate.as_ref().unwrap().text(), "n > 1");
            (trigger.at_most, trigger.rest.as_secs(), trigger.is_replaced)
        };
        assert_eq!(of("at most 3 times every 1m"), (3, 60, false));
        assert_eq!(of("in one file"), (u32::MAX, 1, true));
        assert_eq!(of("in one file every 2s at most 1 time"), (1, 2, true));
    }

    #[test]
    fn selectors_are_read_as_they_are_elsewhere() {
        for selector in [
            "geo::operator()", r"geo::operator\(", "F<a,b=c>::d", "geo::operator>",
            "a::{lambda(c::D)#1}::operator()", "kind=entry|exit", "group=net", "@a/for.rs:3",
        ] {
            let text = format!("when latency({selector}) > 5ms then attach {selector} for 1s, snapshot");
            let (trigger, _) = parse(&text).unwrap();
            assert_eq!((trigger.selector.text(), trigger.more.unwrap().0.text()), (selector, selector));
        }
    }

    #[test]
    fn every_mistake_is_shown_where_it_is() {
        for (text, column, problem) in [
            (
                "when latncy(a) > 5ms then snapshot",
                6,
                "`latncy` is no figure (did you mean `latency`?); there are rate, ",
            ),
            ("when latency a > 5ms then snapshot", 14, "a selector in parentheses stands after `latency`"),
            ("when latency(a > 5ms then snapshot", 13, "this parenthesis is not closed"),
            (
                "when latency() > 5ms then snapshot",
                14,
                "a probe's path, `@file`, `kind=` or `group=` is missing here",
            ),
            ("when latency(é, b:c) > 5ms then snapshot", 18, "`:` can't be part of a path"),
            ("when latency(a)", 16, "a comparison stands here"),
            ("when latency(a) > soon then snapshot", 19, "`soon` is no span of time; write `5ms`"),
            ("when latency(a) > 5 then snapshot", 19, "`5` is no span of time; write `5ms`"),
            ("when latency(a) > 5ms snapshot", 23, "`&&`, `||`, `for TIME`, `until` or `then` stands"),
            ("when latency(a) > 5ms, b=count", 22, "`&&`, `||`, `for TIME`, `until` or `then` stands"),
            ("when latency(a) > 5ms then", 27, "the action is missing here; there are arm, attach, "),
            (
                "when latency(a) > 5ms then snapshots",
                28,
                "`snapshots` is no action (did you mean `snapshot`?)",
            ),
            (
                "when latency(a) > 5ms then atach b for 1s",
                28,
                "`atach` is no action (did you mean `attach`?)",
            ),
            ("when latency(a) > 5ms then snapshot at most 3", 46, "write `at most 3 times`"),
            ("when latency(a) > 5ms then attach b 200ms, snapshot", 37, "a second path in one term"),
            ("when latency(a) > 5ms then attach for 1s, snapshot", 35, "a probe's path, `@file`, "),
            ("when latency(a) > 5ms then attach b:c for 1s, snapshot", 36, "`:` can't be part of a path"),
            ("when latency(a) > 5ms then attach b for ever, snapshot", 41, "`ever` is not a span of time"),
            (
                "when latency(a) > 5ms then attach b[n > 1] for 1s, snapshot",
                28,
                "`b` is attached with all its hits",
            ),
            // The former syntax.
            (
                "when latency(a) > 5ms: snapshot",
                22,
                "write `then` in place of `:`, as in `when latency(db::query) > 5ms then",
            ),
            (
                "when latency(a) > 5ms then snapshot(at_most=3)",
                36,
                "what a snapshot may have stands behind it",
            ),
            // Rules that need a driver.
            ("when p99(a) > 5ms then snapshot", 6, "here, `when` is about single calls: `when latency("),
            ("when latency(a) < 5ms then snapshot", 6, "here, `when` is about single calls"),
            ("when !(latency(a) > 5ms) then snapshot", 6, "here, `when` is about single calls"),
            ("when latency(a) > 5ms for 2s then snapshot", 6, "here, `when` is about single calls"),
            (
                "when latency(a) > 5ms until rate(a) < 1 then snapshot",
                6,
                "here, `when` is about single calls",
            ),
            ("when latency(a) > 5ms && rate(a) > 1 then snapshot", 6, "here, `when` is about single calls"),
            (
                "when latency(a) > 5ms then attach b for 1s",
                28,
                "here, the actions are `snapshot`, or `attach` and",
            ),
            ("when latency(a) > 5ms then attach b for 1s, attach c for 1s", 45, "here, the actions are"),
            ("when latency(a) > 5ms then snapshot, snapshot", 38, "here, the actions are"),
            ("when latency(a) > 5ms then run 'date'", 28, "here, the actions are"),
            ("when latency(a) > 5ms then snapshot b", 28, "here, a snapshot is of each flight recorder"),
            (
                "when latency(a) > 5ms then snapshot to a.json",
                28,
                "here, a snapshot is of each flight recorder",
            ),
        ] {
            let mistake = counted(text).expect_err(text);
            let place = text[..mistake.at].chars().count() + 1;
            assert!(
                place == column && mistake.problem.starts_with(problem),
                "{text}: column {place}, {mistake}"
            );
        }
    }

    const RECORDER: &str = "**=trace(flight, size=64M)";

    #[test]
    fn triggers_stand_among_items() {
        let one = "when latency(a) > 5ms then snapshot";
        let more = "when latency(a, b) > 5ms then attach c, d for 1s, snapshot at most 3 times every 1m";
        for (text, count) in [
            (format!("{one}, {RECORDER}"), (1, 1)),
            (format!("{RECORDER},{one}"), (1, 1)),
            (format!(" {more} ,{RECORDER}, a, b=count, {one},"), (2, 2)),
            (format!("{one}, {more}, {RECORDER}, {one}"), (1, 3)),
            (format!("{one}, when=count, snapshot, attach=count, {RECORDER}"), (3, 1)),
        ] {
            assert_eq!(counted(&text), Ok(count), "{text}");
        }
    }

    #[test]
    fn a_trigger_and_a_selector_without_a_consumer_are_told_apart() {
        for (text, at, problem) in [
            (
                "a, when latency(b) > 5ms then snapshot, **=x",
                0,
                "no consumer for this selector; write `a=count`; ",
            ),
            (
                "b=count, a, when latency(b) > 5ms then snapshot",
                9,
                "no consumer for this selector; write `a=count`; ",
            ),
            (
                "when latency(b) > 5ms then snapshot, a",
                37,
                "no consumer for this selector; write `a=count`; ",
            ),
            ("b=count, when latency(b:c) > 5ms then snapshot", 23, "`:` can't be part of a path"),
        ] {
            let mistake = counted(text).expect_err(text);
            assert!(mistake.at == at && mistake.problem.starts_with(problem), "{text}: {mistake:?}");
        }
        let paths = "when=count, when kind=entry=count, a, when=count, when @for.rs=count, when[n > 1]=count";
        assert_eq!(counted(paths), Ok((5, 0)));
    }

    #[test]
    fn a_path_called_when_begins_no_trigger() {
        use crate::rules::begins_when;
        for text in ["when latency(a) > 5ms then snapshot", " when\tlatency", "when x"] {
            assert!(begins_when(text), "{text}");
        }
        for text in [
            "when=count", "when = count", "when, a=count", "when kind=entry=count", "when @a.rs=count",
            "when group=a|b=count", "when", "when ", "when::latency=count", "whenever latency", "a when",
        ] {
            assert!(!begins_when(text), "{text}");
        }
    }

    #[test]
    fn long_texts_are_read_once() {
        let trigger = "when latency(a)>1s then attach b for 1s,snapshot,";
        for (part, is_right) in [
            (trigger, true),
            ("when latency(a)>1s then snapshot,", true),
            ("when latency(", false),
            ("when latency(a)>1s then attach ", false),
            ("when latency(a)>1s then snapshot(", false),
            ("when ", false),
        ] {
            let text = format!("{}{RECORDER}", part.repeat((1 << 16) / part.len() - 1));
            assert_eq!(counted(&text).is_ok(), is_right, "{part}");
        }
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_a_trigger_or_a_mistake(text in r"(when|latency|attach|for|then|snapshot|5ms|[ab:>(),é\\= ]){0,16}") {
            for text in [format!("when {text}"), format!("when latency({text}"), format!("when latency(a) > 5ms then {text}")] {
                if let Err(mistake) = counted(&text) {
                    proptest::prop_assert!(text.is_char_boundary(mistake.at), "{:?}", mistake);
                }
            }
        }

        #[test]
        fn a_trigger_prints_as_it_was_written(
            selector in r"[ab]{1,2}(::[ab*]|<a,b>|\(a\))?(, !?[cd]|, @for\.rs)?( kind=exit)?",
            limit in r"[1-9]{1,3}(\.5)? ?(ms|s|us)",
            more in proptest::option::of(r"[ab](, [ab]::\*\*)?"),
            tail in proptest::option::of("( at most [1-9] times| in one file| every [1-9]m)"),
        ) {
            let more = more.map(|more| format!("attach {more} for {limit}, ")).unwrap_or_default();
            let tail = tail.unwrap_or_default();
            let text = format!("when latency({selector}) > {limit} then {more}snapshot{tail}");
            let (trigger, end) = parse(&text).map_err(|error| proptest::test_runner::TestCaseError::fail(format!("{text}: {error}")))?;
            proptest::prop_assert_eq!(trigger.to_string(), text.as_str());
            proptest::prop_assert_eq!(end, text.len());
        }
    }
}
