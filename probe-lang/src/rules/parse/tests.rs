use std::time::Duration;

use proptest::prelude::*;

use super::super::rule::Action;
use super::*;
use crate::expression::Comparison as Operator;

fn parse(text: &str) -> Result<Rule, ParseError> {
    super::parse("rule", text)
}

fn specs(text: &str) -> Vec<String> {
    let rule = parse(text).unwrap_or_else(|error| panic!("{text}: {error:?}"));
    rule.comparisons().map(|it| it.figure.spec.clone()).collect()
}

fn actions(text: &str) -> Vec<Action> {
    let text = format!("when rate(f) > 1 then {text}");
    parse(&text).unwrap_or_else(|error| panic!("{text}: {error:?}")).actions
}

#[track_caller]
fn is_mistaken(text: &str, at: usize, problem: &str) {
    let error = parse(text).unwrap_err();
    assert!(error.at == at && error.problem.contains(problem), "{text}: {error:?}");
}

#[test]
fn the_whole_grammar() {
    let rule = parse(
        " when p99(net::handle) > 5ms && rate(**) >= 2K/s || sum(bytes of a, b) < 1_000 for 2s until p99(net::handle) < \
         2 ms for 1.5s then record db::* for 1s to slow.pftrace, run 'echo hi' at most 3 times every 1m ",
    )
    .unwrap();
    let limits: Vec<_> =
        rule.comparisons().map(|it| (it.figure.to_string(), it.operator, it.limit)).collect();
    assert_eq!(
        limits,
        [
            ("p99(net::handle)".to_owned(), Operator::Greater, 5e6),
            ("rate(**)".to_owned(), Operator::GreaterOrEqual, 2000.0),
            ("sum(bytes of a, b)".to_owned(), Operator::Less, 1000.0),
            ("p99(net::handle)".to_owned(), Operator::Less, 2e6),
        ]
    );
    let Condition::Any(parts) = &rule.when.condition else { panic!("{rule:?}") };
    assert!(matches!(&parts[..], [Condition::All(all), Condition::Comparison(_)] if all.len() == 2));
    assert_eq!(rule.when.time, Duration::from_secs(2));
    assert_eq!(rule.until.as_ref().unwrap().time, Duration::from_millis(1500));
    assert_eq!((rule.at_most, rule.every), (3, Some(Duration::from_secs(60))));
    let (selector, file) = ("db::*".to_owned(), Some("slow.pftrace".to_owned()));
    let record = Action::Record { selector, time: Duration::from_secs(1), file };
    assert_eq!(rule.actions, [record, Action::Run("echo hi".to_owned())]);
    assert!(rule.to_string().starts_with("when p99(") && rule.to_string().ends_with("every 1m"));
}

#[test]
fn figures_need_consumers() {
    for (figure, spec) in [
        ("rate(f)", "f=count"),
        ("count( f[n > 1] )", "f[n > 1]=count"),
        ("p999(a, !b)", "a, !b=latency(buckets)"),
        ("max(f)", "f=latency(buckets)"),
        ("mean(sum)", "sum=latency(buckets)"),
        ("max(bytes of f)", "f=max(bytes)"),
        ("avg(bytes * 2 of f[ok])", "f[ok]=sum(bytes * 2)"),
        ("min(len(p) of f)", "f=min(len(p))"),
        // Brackets, quotes, and words of the grammar.
        (r"rate(<[&'a\ u8]\ as\ T>::f)", r"<[&'a\ u8]\ as\ T>::f=count"),
        ("rate(f[bytes > 1K])", "f[bytes > 1K]=count"),
        ("rate(f[abi:cxx11])", "f[abi:cxx11]=count"),
        ("rate(a::then, b::for::until)", "a::then, b::for::until=count"),
        ("rate(f[s == \") then \"])", "f[s == \") then \"]=count"),
        ("rate(geo::operator())", "geo::operator()=count"),
        ("sum(of of of::of)", "of::of=sum(of)"),
    ] {
        let limit = if spec.contains("latency") { "1ms" } else { "1" };
        assert_eq!(specs(&format!("when {figure} > {limit} then snapshot")), [spec], "{figure}");
    }
}

#[test]
fn operands_end_at_words_of_the_grammar() {
    let arm = |spec: &str| Action::Arm(spec.to_owned());
    assert_eq!(
        actions("arm a=count, disarm b=count"),
        [arm("a=count"), Action::Disarm("b=count".to_owned())]
    );
    assert_eq!(actions("arm a, b=latency, c[s == \"; at most \"]=count at most 1 time").len(), 1);
    assert_eq!(actions("arm <T as x::every>::f=count every 1s"), [arm("<T as x::every>::f=count")]);
    assert_eq!(actions("arm f=sum(s == \" every \")"), [arm("f=sum(s == \" every \")")]);
    let record = |selector: &str| Action::Record {
        selector: selector.to_owned(),
        time: Duration::from_secs(1),
        file: None,
    };
    assert_eq!(actions("record f[s == \" for \"] for 1s"), [record("f[s == \" for \"]")]);
    assert_eq!(
        actions(r"record <for<'a>\ fn(&'a\ u8)\ as\ T>::f, a::for for 1s"),
        [record(r"<for<'a>\ fn(&'a\ u8)\ as\ T>::f, a::for")]
    );
    let snapshot = |selector: Option<&str>, file: Option<&str>| Action::Snapshot {
        selector: selector.map(str::to_owned),
        file: file.map(str::to_owned),
    };
    assert_eq!(actions("snapshot"), [snapshot(None, None)]);
    assert_eq!(
        actions("snapshot to 'a b.json', snapshot"),
        [snapshot(None, Some("a b.json")), snapshot(None, None)]
    );
    assert_eq!(
        actions("snapshot db::*, to::x to a.json at most 2 times"),
        [snapshot(Some("db::*, to::x"), Some("a.json"))]
    );
    assert_eq!(actions("run \"a 'b'; then for\""), [Action::Run("a 'b'; then for".to_owned())]);
}

#[test]
fn a_mistake_points_at_its_place() {
    for (text, at, problem) in [
        ("", 0, "a rule begins with `when`"),
        ("  if x", 2, "a rule begins with `when`"),
        ("when p98(f) > 5ms then snapshot", 5, "`p98` is no figure (did you mean `p90`?); there are rate, "),
        ("when rate f", 10, "a selector in parentheses stands after `rate`"),
        ("when rate(f > 5", 9, "this parenthesis is not closed"),
        ("when rate() > 5 then snapshot", 10, ""),
        ("when rate(a=count, b) > 5 then snapshot", 10, "a selector stands here, and no consumer"),
        ("when rate(a=count, b=x) > 5 then snapshot", 10, "a selector stands here, and no consumer"),
        ("when rate(f[n >]) > 5 then snapshot", 15, "a field, a constant or `(` is missing here"),
        ("when sum(f) > 5 then snapshot", 10, "`of` and a selector stand here"),
        ("when sum(1 + of f) > 5 then snapshot", 16, "`of` and a selector stand here"),
        ("when rate(f) = 5 then snapshot", 13, "a comparison stands here"),
        ("when sum(bytes of f) > 5ms then snapshot", 23, "`5ms` is no number"),
        ("when p99(f) > 5 then snapshot", 14, "`5` is no span of time; write `5ms`"),
        ("when avg(latency of f) > 5 then snapshot", 25, "`5` is no span of time"),
        ("when rate(f) > -5 then snapshot", 15, "`-5` is no number of hits a second"),
        ("when rate(f) > 1e400 then snapshot", 15, "is no number"),
        ("when rate(f) > inf then snapshot", 15, "is no number"),
        ("when rate(f) > 5 for 2 then snapshot", 21, "is not a span of time"),
        ("when rate(f) > 5 snapshot", 17, "`&&`, `||`, `for TIME`, `until` or `then` stands"),
        ("when rate(f) > 5 then", 21, "the action is missing here"),
        ("when rate(f) > 5 then snap", 22, "`snap` is no action (did you mean `snapshot`?); there are arm, "),
        ("when rate(f) > 5 then record a", 30, "`for` and a time stand here"),
        ("when rate(f) > 5 then arm at most 1 time", 26, "consumers stand here"),
        ("when rate(f) > 5 then snapshot,", 31, "the action is missing here"),
        ("when rate(f) > 5 then snapshot; snapshot", 30, "a comma stands between two actions"),
        ("when rate(f) > 5 then snapshot(at_most=3)", 30, "what a snapshot may have stands behind it"),
        (
            "when rate(f) > 5 then attach f for 1s, snapshot",
            22,
            "`attach` adds probes to a flight recorder of `PROBES`",
        ),
        ("when rate(f) > 5 then snapshot in one file", 22, "here, each snapshot has a file of its own"),
        ("when rate(f) > 5: snapshot", 16, "write `then` in place of `:`"),
        ("when rate(f) > 5 and rate(g) > 5 then snapshot", 17, "write `&&`"),
        ("when rate(f) > 5 or rate(g) > 5 then snapshot", 17, "write `||`"),
        ("when not rate(f) > 5 then snapshot", 5, "write `!(…)`"),
        ("when !rate(f) > 5 then snapshot", 6, "what `!` negates stands in parentheses"),
        ("when rate(f) > 5 then snapshot at most 0 times", 39, "a number from 1 to 4294967295"),
        ("when rate(f) > 5 then snapshot at most 4294967296 times", 39, "a number from 1"),
        ("when rate(f) > 5 then snapshot every 1m every 1m", 40, "`at most 3 times`"),
        ("when rate(f) > 5 then snapshot every 1m, snapshot", 39, "all actions stand before"),
        ("when rate(f) > 5 then run echo", 26, "a text in quotes stands here"),
        ("when rate(f) > 5 then run 'echo", 26, "the closing ' is missing"),
        ("when rate(f) > 5 then snapshot to ", 34, "the name of a file stands here"),
        (
            "when rate(f) > 5 then snapshot to .json",
            34,
            "`.json` tells no format: use a name with `.pftrace`, ",
        ),
        ("when rate(f) > 5 then record f for 1s to a.json", 41, "with `.pftrace`, `.probetrace`"),
        // A rule that would end as it fires, or never fire.
        ("when rate(f) >= 5 until rate(f) <= 5 then snapshot", 24, "would end as it fires"),
        ("when rate(f) > 5 until rate(f) < 6 then snapshot", 23, "would end as it fires"),
        ("when rate(f) > 5 || rate(g) > 1 until rate(g) < 2 then snapshot", 38, "would end as it fires"),
        ("when rate(f) > 5 && rate(f) < 5 then snapshot", 20, "so it never holds"),
        ("when rate(f) != 5 && rate(f) == 5 then snapshot", 21, "so it never holds"),
        ("when rate(g) > 1 || !(rate(f) > 5 || rate(f) <= 5) then snapshot", 37, "so it never holds"),
        ("when rate(f) != 5 until rate(f) > 9 then snapshot", 24, "would end as it fires"),
        ("when rate(f) > 5 until !(rate(f) > 9) then snapshot", 25, "would end as it fires"),
        // Parentheses and `not`.
        ("when (rate(f) > 5 then snapshot", 18, "`&&`, `||`, or `)` stands after a comparison"),
        ("when (rate(f) > 5 for 2s) then snapshot", 18, "`for TIME` is behind the whole condition"),
        ("when rate(f) > 5) then snapshot", 16, "`&&`, `||`, `for TIME`, `until` or `then` stands"),
        ("when () then snapshot", 6, "the figure is missing here"),
        ("when !then snapshot", 6, "what `!` negates stands in parentheses"),
        ("when !! && rate(f) > 5 then snapshot", 8, "what `!` negates stands in parentheses"),
        ("when rate(f) ! 5 then snapshot", 13, "`<=`, `==` or `!=`, and a limit"),
    ] {
        is_mistaken(text, at, problem);
    }
    let deep = |times| format!("when {}rate(f) > 5{} then snapshot", "!(".repeat(times), ")".repeat(times));
    assert!(parse(&deep(MOST_DEEP / 2)).is_ok());
    is_mistaken(&deep(MOST_DEEP / 2 + 1), 5 + MOST_DEEP, "at most 32 `!` and parentheses stand");
    is_mistaken(&deep(600), 5 + MOST_DEEP, "at most 32 `!` and parentheses stand");
    let either = |n: usize| format!("(rate(f{n}) > 5 || rate(g{n}) > 5)");
    let ways =
        |n: usize| format!("when {} then snapshot", (0..n).map(either).collect::<Vec<_>>().join(" && "));
    // 128 ways with seven comparisons each, and then 256 with eight.
    assert!(parse(&ways(7)).is_ok());
    is_mistaken(&ways(8), 6, "this may hold in too many ways");
    let others = (0..40).map(|n| format!("rate(f) != {n}")).collect::<Vec<_>>().join(" && ");
    assert!(parse(&format!("when {others} then snapshot")).is_ok());
    let long = format!("when rate({}) > 5 then snapshot", "a".repeat(MOST_BYTES));
    is_mistaken(&long, MOST_BYTES, "a rule has at most 8192 bytes");
}

#[test]
fn limits_with_a_gap_are_none_of_a_mistake() {
    for text in [
        "when rate(f) > 5 until rate(f) <= 5 then snapshot",
        "when rate(f) >= 5 until rate(f) < 5 then snapshot",
        "when rate(f) == 5 until rate(f) > 5 then snapshot",
        "when rate(f) > 5 until p99(f) < 5ms then snapshot",
        "when rate(f) > 5 && p99(f) > 5ms until rate(f) < 9 && p99(f) < 5ms then snapshot",
        "when count(f) >= 5 until count(f) >= 5 then snapshot",
        "when rate(f) != 5 until rate(f) == 5 then snapshot",
        "when rate(f) != 5 && rate(f) > 5 until !(rate(f) > 5) then snapshot",
        // Either of both, and not both.
        "when (rate(f) > 5 || rate(g) > 5) && !(rate(f) > 5 && rate(g) > 5) then snapshot",
    ] {
        assert!(parse(text).is_ok(), "{text}: {:?}", parse(text));
    }
}

proptest! {
    #[test]
    fn any_text_is_a_rule_or_a_mistake(
        words in prop::collection::vec(prop::sample::select(vec![
            "when ", "then ", "for ", "until ", "rate(", "p99(", "sum(x of ", "f", ")", " > ", "5", "ms ", "1s ", "arm ",
            "record ", "run '", "'", "\"", "[", "]", "<", ">", "\\", "; ", "at most ", "times ", "every ", "é", "&& ", "|| ",
            "!", "(", "!= ",
        ]), 0..30),
    ) {
        let text = words.concat();
        if let Err(error) = parse(&text) {
            prop_assert!(text.is_char_boundary(error.at), "{text}: {error:?}");
        }
    }
}

/// A condition as somebody may write it.
#[derive(Clone, Debug)]
enum Written {
    /// The figure's number, and the symbol of its operator.
    Comparison(usize, &'static str),
    Not(Box<Self>),
    All(Vec<Self>),
    Any(Vec<Self>),
}

impl Written {
    /// Prints it. A part of another one stands in parentheses unless it binds closer.
    fn print(&self, least: u8) -> String {
        let (closeness, text) = match self {
            Self::Comparison(figure, operator) => (3, format!("rate(f{figure}) {operator} 5")),
            Self::Not(it) => (2, format!("!{}", it.print(4))),
            Self::All(parts) => (1, parts.iter().map(|it| it.print(2)).collect::<Vec<_>>().join(" && ")),
            Self::Any(parts) => (0, parts.iter().map(|it| it.print(1)).collect::<Vec<_>>().join(" || ")),
        };
        if closeness < least { format!("({text})") } else { text }
    }

    /// Returns its truth by the tables of three values: 1 is true, -1 is false, 0 is unknown.
    fn truth(&self, values: &[Option<f64>]) -> i8 {
        match self {
            Self::Comparison(figure, operator) => values[*figure].map_or(0, |value| {
                let holds = match *operator {
                    "<" => value < 5.0,
                    "<=" => value <= 5.0,
                    "==" => (value - 5.0).abs() < 0.5,
                    "!=" => (value - 5.0).abs() > 0.5,
                    ">=" => value >= 5.0,
                    _ => value > 5.0,
                };
                if holds { 1 } else { -1 }
            }),
            Self::Not(it) => -it.truth(values),
            Self::All(parts) => parts.iter().map(|it| it.truth(values)).min().unwrap(),
            Self::Any(parts) => parts.iter().map(|it| it.truth(values)).max().unwrap(),
        }
    }
}

fn written() -> impl Strategy<Value = Written> {
    let operators = prop::sample::select(vec!["<", "<=", "==", "!=", ">=", ">"]);
    let one = (0..4_usize, operators).prop_map(|(figure, operator)| Written::Comparison(figure, operator));
    one.prop_recursive(4, 16, 3, |part| {
        let parts = || prop::collection::vec(part.clone(), 2..4);
        prop_oneof![
            part.clone().prop_map(|it| Written::Not(Box::new(it))),
            parts().prop_map(Written::All),
            parts().prop_map(Written::Any),
        ]
    })
}

fn condition_of(text: &str) -> Condition {
    let mut parser = Parser::new(text, 0, true);
    let condition = parser.any_of(false, 0).unwrap_or_else(|error| panic!("{text}: {error:?}"));
    assert!(parser.cursor.rest().is_empty(), "{text}");
    condition
}

/// Returns whether a condition holds if the rates of `f0`, `f1`, … are these.
fn truth(condition: &Condition, values: &[Option<f64>]) -> Option<bool> {
    let number =
        |it: &Comparison| it.figure.to_string()["rate(f".len()..].trim_end_matches(')').parse::<usize>();
    let of_comparisons: Vec<_> =
        condition.comparisons().into_iter().map(|it| values[number(it).unwrap()]).collect();
    condition.holds(&of_comparisons)
}

proptest! {
    #[test]
    fn printing_and_parsing_agree(
        written in written(),
        values in prop::collection::vec(prop::sample::select(vec![None, Some(4.0), Some(5.0), Some(6.0)]), 4),
    ) {
        let text = written.print(0);
        let expected = match written.truth(&values) {
            1 => Some(true),
            -1 => Some(false),
            _ => None,
        };
        prop_assert_eq!(truth(&condition_of(&text), &values), expected, "{}", text);
        // A rule prints as it was written, if it is one.
        if let Ok(rule) = parse(&format!("when {text} then snapshot")) {
            prop_assert_eq!(parse(&rule.to_string()).unwrap(), rule);
        }
    }

    #[test]
    fn de_morgan_holds_for_unknown_values(
        parts in prop::collection::vec(written(), 2),
        values in prop::collection::vec(prop::sample::select(vec![None, Some(4.0), Some(5.0), Some(6.0)]), 4),
    ) {
        let [a, b] = [0, 1].map(|part| parts[part].print(3));
        for [left, right] in [
            [format!("!({a} && {b})"), format!("!({a}) || !({b})")],
            [format!("!({a} || {b})"), format!("!({a}) && !({b})")],
            [format!("!!({a})"), a.clone()],
        ] {
            prop_assert_eq!(truth(&condition_of(&left), &values), truth(&condition_of(&right), &values), "{}", left);
        }
    }
}
