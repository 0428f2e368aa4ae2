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
    assert!(items.iter().all(|(_, at, consumer)| consumer == "count" && text[*at..].starts_with("count")));
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
