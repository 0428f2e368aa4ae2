//! Parsing a spec into consumers that can be attached if their probes exist.

use super::builder::ConsumerBuilder;
use super::table::{ConsumerRow, FEATURES};
use probe_lang::ParseError;
use probe_lang::selector::suggest;
use probe_lang::spec::{self, parse_spec};

/// A parsed spec.
pub(crate) type SpecAst = spec::SpecAst<ConsumerBuilder>;

/// Parses a text, and builds its consumers.
pub(crate) fn parse(text: &str) -> Result<SpecAst, ParseError> {
    parse_with(text, |_| true)
}

/// The same, for a client of the agent. Consumers that are not for clients don't see their options.
#[cfg(probe_agent)]
pub(crate) fn parse_client_spec(text: &str) -> Result<SpecAst, ParseError> {
    let spec = parse_with(text, |row| row.is_for_clients)?;
    match spec.triggers.first() {
        Some(trigger) => {
            let problem = "a trigger writes files, so the program itself must have it: PROBES".to_owned();
            Err(ParseError { at: trigger.at, problem })
        }
        None => Ok(spec),
    }
}

fn parse_with(text: &str, is_allowed: fn(&ConsumerRow) -> bool) -> Result<SpecAst, ParseError> {
    let spec = parse_spec(text, |consumer| ConsumerBuilder::new(&consumer, is_allowed))?;
    let Some(trigger) = spec.triggers.first() else { return Ok(spec) };
    if !cfg!(feature = "trace") {
        return Err(ParseError { at: trigger.start, problem: needs("when", "trace") });
    }
    if !spec.items.iter().any(|it| it.consumer.is_recorder) {
        let problem = "this is a snapshot of a flight recorder, and there is none; add `**=trace(flight)`";
        return Err(ParseError { at: trigger.at, problem: problem.to_owned() });
    }
    Ok(spec)
}

/// Returns the message for an unknown consumer, with the reason.
pub(super) fn unknown(name: &str) -> String {
    if let Some((_, feature)) = FEATURES.iter().find(|(known, _)| *known == name) {
        return needs(name, feature);
    }
    let all: Vec<_> = ConsumerRow::all().chain(ConsumerRow::aggregations()).map(|it| it.name).collect();
    let meant = suggest(name, &mut all.iter().copied()).into_iter().next();
    let meant = meant.map_or("there is".to_owned(), |meant| format!("did you mean `{meant}`? There is"));
    format!("`{name}` is not a consumer; {meant} {}", all.join(", "))
}

fn needs(word: &str, feature: &str) -> String {
    format!(
        "`{word}` needs the feature `{feature}`, which this program was built without: \
         cargo add probe-runtime --features {feature}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use probe_lang::spec::SpecItem;

    fn items(text: &str) -> Result<Vec<SpecItem<ConsumerBuilder>>, ParseError> {
        parse(text).map(|spec| spec.items)
    }

    #[track_caller]
    fn is_mistaken(value: &str, at: usize, problem: &str) {
        let mistake = items(value).map(|_| ()).unwrap_err();
        assert!(mistake.at == at && mistake.problem.starts_with(problem), "{value}: {mistake:?}");
    }

    #[test]
    fn long_selectors_are_shortened_in_messages() {
        let problem = items(&"a".repeat(300)).map(|_| ()).unwrap_err().problem;
        assert!(problem.contains(&format!("write `{}…=count`;", "a".repeat(200))), "{problem}");
    }

    #[test]
    fn a_mistake_is_one_message_that_points_at_it() {
        for (value, at, problem) in [
            ("", 0, "no consumer for this selector; write `selector=count`; `PROBES=help` says more"),
            ("a::*", 0, "no consumer for this selector; write `a::*=count`; `PROBES=help` says more"),
            ("a=count, b", 9, "no consumer for this selector; write `b=count`; "),
            ("a=count, b c", 9, "no consumer for this selector; write `selector=count`; "),
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
            let cut: Vec<_> = items(&text).unwrap().iter().map(ToString::to_string).collect();
            assert_eq!(cut, [format!("a::*, b={name}(text=alias)"), "c=count".to_owned()]);
        }
    }

    fn with_options(value: &str) -> Vec<(String, String)> {
        let items = items(value).unwrap();
        items.iter().map(|it| (it.selector.text().to_owned(), it.consumer.to_string())).collect()
    }

    #[track_caller]
    fn have_options(value: &str, expected: &[(&str, &str)]) {
        let expected =
            expected.iter().map(|(selector, consumer)| ((*selector).to_owned(), (*consumer).to_owned()));
        assert_eq!(with_options(value), expected.collect::<Vec<_>>());
    }

    #[test]
    fn counts_may_be_of_all_probes() {
        have_options(
            "a, b=count(all), c=count(text=alias, all)",
            &[("a, b", "count(all)"), ("c", "count(text=alias, all)")],
        );
    }

    #[cfg(feature = "profiler")]
    #[test]
    fn a_profile_has_a_budget() {
        have_options(
            "a=profile, **=profile(budget=0.5%), b=profile",
            &[("a", "profile"), ("**", "profile(budget=0.5%)"), ("b", "profile")],
        );
        for options in ["budget=1%", "budget = 20 /s", "text=open, budget=1%"] {
            let value = format!("kind=entry, a::*=profile({options})");
            have_options(&value, &[("kind=entry, a::*", &format!("profile({options})"))]);
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
        have_options(
            "a::*, b = perf(events=cycles+instructions, budget=1%), c=perf",
            &[("a::*, b", "perf(events=cycles+instructions, budget=1%)"), ("c", "perf")],
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
            if let Err(mistake) = items(&value) {
                proptest::prop_assert!(value.is_char_boundary(mistake.at), "{:?}", mistake);
            }
        }
    }
}
