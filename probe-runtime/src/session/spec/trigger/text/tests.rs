use super::super::super::parse::asked;
use super::*;

fn parse(text: &str) -> Result<(TriggerRequest<'_>, usize), ParseError> {
    TriggerRequest::parse(text, 0)
}

#[test]
fn a_trigger_has_calls_a_limit_and_an_action() {
    let (trigger, end) = parse("when latency(db::query) > 5ms: snapshot").unwrap();
    assert_eq!((trigger.selector, trigger.limit.span), ("db::query", Duration::from_millis(5)));
    assert_eq!((trigger.more, trigger.keep, trigger.at, end), (None, Keep::default(), 31, 39));

    let text = "when latency ( geo::area(int), !b kind=exit ) >0.5 s : attach db::**, @for.rs for 2m , then snapshot(rest=1m), b=count";
    let (trigger, end) = parse(text).unwrap();
    assert_eq!(trigger.selector, "geo::area(int), !b kind=exit");
    let (more, time) = trigger.more.unwrap();
    assert_eq!((more, time.span, time.text), ("db::**, @for.rs", Duration::from_secs(120), "2m"));
    assert_eq!((trigger.limit.text, trigger.keep.rest), ("0.5 s", Duration::from_secs(60)));
    assert_eq!(&text[end..], ", b=count");
    assert_eq!(
        trigger.to_string(),
        "when latency(geo::area(int), !b kind=exit) > 0.5 s: attach db::**, @for.rs for 2m, then snapshot(rest=1m)"
    );
}

#[test]
fn selectors_are_read_as_they_are_elsewhere() {
    for selector in [
        "geo::operator()", r"geo::operator\(", "F<a,b=c>::d", "geo::operator>",
        "a::{lambda(c::D)#1}::operator()", "kind=entry|exit", "group=net", "@a/for.rs:3",
    ] {
        let text = format!("when latency({selector}) > 5ms: attach {selector} for 1s, then snapshot");
        let (trigger, _) = parse(&text).unwrap();
        assert_eq!((trigger.selector, trigger.more.unwrap().0), (selector, selector));
    }
}

#[track_caller]
fn are_mistaken(texts: &[(&str, usize, &str)]) {
    for (text, column, problem) in texts {
        let mistake = parse(text).expect_err(text);
        let place = text[..mistake.at].chars().count() + 1;
        assert!(
            place == *column && mistake.problem.starts_with(problem),
            "{text}: column {place}, {mistake}"
        );
    }
}

#[test]
fn every_mistake_is_shown_where_it_is() {
    are_mistaken(&[
        (
            "when latncy(a) > 5ms: snapshot",
            6,
            "`latncy` is no condition (did you mean `latency`?); a trigger waits for long calls: `latency(db::query) > 5ms`",
        ),
        ("when (a) > 5ms: snapshot", 6, "the condition is missing here; a trigger waits for long calls"),
        (
            "when latency a > 5ms: snapshot",
            14,
            "a selector in parentheses must follow `latency`: `latency(db::query) > 5ms`",
        ),
        (
            "when latency(a > 5ms: snapshot",
            13,
            "this parenthesis is not closed; write `latency(db::query) > 5ms`",
        ),
        (
            "when latency() > 5ms: snapshot",
            14,
            "a probe's path, `@file`, `kind=` or `group=` is missing here",
        ),
        (
            "when latency( ) > 5ms: snapshot",
            15,
            "a probe's path, `@file`, `kind=` or `group=` is missing here",
        ),
        ("when latency(é, b:c) > 5ms: snapshot", 18, "`:` can't be part of a path"),
        (
            "when latency(a) < 5ms: snapshot",
            17,
            "a limit must follow the selector: `latency(db::query) > 5ms`",
        ),
        ("when latency(a)", 16, "a limit must follow the selector"),
        ("when latency(a) > soon: snapshot", 19, "`soon` is not a span of time; write `500ms`"),
        ("when latency(a) > 5: snapshot", 19, "`5` is not a span of time; write `500ms`"),
        ("when latency(a) > : snapshot", 19, "`` is not a span of time; write `500ms`"),
        (
            "when latency(a) > 5ms snapshot",
            23,
            "`:` must stand between the limit and the action: `latency(db::query) > 5ms: snapshot`",
        ),
        ("when latency(a) > 5ms, b=count", 22, "`:` must stand between the limit and the action"),
        (
            "when latency(a) > 5ms:",
            23,
            "the action is missing here; there are `snapshot` and `attach db::** for 200ms, then snapshot`",
        ),
        (
            "when latency(a) > 5ms: snapshots",
            24,
            "`snapshots` is no action (did you mean `snapshot`?); there are `snapshot` and ",
        ),
        (
            "when latency(a) > 5ms: atach b for 1s, then snapshot",
            24,
            "`atach` is no action (did you mean `attach`?); there are",
        ),
        ("when latency(a) > 5ms: report", 24, "`report` is no action; there are"),
        (
            "when latency(a) > 5ms: snapshot now",
            33,
            "a comma must stand between a trigger and the text after it",
        ),
    ]);
}

#[test]
fn mistakes_of_actions_are_shown_where_they_are() {
    are_mistaken(&[
        (
            "when latency(a) > 5ms: attach b 200ms, then snapshot",
            31,
            "`for` and a time must follow this selector: `attach db::** for 200ms, then snapshot`",
        ),
        (
            "when latency(a) > 5ms: attach for 1s, then snapshot",
            31,
            "a probe's path, `@file`, `kind=` or `group=` is missing here",
        ),
        ("when latency(a) > 5ms: attach b:c for 1s, then snapshot", 32, "`:` can't be part of a path"),
        ("when latency(a) > 5ms: attach b for ever, then snapshot", 37, "`ever` is not a span of time"),
        (
            "when latency(a) > 5ms: attach b for 1s",
            39,
            "`, then snapshot` must follow the time: `attach db::** for 200ms, then snapshot`",
        ),
        ("when latency(a) > 5ms: attach b for 1s, b=count", 39, "`, then snapshot` must follow the time"),
        (
            "when latency(a) > 5ms: attach b for 1s, then attach c",
            46,
            "`attach` is no action; `snapshot` must follow `then`",
        ),
        (
            "when latency(a) > 5ms: snapshot(rest=1m",
            32,
            "this parenthesis is not closed; write `snapshot(at_most=20, rest=1m)`",
        ),
        ("when latency(a) > 5ms: snapshot( rest = 1)", 41, "`1` is not a span of time"),
        (
            "when latency(a) > 5ms: snapshot(atmost=1)",
            33,
            "`atmost` is not an option of `snapshot`; there is at_most, rest, replace",
        ),
    ]);
}

const RECORDER: &str = "**=trace(flight, size=64M)";

#[test]
fn triggers_stand_among_requests() {
    let one = "when latency(a) > 5ms: snapshot";
    let more = "when latency(a, b) > 5ms: attach c, d for 1s, then snapshot(at_most=3, rest=1m)";
    for text in [
        format!("{one}, {RECORDER}"),
        format!("{RECORDER},{one}"),
        format!(" {more} ,{RECORDER}, a, b=count, {one},"),
        format!("{one}, {more}, {RECORDER}, {one}"),
    ] {
        let asked = asked(&text).unwrap();
        assert_eq!(asked.triggers.len(), text.matches("when").count(), "{text}");
        assert_eq!(asked.requests.len(), text.matches("=trace").count() + text.matches("=count").count());
    }
}

#[test]
fn a_trigger_and_a_selector_without_a_consumer_are_told_apart() {
    for (text, at, problem) in [
        (
            "a, when latency(b) > 5ms: snapshot, **=trace(flight)",
            0,
            "no consumer for this selector; write `a=count`; ",
        ),
        (
            "b=count, a, when latency(b) > 5ms: snapshot",
            9,
            "no consumer for this selector; write `a=count`; ",
        ),
        ("when latency(b) > 5ms: snapshot, a", 32, "no consumer for this selector; write `a=count`; "),
        ("b=count, when latency(b:c) > 5ms: snapshot", 23, "`:` can't be part of a path"),
        (
            "a=count, when latency(b) > 5ms: snapshot",
            32,
            "this is a snapshot of a flight recorder, and there is none; add `**=trace(flight)`",
        ),
        ("**=trace, when latency(b) > 5ms: snapshot", 33, "this is a snapshot of a flight recorder"),
        ("when latency(b) > 5ms: snapshot", 23, "this is a snapshot of a flight recorder"),
    ] {
        let mistake = asked(text).map(|_| ()).expect_err(text);
        assert!(mistake.at == at && mistake.problem.starts_with(problem), "{text}: {mistake:?}");
    }
    assert!(asked("**=trace(first), when latency(b) > 5ms: snapshot").is_ok());
    let paths = "when=count, when kind=entry=count, a, when=count, when @for.rs=count";
    assert_eq!(asked(paths).unwrap().requests.len(), 4);
}

#[test]
fn long_texts_are_read_once() {
    let trigger = "when latency(a)>1s:attach b for 1s,then snapshot,";
    for (part, is_right) in [
        (trigger, true),
        ("when latency(a)>1s:snapshot,", true),
        ("when latency(", false),
        ("when latency(a)>1s:attach ", false),
        ("when latency(a)>1s:snapshot(", false),
        ("when ", false),
    ] {
        let text = format!("{}{RECORDER}", part.repeat((1 << 16) / part.len() - 1));
        assert_eq!(asked(&text).is_ok(), is_right, "{part}");
    }
}

proptest::proptest! {
    #[test]
    fn never_panics(text in r"(when|latency|attach|for|then|snapshot|5ms|[ab:>(),é\\= ]){0,16}") {
        for text in [format!("when {text}"), format!("when latency({text}"), format!("when latency(a) > 5ms: {text}")] {
            if let Err(mistake) = asked(&text) {
                proptest::prop_assert!(text.is_char_boundary(mistake.at), "{:?}", mistake);
            }
        }
    }

    #[test]
    fn the_printed_form_parses_to_the_same(
        selector in r"[ab]{1,2}(::[ab*]|<a,b>|\(a\))?(, !?[cd]|, @for\.rs)?( kind=exit)?",
        limit in r"[1-9]{1,3}(\.5)? ?(ms|s|us)",
        more in proptest::option::of(r"[ab](, [ab]::\*\*)?"),
        options in proptest::option::of("(at_most=[1-9]|replace|rest=[1-9]m)"),
    ) {
        let more = more.map(|more| format!("attach {more} for {limit}, then ")).unwrap_or_default();
        let options = options.map(|options| format!("({options})")).unwrap_or_default();
        let text = format!("when latency({selector}) > {limit}: {more}snapshot{options}");
        let (trigger, end) = parse(&text).map_err(|error| proptest::test_runner::TestCaseError::fail(format!("{text}: {error}")))?;
        proptest::prop_assert_eq!(trigger.to_string(), text.as_str());
        proptest::prop_assert_eq!(end, text.len());
    }
}
