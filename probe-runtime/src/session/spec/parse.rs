//! Cutting a text into requests: `selector=consumer`, several of them separated by commas, with
//! [triggers](super::trigger) between them. Pure.

use std::ops::Range;

use super::made::made_of;
use super::request::Request;
use super::table::{AGGREGATIONS, ConsumerRow, FEATURES};
use super::trigger::TriggerRequest;
use probe_lang::ParseError;
use probe_lang::error::shortened;
use probe_lang::expression::Predicate;
use probe_lang::options::{split_options, with_options};
use probe_lang::selector::{MAX_LEN, Selector, SpecTerm, TextWords, split_at_equals, too_long};
use probe_lang::spec::{Blanked, blank_expressions};
use probe_lang::suggest::suggest;
use probe_lang::trigger::begins_trigger;

/// The requests of a text, and its triggers.
pub(crate) struct Asked<'a> {
    pub(crate) requests: Vec<Request<'a>>,
    pub(super) triggers: Vec<TriggerRequest<'a>>,
}

/// Cuts the text into requests at the commas that end a selector and its consumer, and into
/// triggers. Each request can be attached if its probes exist.
pub(crate) fn asked(text: &str) -> Result<Asked<'_>, ParseError> {
    asked_of(text, |_| true)
}

/// The same, for a client of the agent. Consumers that are not for clients don't see their options.
#[cfg(probe_agent)]
pub(super) fn asked_by_client(text: &str) -> Result<Asked<'_>, ParseError> {
    let asked = asked_of(text, |row| row.is_for_clients)?;
    match asked.triggers.first() {
        Some(trigger) => {
            let problem = "a trigger writes files, so the program itself must have it: PROBES".to_owned();
            Err(ParseError { at: trigger.at, problem })
        }
        None => Ok(asked),
    }
}

/// Checks a text that a client attaches later, without a file.
#[cfg(probe_agent)]
pub(crate) fn check_for_client(text: &str) -> Result<(), ParseError> {
    asked_by_client(text)?.requests.iter().try_for_each(|it| {
        it.check_confined().map_err(|error| ParseError { at: it.at, problem: error.to_string() })
    })
}

fn asked_of(text: &str, is_allowed: fn(&ConsumerRow) -> bool) -> Result<Asked<'_>, ParseError> {
    if let Some(at) = too_long(text) {
        let problem = format!(
            "at most {MAX_LEN} bytes are read, and these are {}; name many probes at once, by `**`, `@file` or `group=`",
            text.len()
        );
        return Err(ParseError { at, problem });
    }
    let blanked = blank_expressions(text)?;
    let whole = text;
    // All places are those of the text itself.
    let text = blanked.text.as_str();
    let mut requests = Vec::new();
    let mut triggers = Vec::new();
    // Start of the current selector, and start of the current term.
    let (mut start, mut at) = (0, 0);
    let mut words = TextWords::new(text);
    // No parenthesis closes after this byte, so later terms need not look for one.
    let last_closed = text.rfind(')').unwrap_or(0);
    while at <= text.len() {
        if begins_trigger(&text[at..]) {
            let trigger = text.len() - text[at..].trim_start().len();
            if start != at {
                let selector = text[start..trigger].trim_end().trim_end_matches(',').trim();
                let at = text.len() - text[start..].trim_start().len();
                return Err(ParseError { at, problem: without_consumer(selector) });
            }
            let (trigger, end) = TriggerRequest::parse(whole, trigger)?;
            triggers.push(trigger);
            (start, at) = (end + 1, end + 1);
            continue;
        }
        let SpecTerm { mut end, mut equals } = split_at_equals(text, &mut words, at);
        let names = ConsumerRow::all().map(|it| it.name);
        if at <= last_closed
            && let Some(options) = with_options(text, at, end, names)
        {
            (equals, end) = (Some(options.0), options.1);
        }
        if let Some(equals) = equals {
            requests.push(request(whole, &blanked, start..end, equals, is_allowed)?);
            start = end + 1;
        }
        at = end + 1;
    }
    if start < text.len() || (requests.is_empty() && triggers.is_empty()) {
        let at = start.min(text.len());
        return Err(ParseError { at, problem: without_consumer(text[at..].trim()) });
    }
    if let Some(trigger) = triggers.first()
        && !requests.iter().any(|it: &Request<'_>| it.is_recorder)
    {
        let problem = "this is a snapshot of a flight recorder, and there is none; add `**=trace(flight)`";
        return Err(ParseError { at: trigger.at, problem: problem.to_owned() });
    }
    Ok(Asked { requests, triggers })
}

/// Parses the request that begins at `start`, assigns at `equals`, and ends at `end`.
fn request<'a>(
    text: &'a str,
    blanked: &Blanked,
    Range { start, end }: Range<usize>,
    equals: usize,
    is_allowed: fn(&ConsumerRow) -> bool,
) -> Result<Request<'a>, ParseError> {
    let within = |ranges: &[Range<usize>], from: usize, to: usize| {
        ranges.iter().find(|range| from <= range.start && range.end <= to).cloned()
    };
    let predicate = within(&blanked.predicates, start, equals);
    let mistaken = |error: ParseError, range: &Range<usize>| error.after(range.start).within(text);
    if let Some(range) = &predicate {
        text[range.clone()].parse::<Predicate>().map_err(|error| mistaken(error, range))?;
    }
    let selector_end = predicate.as_ref().map_or(equals, |range| range.start - 1);
    let selector = selector(text, start..selector_end)?;
    let predicate = predicate.map(|range| text[range].trim());
    if let Some(range) = within(&blanked.aggregations, equals + 1, end) {
        if !text[range.end..end].trim().is_empty() {
            return Err(ParseError { at: range.end, problem: "a comma is missing here".to_owned() });
        }
        made_of(&text[range.clone()]).map_err(|error| mistaken(error, &range))?;
        let name = &text[range.start..];
        let row = AGGREGATIONS.iter().find(|row| name.starts_with(row.name));
        if let Some(row) = row {
            let (at, aggregation) = (range.start, Some(&text[range]));
            return Ok(Request {
                selector,
                row,
                options: None,
                at,
                is_recorder: false,
                predicate,
                aggregation,
            });
        }
    }
    let right = text[equals + 1..end].trim_start();
    let (name, options) = split_options(right.trim_end());
    let Some(row) = ConsumerRow::named(name) else {
        return Err(ParseError { at: equals + 1, problem: unknown(name) });
    };
    if !is_allowed(row) {
        let problem = format!(
            "`{name}` is not for clients; its program may allow it, by `FOR_CLIENTS` in its `Reporter`"
        );
        return Err(ParseError { at: equals + 1, problem });
    }
    let at_options = end - right.len() + name.len() + 1;
    let read = row.read(options);
    let within = |error: ParseError| error.within(options.unwrap_or_default()).after(at_options).within(text);
    let (made, _) = read.map_err(within)?;
    let (at, is_recorder) = (end - right.len(), made.is_recorder);
    Ok(Request { selector, row, options, at, is_recorder, predicate, aggregation: None })
}

/// Returns the selector that stands in this part of a text, and is well formed.
pub(crate) fn selector(text: &str, range: Range<usize>) -> Result<&str, ParseError> {
    let part = &text[range.clone()];
    let at = range.end - part.trim_start().len();
    let selector = part.trim();
    Selector::parse(selector).map_err(|error| error.parse_error().after(at))?;
    Ok(selector)
}

fn without_consumer(selector: &str) -> String {
    let selector = if Selector::parse(selector).is_ok() { shortened(selector) } else { "selector".into() };
    format!("no consumer for this selector; write `{selector}=count`; `PROBES=help` says more")
}

/// Returns the message for an unknown consumer, with the reason.
fn unknown(name: &str) -> String {
    if let Some((_, feature)) = FEATURES.iter().find(|(known, _)| *known == name) {
        return needs(name, feature);
    }
    let all: Vec<_> = ConsumerRow::all().chain(ConsumerRow::aggregations()).map(|it| it.name).collect();
    let meant = suggest(name, &mut all.iter().copied()).into_iter().next();
    let meant = meant.map_or("there is".to_owned(), |meant| format!("did you mean `{meant}`? There is"));
    format!("`{name}` is not a consumer; {meant} {}", all.join(", "))
}

pub(super) fn needs(word: &str, feature: &str) -> String {
    format!(
        "`{word}` needs the feature `{feature}`, which this program was built without: \
         cargo add probe-runtime --features {feature}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn requests(text: &str) -> Result<Vec<Request<'_>>, ParseError> {
        asked(text).map(|asked| asked.requests)
    }

    fn cut(value: &str) -> Vec<(&str, usize, &str)> {
        let at = |it: &Request<'_>| it.selector.as_ptr().addr() - value.as_ptr().addr();
        requests(value).unwrap().iter().map(|it| (it.selector, at(it), it.row.name)).collect()
    }

    #[track_caller]
    fn is_mistaken(value: &str, at: usize, problem: &str) {
        let mistake = requests(value).map(|_| ()).unwrap_err();
        assert!(mistake.at == at && mistake.problem.starts_with(problem), "{value}: {mistake:?}");
    }

    #[test]
    fn selectors_may_hold_commas_and_kinds() {
        assert_eq!(cut("a::*=count"), [("a::*", 0, "count")]);
        assert_eq!(cut("a::*, !a::b=count, c = count"), [("a::*, !a::b", 0, "count"), ("c", 19, "count")]);
        assert_eq!(cut("kind=entry=count"), [("kind=entry", 0, "count")]);
        assert_eq!(cut("a, kind=entry, b=count"), [("a, kind=entry, b", 0, "count")]);
        assert_eq!(cut("group=net=count"), [("group=net", 0, "count")]);
        assert_eq!(cut("a, !group=net|db, b=count"), [("a, !group=net|db, b", 0, "count")]);
    }

    #[test]
    fn long_selectors_are_shortened_in_messages() {
        let problem = requests(&"a".repeat(300)).map(|_| ()).unwrap_err().problem;
        assert!(problem.contains(&format!("write `{}…=count`;", "a".repeat(200))), "{problem}");
    }

    #[test]
    fn paths_of_cpp_are_cut_as_selectors_cut_them() {
        assert_eq!(cut("F<a,b=c>::d=count,e=count"), [("F<a,b=c>::d", 0, "count"), ("e", 18, "count")]);
        assert_eq!(cut("geo::operator==, b=count"), [("geo::operator==, b", 0, "count")]);
        assert_eq!(cut("geo::operator==count"), [("geo::operator=", 0, "count")]);
        assert_eq!(cut("geo::operator===count"), [("geo::operator==", 0, "count")]);
        assert_eq!(cut(r"geo::operator\,=count"), [(r"geo::operator\,", 0, "count")]);
        assert_eq!(cut(r"geo::operator\,, a=count"), [(r"geo::operator\,, a", 0, "count")]);
    }

    #[test]
    fn a_mistake_is_one_message_that_points_at_it() {
        for (value, at, problem) in [
            ("", 0, "no consumer for this selector; write `selector=count`; `PROBES=help` says more"),
            ("a::*", 0, "no consumer for this selector; write `a::*=count`; `PROBES=help` says more"),
            ("a=count, b", 8, "no consumer for this selector; write `b=count`; "),
            ("a=count, b c", 8, "no consumer for this selector; write `selector=count`; "),
            ("kind=entry", 0, "no consumer for this selector; write `kind=entry=count`; "),
            ("group=count", 0, "no consumer for this selector; write `group=count=count`; "),
            ("geo::operator=", 0, "no consumer for this selector; write `geo::operator==count`; "),
            ("a=cont", 2, "`cont` is not a consumer; did you mean `count`? There is count"),
            ("a=call_tree", 2, "`call_tree` is not a consumer; did you mean `call-tree`? There is count"),
            (
                "a=count, b=latencies",
                11,
                "`latencies` is not a consumer; did you mean `latency`? There is count",
            ),
            ("a=", 2, "`` is not a consumer"),
            ("a=count, é::b:c=count", 14, "`:` can't be part of a path"),
            ("a=count()", 8, "`` is not an option of `count`; there is all, text"),
            ("a=count(all=no)", 12, "`all` has no value; write `count(all)`"),
            ("a=count(text=shut)", 13, "`shut` is not a text policy; there are sealed, open and alias"),
        ] {
            is_mistaken(value, at, problem);
        }
    }

    #[test]
    fn every_consumer_takes_a_text_policy() {
        for name in ConsumerRow::all().map(|it| it.name) {
            let text = format!("a::*, b={name}(text=alias), c=count");
            let cut: Vec<_> = requests(&text).unwrap().iter().map(ToString::to_string).collect();
            assert_eq!(cut, [format!("a::*, b={name}(text=alias)"), "c=count".to_owned()]);
        }
    }

    fn with_options(value: &str) -> Vec<(&str, &str, Option<&str>)> {
        requests(value).unwrap().iter().map(|it| (it.selector, it.row.name, it.options)).collect()
    }

    #[test]
    fn counts_may_be_of_all_probes() {
        assert_eq!(
            with_options("a, b=count(all), c=count(text=alias, all)"),
            [("a, b", "count", Some("all")), ("c", "count", Some("text=alias, all"))]
        );
    }

    #[test]
    fn expressions_belong_to_their_requests() {
        let text =
            "a, b[n > 1 && s == \"]=,\"]=sum(n) by(s), c=count, d [ok]=count(all), e=max(n), f=count by(s)";
        let read = |text| -> Vec<_> {
            let requests = requests(text).unwrap();
            requests.iter().map(|it| (it.selector.to_owned(), it.row.name, it.to_string())).collect()
        };
        let printed: Vec<_> = read(text).into_iter().map(|(_, _, printed)| printed).collect();
        assert_eq!(
            printed,
            [
                "a, b[n > 1 && s == \"]=,\"]=sum(n) by(s)",
                "c=count",
                "d[ok]=count(all)",
                "e=max(n)",
                "f=count by(s)",
            ]
        );
        let names: Vec<_> = read(text).into_iter().map(|(selector, name, _)| (selector, name)).collect();
        let expected = [("a, b", "sum"), ("c", "count"), ("d", "count"), ("e", "max"), ("f", "count")];
        assert_eq!(names, expected.map(|(selector, name)| (selector.to_owned(), name)));
        assert_eq!(read(&printed.join(", ")), read(text));
        for (text, at, problem) in [
            ("a[n >]=count", 5, "a field, a constant or `(` is missing here"),
            ("b=count, a[n = 1]=count", 13, "compare by `==`"),
            ("a=sum(n", 7, "`)` is missing here"),
            ("a=sum", 5, "`(` is missing here"),
            ("a=count by(n,)", 13, "a field, a constant or `(` is missing here"),
            ("a:b[n > 1]=count", 1, "`:` can't be part of a path"),
            ("[n > 1]=count", 0, ""),
        ] {
            is_mistaken(text, at, problem);
        }
    }

    #[cfg(feature = "profiler")]
    #[test]
    fn a_profile_has_a_budget() {
        assert_eq!(
            with_options("a=profile, **=profile(budget=0.5%), b=profile"),
            [("a", "profile", None), ("**", "profile", Some("budget=0.5%")), ("b", "profile", None)]
        );
        for options in ["budget=1%", "budget = 20 /s", "text=open, budget=1%"] {
            let value = format!("kind=entry, a::*=profile({options})");
            assert_eq!(with_options(&value), [("kind=entry, a::*", "profile", Some(options))]);
        }
        let is_mistaken = |options: &str, at: usize, problem: &str| {
            is_mistaken(&format!("a=profile({options})"), 10 + at, problem);
        };
        for budget in ["1", "-1%", "NaN%"] {
            let problem = format!("`{budget}` is not a budget; write `1%` or `1000/s`");
            is_mistaken(&format!("budget={budget}"), 7, &problem);
        }
        for (budget, problem) in [
            ("0%", "`0%` leaves nothing to sample with; write `1%` or `1000/s`"),
            ("0/s", "`0/s` leaves nothing to sample with; "),
            ("150%", "`150%` is more than all CPU time; "),
        ] {
            is_mistaken(&format!("budget={budget}"), 7, problem);
        }
        is_mistaken("epoch=1%", 0, "`epoch` is not an option of `profile`; there is budget, text");
        is_mistaken("", 0, "`` is not an option of `profile`; there is budget, text");
    }

    #[cfg(feature = "perf")]
    #[test]
    fn perf_has_events_and_a_budget() {
        let options = Some("events=cycles+instructions, budget=1%");
        assert_eq!(
            with_options("a::*, b = perf(events=cycles+instructions, budget=1%), c=perf"),
            [("a::*, b", "perf", options), ("c", "perf", None)]
        );
        for (value, at, problem) in [
            ("a=perf(events=cycle)", 14, "`cycle` is not an event; there is cycles, "),
            ("kind=entry =  perf( budget=1)", 27, "`1` is not a budget; write `1%` or `1000/s`"),
            ("a=perf(event=cycles)", 7, "`event` is not an option of `perf`; there is events, budget, text"),
        ] {
            is_mistaken(value, at, problem);
        }
    }

    #[test]
    fn a_missing_feature_is_named() {
        for (name, feature) in FEATURES {
            if ConsumerRow::named(name).is_none() {
                is_mistaken(&format!("a={name}"), 2, &format!("`{name}` needs the feature `{feature}`"));
            }
        }
    }

    proptest::proptest! {
        #[test]
        fn never_panics(value: String) {
            if let Err(mistake) = requests(&value) {
                proptest::prop_assert!(value.is_char_boundary(mistake.at), "{:?}", mistake);
            }
        }
    }
}
