//! Cutting a spec into its items: `selector=consumer`, several of them separated by commas, with
//! triggers between them. Pure.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use super::{CallTrigger, blank_expressions};
use crate::aggregation::Aggregation;
use crate::error::{ParseError, shortened};
use crate::expression::Predicate;
use crate::selector::{MAX_LEN, Selector, SpecTerm, TextWords, split_at_equals, too_long};

/// A spec as it was written. `C` are its consumers.
#[derive(Debug)]
pub struct SpecAst<C> {
    /// The items, in their order.
    pub items: Vec<SpecItem<C>>,
    /// The triggers, in their order.
    pub triggers: Vec<CallTrigger>,
}

/// A consumer for the probes of a selector.
#[derive(Debug)]
pub struct SpecItem<C> {
    /// The probes.
    pub selector: Arc<Selector>,
    /// The hits.
    pub predicate: Option<Predicate>,
    /// The consumer.
    pub consumer: C,
    /// The byte where the consumer stands.
    pub at: usize,
}

/// The text of a consumer. Prints as it was written.
#[derive(Debug)]
pub struct ConsumerText<'a> {
    /// Its name.
    pub name: &'a str,
    /// The text in parentheses behind it.
    pub options: Option<&'a str>,
    /// The whole text, if it is an aggregation.
    pub aggregation: Option<Aggregation>,
}

impl ConsumerText<'_> {
    /// The byte where its options begin.
    pub fn options_at(&self) -> usize {
        self.name.len() + 1
    }
}

impl fmt::Display for ConsumerText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(aggregation) = &self.aggregation {
            return f.write_str(&aggregation.text);
        }
        f.write_str(self.name)?;
        self.options.map_or(Ok(()), |options| write!(f, "({options})"))
    }
}

impl<C: fmt::Display> fmt::Display for SpecItem<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.selector.text())?;
        if let Some(predicate) = &self.predicate {
            write!(f, "[{}]", predicate.text().trim())?;
        }
        write!(f, "={}", self.consumer)
    }
}

impl<C: fmt::Display> fmt::Display for SpecAst<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let items = self.items.iter().map(ToString::to_string);
        let parts: Vec<_> = items.chain(self.triggers.iter().map(ToString::to_string)).collect();
        f.write_str(&parts.join(", "))
    }
}

/// The number of whole specs that this process has parsed, for tests.
#[cfg(feature = "counted")]
pub static PARSED: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);

/// Parses a spec: cuts it at the commas that end a selector and its consumer, and at triggers.
/// `consumer` makes a consumer from its text; its error has a byte of that text.
///
/// # Errors
/// The first mistake, with its place.
pub fn parse_spec<C>(
    text: &str,
    mut consumer: impl FnMut(ConsumerText<'_>) -> Result<C, ParseError>,
) -> Result<SpecAst<C>, ParseError> {
    #[cfg(feature = "counted")]
    PARSED.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    if let Some(at) = too_long(text) {
        let problem = format!(
            "at most {MAX_LEN} bytes are read, and these are {}; name many probes at once, by `**`, `@file` or `group=`",
            text.len()
        );
        return Err(ParseError { at, problem });
    }
    let blanked = blank_expressions(text, true)?;
    let mut predicates = blanked.predicates.into_iter().peekable();
    let mut consumers = blanked.consumers.into_iter().peekable();
    let mut triggers = blanked.triggers.into_iter().peekable();
    let mut spec = SpecAst { items: Vec::new(), triggers: Vec::new() };
    // Start of the current selector, and start of the current term.
    let (mut start, mut at) = (0, 0);
    // All places are those of the text itself.
    let mut words = TextWords::new(&blanked.text);
    while at <= text.len() {
        if let Some((trigger, range)) = triggers.next_if(|(_, range)| range.start <= at) {
            if start != at {
                return Err(without_consumer(text, start..trigger.start));
            }
            spec.triggers.push(trigger);
            (start, at) = (range.end + 1, range.end + 1);
            continue;
        }
        let SpecTerm { end, equals } = split_at_equals(&blanked.text, &mut words, at);
        if let Some(equals) = equals {
            let predicate = predicates.next_if(|range| range.end <= equals);
            let with_brackets = consumers.next_if(|range| range.end <= end);
            let text_at = text.len() - text[equals + 1..].trim_start().len();
            let place = with_brackets.clone().unwrap_or(text_at..text_at.max(end));
            let wrong = |error: ParseError, range: &Range<usize>| error.after(range.start).within(text);
            let predicate = predicate.map(|range| {
                let parsed = text[range.clone()].parse::<Predicate>().map_err(|error| wrong(error, &range));
                Ok((parsed?, range.start - 1))
            });
            let predicate = predicate.transpose()?;
            let selector = start..predicate.as_ref().map_or(equals, |(_, at)| *at);
            let selector = Arc::new(parse_selector(text, selector)?);
            if !text[place.end..end].trim().is_empty() {
                return Err(ParseError { at: place.end, problem: "a comma is missing here".to_owned() });
            }
            let made = consumer_text(text[place.clone()].trim_end(), &selector).and_then(&mut consumer);
            let consumer = made.map_err(|error| wrong(error, &place))?;
            let predicate = predicate.map(|it| it.0);
            spec.items.push(SpecItem { selector, predicate, consumer, at: place.start });
            start = end + 1;
        }
        at = end + 1;
    }
    if start < text.len() || (spec.items.is_empty() && spec.triggers.is_empty()) {
        return Err(without_consumer(text, start.min(text.len())..text.len()));
    }
    Ok(spec)
}

/// Cuts the text of a consumer of these probes.
fn consumer_text<'a>(text: &'a str, selector: &Arc<Selector>) -> Result<ConsumerText<'a>, ParseError> {
    let name = &text[..text.find(['(', ' ']).unwrap_or(text.len())];
    if super::is_aggregation(text) {
        let mut aggregation = Aggregation::parse(text)?;
        aggregation.ends.iter_mut().for_each(|ends| ends.begins = Some(Arc::clone(selector)));
        return Ok(ConsumerText { name, options: None, aggregation: Some(aggregation) });
    }
    let split = text.strip_suffix(')').and_then(|text| text.split_once('('));
    let (name, options) = split.map_or((text, None), |(name, options)| (name, Some(options)));
    Ok(ConsumerText { name, options, aggregation: None })
}

/// Parses the selector that stands in this part of a text.
///
/// # Errors
/// A mistake in it, with its place in the text.
pub fn parse_selector(text: &str, range: Range<usize>) -> Result<Selector, ParseError> {
    let part = &text[range.clone()];
    let at = range.end - part.trim_start().len();
    Selector::parse(part.trim()).map_err(|error| error.parse_error().after(at))
}

/// The error of a selector that stands in this part of a text, without a consumer.
fn without_consumer(text: &str, range: Range<usize>) -> ParseError {
    let part = &text[range.clone()];
    let at = range.end - part.trim_start().len();
    let selector = part.trim().trim_end_matches(',').trim();
    let selector = if Selector::parse(selector).is_ok() { shortened(selector) } else { "selector".into() };
    let problem = format!("no consumer for this selector; write `{selector}=count`; `PROBES=help` says more");
    ParseError { at, problem }
}

/// A selector, and the predicate in brackets that may follow it.
pub type Selected = (Selector, Option<Predicate>);

/// Parses a selector, and the predicate in brackets that may follow it.
///
/// # Errors
/// A mistake in the text, also if it assigns a consumer.
pub fn selected(text: &str) -> Result<Selected, ParseError> {
    let blanked = blank_expressions(text, false)?;
    let range = blanked.predicates.into_iter().next();
    let end = range.as_ref().map_or(text.len(), |range| range.start - 1);
    let (selector, mut words, mut at) = (&text[..end], TextWords::new(&text[..end]), 0);
    while at <= end {
        let term = split_at_equals(selector, &mut words, at);
        if term.equals.is_some() {
            return Err(ParseError::new("a selector stands here, and no consumer: `db::*`"));
        }
        at = term.end + 1;
    }
    let predicate = range.map(|range| {
        text[range.clone()].parse().map_err(|error: ParseError| error.after(range.start).within(text))
    });
    Ok((parse_selector(text, 0..end)?, predicate.transpose()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<SpecAst<String>, ParseError> {
        parse_spec(text, |consumer| Ok(consumer.to_string()))
    }

    /// Returns the selector, the place of the consumer, and the consumer of each item.
    fn items(text: &str) -> Vec<(String, usize, String)> {
        let spec = parse(text).unwrap_or_else(|error| panic!("{text}: {error:?}"));
        spec.items.into_iter().map(|it| (it.selector.text().to_owned(), it.at, it.consumer)).collect()
    }

    #[track_caller]
    fn has(text: &str, expected: &[(&str, usize)]) {
        let items = items(text);
        let found: Vec<_> = items.iter().map(|(selector, at, _)| (selector.as_str(), *at)).collect();
        assert_eq!(found, expected, "{text}");
        assert!(
            items.iter().all(|(_, at, consumer)| consumer == "count" && text[*at..].starts_with("count"))
        );
    }

    #[track_caller]
    pub(in crate::spec) fn is_mistaken(text: &str, at: usize, problem: &str) {
        let error = parse(text).map(|_| ()).expect_err(text);
        assert!(error.at == at && error.problem.starts_with(problem), "{text}: {error:?}");
    }

    #[test]
    fn selectors_may_hold_commas_and_kinds() {
        has("a::*=count", &[("a::*", 5)]);
        has("a::*, !a::b=count, c = count", &[("a::*, !a::b", 12), ("c", 23)]);
        has("kind=entry=count", &[("kind=entry", 11)]);
        has("a, kind=entry, b=count", &[("a, kind=entry, b", 17)]);
        has("group=net=count", &[("group=net", 10)]);
        has("a, !group=net|db, b=count", &[("a, !group=net|db, b", 20)]);
        has("a, group=f(int), b=count", &[("a, group=f(int), b", 19)]);
    }

    #[test]
    fn paths_of_cpp_are_cut_as_selectors_cut_them() {
        has("F<a,b=c>::d=count,e=count", &[("F<a,b=c>::d", 12), ("e", 20)]);
        has("geo::operator==, b=count", &[("geo::operator==, b", 19)]);
        has("geo::operator==count", &[("geo::operator=", 15)]);
        has("geo::operator===count", &[("geo::operator==", 16)]);
        has(r"geo::operator\,=count", &[(r"geo::operator\,", 16)]);
        has(r"geo::operator\,, a=count", &[(r"geo::operator\,, a", 19)]);
    }

    #[test]
    fn options_may_hold_commas_and_equals_signs() {
        let of = |text| items(text).into_iter().map(|(_, at, consumer)| (at, consumer)).collect::<Vec<_>>();
        let consumer = |at, text: &str| (at, text.to_owned());
        assert_eq!(
            of("a=x(b = 1, c=2), kind=entry, d = y-z(e), f=g( )"),
            [consumer(2, "x(b = 1, c=2)"), consumer(33, "y-z(e)"), consumer(43, "g( )")]
        );
        is_mistaken("a=sum(n) count", 8, "a comma is missing here");
    }

    #[test]
    fn expressions_belong_to_their_items() {
        let text =
            "a, b[n > 1 && s == \"]=,\"]=sum(n) by(s), c=count, d [ok]=count(all), e=max(n), f=count by(s)";
        let spec = parse(text).unwrap();
        let printed: Vec<_> = spec.items.iter().map(ToString::to_string).collect();
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
        assert_eq!(parse(&printed.join(", ")).unwrap().to_string(), spec.to_string());
        let selectors: Vec<_> = spec.items.iter().map(|it| it.selector.text()).collect();
        assert_eq!(selectors, ["a, b", "c", "d", "e", "f"]);
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

    #[test]
    fn a_selector_alone_has_a_predicate_and_no_consumer() {
        let (selector, predicate) = selected("a, b [n > 1]").unwrap();
        assert_eq!((selector.text(), predicate.unwrap().text()), ("a, b", "n > 1"));
        assert!(selected("when kind=entry").unwrap().1.is_none());
        for (text, at) in [("a=count", 0), ("a[n >]", 5), ("a[n]b", 1), ("", 0), ("a:b", 1)] {
            assert_eq!(selected(text).map(|_| ()).unwrap_err().at, at, "{text}");
        }
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_a_spec_or_a_mistake(text: String, written in r#"([a-b=,:<>(){}"'\\!@ -]|\[|\]|=sum\(|by\(|kind=|when ){0,24}"#) {
            for text in [text, written] {
                match parse(&text) {
                    Ok(spec) => proptest::prop_assert_eq!(parse(&spec.to_string()).map(|it| it.to_string()), Ok(spec.to_string())),
                    Err(error) => proptest::prop_assert!(text.is_char_boundary(error.at), "{:?}", error),
                }
            }
        }
    }
}
