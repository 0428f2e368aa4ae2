//! Texts, their printed form, and programs against a naive evaluation of the tree.

use std::cell::RefCell;
use std::collections::BTreeMap;

use proptest::prelude::*;

use super::super::check::{Mismatch, Scope};
use super::super::datum::Fault;
use super::super::program::{Program, Step, Surroundings};
use super::super::tree::{Arithmetic, Comparison, Node, Part};
use super::Predicate;
use probe_core::__private::v1::InMemory;
use probe_core::abi::{Field, Type, Value};

/// The fields of all tests, and a hit's values for them.
const FIELDS: [(&str, Type); 8] = [
    ("bytes", Type::U64),
    ("delta", Type::I64),
    ("ratio", Type::F64),
    ("ok", Type::Bool),
    ("letter", Type::Char),
    ("peer", Type::Str),
    ("gone", Type::U64),
    ("shown", Type::Format),
];

#[derive(Clone, Debug)]
struct Hit {
    bytes: u64,
    delta: i64,
    ratio: f64,
    ok: bool,
    letter: char,
    peer: String,
}

impl Hit {
    fn values(&self) -> [Value<'_>; 7] {
        [
            self.bytes.pass::<InMemory>(),
            self.delta.pass::<InMemory>(),
            self.ratio.pass::<InMemory>(),
            self.ok.pass::<InMemory>(),
            self.letter.pass::<InMemory>(),
            self.peer.as_str().pass::<InMemory>(),
            probe_core::__private::v1::absent::<InMemory>(()),
        ]
    }

    fn any() -> Self {
        Self { bytes: 2000, delta: -5, ratio: 0.5, ok: true, letter: 'x', peer: "10.0.0.1".into() }
    }
}

/// A thread's seventh hit, 100 ns after attaching, 5 ms after its entry.
#[derive(Default)]
struct Around {
    asked: RefCell<BTreeMap<usize, u64>>,
}

impl Surroundings for Around {
    fn thread(&self) -> u64 {
        7
    }

    fn time(&self) -> u64 {
        100
    }

    fn latency(&self) -> Option<u64> {
        Some(5_000_000)
    }

    fn first(&self, sample: usize, hits: u64) -> bool {
        let mut asked = self.asked.borrow_mut();
        let asked = asked.entry(sample).or_default();
        *asked += 1;
        *asked <= hits
    }

    fn one_in(&self, sample: usize, hits: u64) -> bool {
        let mut asked = self.asked.borrow_mut();
        let asked = asked.entry(sample).or_default();
        *asked += 1;
        asked.is_multiple_of(hits)
    }
}

fn fields() -> Vec<(String, Option<Type>)> {
    FIELDS.map(|(name, ty)| (name.to_owned(), Some(ty))).into()
}

fn compiled(text: &str) -> Result<Program, Mismatch> {
    let predicate: Predicate = text.parse().unwrap();
    Program::condition(&predicate.node, &Scope { fields: &fields(), has_latency: true })
}

#[track_caller]
fn judged(text: &str) -> Result<bool, Fault> {
    compiled(text).unwrap().passes(&Hit::any().values(), &Around::default())
}

#[test]
fn conditions_hold_or_not() {
    for (text, passes) in [
        ("bytes > 1024 && peer ~ \"10.*\"", true),
        ("bytes > 1024 && peer !~ \"10.*\"", false),
        ("bytes == 2000 && 2000 == bytes && bytes != 1999", true),
        ("2000 < bytes || bytes < 2000", false),
        ("bytes >= 2_000 && bytes <= 0x7d0", true),
        // Signed and unsigned numbers compare as numbers.
        ("delta < bytes && bytes > delta && delta < 0 && bytes > -1", true),
        ("delta == -5 && -5 == delta && delta > -6 && delta <= -5", true),
        ("bytes > 99999999999999999999", false),
        ("bytes + delta == 1995 && bytes * 2 - 1 == 3999 && bytes / 3 == 666 && bytes % 3 == 2", true),
        ("-(delta) == 5 && --delta == -5", true),
        ("ratio < 1 && ratio * 2 == 1 && bytes * ratio == 1000 && ratio != 0.25", true),
        ("ok && !(!ok) && ok == true && ok != false", true),
        ("letter == 'x' && letter < 'y' && letter >= 'a'", true),
        ("peer == \"10.0.0.1\" && peer < \"11\" && len(peer) == 8", true),
        ("thread == 7 && time == 100ns && latency >= 5ms && latency < 0.006s", true),
        ("latency > 4_999us && bytes < 2K && bytes > 1.5K", true),
        ("!ok || false || true && true", true),
        // Nothing to the right of a decision is evaluated.
        ("ok || gone > 1", true),
        ("bytes < 5 && 1 / 0 > 1", false),
    ] {
        assert_eq!(judged(text), Ok(passes), "{text}");
    }
}

#[test]
fn faults_are_results() {
    for (text, fault) in [
        ("gone > 1", Fault::Missing),
        ("gone > bytes", Fault::Missing),
        ("bytes / 0 == 1", Fault::DivisionByZero),
        ("bytes % (delta + 5) == 1", Fault::DivisionByZero),
        ("170141183460469231731687303715884105727 + bytes > 0", Fault::Overflow),
    ] {
        assert_eq!(judged(text), Err(fault), "{text}");
    }
    let values = Hit { peer: "a".repeat(5000), ..Hit::any() };
    let judged = |text| compiled(text).unwrap().passes(&values.values(), &Around::default());
    assert_eq!(judged("peer ~ \"a*\""), Err(Fault::TooLong));
    assert_eq!(judged("peer == peer"), Err(Fault::TooLong));
    assert_eq!(judged("peer > \"a\" && len(peer) == 5000 && peer != \"a\""), Ok(true));
}

#[test]
fn a_nan_only_differs() {
    let values = Hit { ratio: f64::NAN, ..Hit::any() };
    let judged = |text| compiled(text).unwrap().passes(&values.values(), &Around::default());
    for text in ["ratio < 1", "ratio >= 1", "ratio == ratio", "!(ratio != 1)"] {
        assert_eq!(judged(text), Ok(false), "{text}");
    }
    assert_eq!(judged("ratio != ratio"), Ok(true));
}

#[test]
fn samples_count_the_hits_that_get_there() {
    let passed = |text: &str| {
        let (program, around) = (compiled(text).unwrap(), Around::default());
        let hit = |bytes| Hit { bytes, ..Hit::any() };
        let passes = |bytes: &u64| program.passes(&hit(*bytes).values(), &around).unwrap();
        (1..=10).filter(passes).collect::<Vec<u64>>()
    };
    assert_eq!(passed("first 3"), [1, 2, 3]);
    assert_eq!(passed("bytes > 4 && first 3"), [5, 6, 7]);
    assert_eq!(passed("first 3 && bytes > 2"), [3]);
    assert_eq!(passed("!first 8"), [9, 10]);
    assert_eq!(passed("1 in 4"), [4, 8]);
    assert_eq!(passed("1 in 4 || bytes == 5"), [4, 5, 8]);
    assert_eq!(passed("1 in 2 && 1 in 2"), [4, 8]);
}

#[test]
fn a_mistake_is_pointed_at() {
    for (text, at, problem) in [
        ("", 0, "a field, a constant or `(` is missing here"),
        ("bytes >", 7, "a field, a constant or `(` is missing here"),
        ("bytes = 1", 6, "compare by `==`"),
        ("bytes > 1 & ok", 10, "write `&&`"),
        ("bytes 1", 6, "an operator is missing here"),
        ("1 < bytes < 3", 10, "comparisons don't chain"),
        ("(bytes > 1", 10, "`)` is missing here"),
        ("peer ~ \"10", 7, "the closing `\"` is missing"),
        ("peer == 'ab'", 8, "one character stands in `'`"),
        ("latency > 5parsec", 10, "`parsec` is not a unit"),
        ("2 in 10", 0, "write `1 in 1000`"),
        ("1 in 0", 0, "write `1 in 1000`"),
        ("lower(peer) == \"a\"", 0, "`lower` is not a function here"),
        ("bytes > é§", 10, "`§` can't be part of an expression"),
        (&"(".repeat(40), 32, "at most 32"),
        (&vec!["ok"; 200].join("||"), 0, "an expression has at most 256 parts"),
    ] {
        let error = text.parse::<Predicate>().unwrap_err();
        assert!(error.problem.starts_with(problem), "{text}: {error:?}");
        assert!(error.at == at || problem.starts_with("an expression has"), "{text}: {error:?}");
    }
}

#[test]
fn types_are_checked_before_any_hit() {
    for (text, at, problem) in [
        ("bytes > \"1\"", 6, "an integer can't be compared with text"),
        ("bytes ~ \"1\"", 0, "`~` is for text, and this is an integer"),
        ("peer ~ peer", 7, "`~` needs a pattern here"),
        ("peer + 1 > 2", 0, "a number is needed here, and this is text"),
        ("bytes", 0, "a condition is needed here, and this is an integer"),
        ("ok && bytes", 6, "a condition is needed here, and this is an integer"),
        ("ok > false", 3, "truth values have no order"),
        ("ok == (bytes > 1)", 13, "join truth values by `&&` and `||`"),
        ("len(bytes) > 1", 4, "`len` is of a field that is text"),
        ("shown == \"a\"", 0, "`shown` can't be compared: it formats itself"),
    ] {
        match compiled(text) {
            Err(Mismatch::Type(error)) => {
                assert!(error.at == at && error.problem.starts_with(problem), "{text}: {error:?}");
            }
            other => panic!("{text}: {other:?}"),
        }
    }
    match compiled("bytes > 1 && byts > 1") {
        Err(Mismatch::Unknown { name, at }) => assert_eq!((name.as_str(), at), ("byts", 13)),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_comparison_with_a_constant_is_one_step() {
    for text in ["bytes > 1024", "delta <= -1", "5 == bytes", "bytes != 5"] {
        assert_eq!(compiled(text).unwrap().steps.len(), 1, "{text}");
    }
    assert_eq!(compiled("bytes > 1 && delta < 2").unwrap().steps.len(), 2);
}

fn numbers() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        Just("bytes".to_owned()),
        Just("delta".to_owned()),
        Just("thread".to_owned()),
        Just("len(peer)".to_owned()),
        (0..30_u64).prop_map(|it| it.to_string()),
        any::<i64>().prop_map(|it| it.to_string()),
        Just("ratio".to_owned()),
        Just("2.5".to_owned()),
    ];
    leaf.prop_recursive(3, 12, 2, |inner| {
        prop_oneof![
            (inner.clone(), "[-+*/%]", inner.clone()).prop_map(|(a, op, b)| format!("({a}) {op} ({b})")),
            inner.prop_map(|it| format!("-({it})")),
        ]
    })
}

fn conditions() -> impl Strategy<Value = String> {
    let compare = || prop_oneof![Just("=="), Just("!="), Just("<"), Just("<="), Just(">"), Just(">=")];
    let leaf = prop_oneof![
        (numbers(), compare(), numbers()).prop_map(|(a, op, b)| format!("{a} {op} {b}")),
        (compare(), "[a-c]{0,2}").prop_map(|(op, text)| format!("peer {op} {text:?}")),
        Just("ok".to_owned()),
        Just("letter > 'b'".to_owned()),
        Just("gone == 1".to_owned()),
        Just("true".to_owned()),
    ];
    combined(leaf)
}

fn combined(leaf: impl Strategy<Value = String> + 'static) -> impl Strategy<Value = String> {
    leaf.prop_recursive(4, 16, 2, |inner| {
        prop_oneof![
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("({a}) && ({b})")),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("({a}) || {b}")),
            inner.prop_map(|it| format!("!({it})")),
        ]
    })
}

fn hits() -> impl Strategy<Value = Hit> {
    let few = prop_oneof![0..30_u64, any::<u64>()];
    let signed = prop_oneof![-5..30_i64, any::<i64>()];
    let ratio = prop_oneof![Just(f64::NAN), Just(2.5), any::<f64>()];
    (few, signed, ratio, any::<bool>(), prop::char::range('a', 'd'), "[a-c]{0,2}")
        .prop_map(|(bytes, delta, ratio, ok, letter, peer)| Hit { bytes, delta, ratio, ok, letter, peer })
}

/// Comparisons of 64-bit integers with constants, also at the ends of their ranges.
fn quick_conditions() -> impl Strategy<Value = String> {
    let ends =
        [0, 1, -1, i128::from(i64::MIN), i128::from(i64::MAX), u64::MAX.into(), i128::from(u64::MAX) + 1];
    let constant =
        prop_oneof![proptest::sample::select(ends.to_vec()), -5..30_i128, any::<i64>().prop_map(i128::from)];
    let operator = proptest::sample::select(vec!["==", "!=", "<", "<=", ">", ">="]);
    let leaf = (proptest::sample::select(vec!["bytes", "delta"]), operator, constant, any::<bool>())
        .prop_map(|(field, operator, constant, is_first)| {
            if is_first {
                format!("{field} {operator} {constant}")
            } else {
                format!("{constant} {operator} {field}")
            }
        });
    combined(leaf)
}

/// The meaning of a tree in its simplest form: its value, evaluated node by node.
fn naive(node: &Node, hit: &Hit) -> Result<Naive, Fault> {
    use Naive::{Char, Float, Int, Text, Truth};
    let truth = |node| match naive(node, hit)? {
        Truth(it) => Ok(it),
        _ => Err(Fault::OtherType),
    };
    let float = |it: &Naive| match it {
        Int(it) => Some(*it as f64),
        Float(it) => Some(*it),
        _ => None,
    };
    Ok(match &node.part {
        Part::Int(it) => Int(*it),
        Part::Float(it) => Float(*it),
        Part::Bool(it) => Truth(*it),
        Part::Char(it) => Char(*it),
        Part::Text(it) => Text(it.clone()),
        Part::Name(name) => match name.as_str() {
            "bytes" => Int(hit.bytes.into()),
            "delta" => Int(hit.delta.into()),
            "ratio" => Float(hit.ratio),
            "ok" => Truth(hit.ok),
            "letter" => Char(hit.letter),
            "peer" => Text(hit.peer.clone()),
            "thread" => Int(7),
            _ => return Err(Fault::Missing),
        },
        Part::Len(_) => Int(hit.peer.len() as i128),
        Part::Negative(of) => match naive(of, hit)? {
            Int(it) => Int(it.checked_neg().ok_or(Fault::Overflow)?),
            Float(it) => Float(-it),
            _ => return Err(Fault::OtherType),
        },
        Part::Not(of) => Truth(!truth(of)?),
        Part::And(a, b) => Truth(truth(a)? && truth(b)?),
        Part::Or(a, b) => Truth(truth(a)? || truth(b)?),
        Part::Calculate(operator, a, b) => match (naive(a, hit)?, naive(b, hit)?) {
            (Int(_), Int(0)) if matches!(operator, Arithmetic::Divide | Arithmetic::Remainder) => {
                return Err(Fault::DivisionByZero);
            }
            (Int(a), Int(b)) => Int(match operator {
                Arithmetic::Add => a.checked_add(b),
                Arithmetic::Subtract => a.checked_sub(b),
                Arithmetic::Multiply => a.checked_mul(b),
                Arithmetic::Divide => a.checked_div(b),
                Arithmetic::Remainder => a.checked_rem(b),
            }
            .ok_or(Fault::Overflow)?),
            (a, b) => {
                let (Some(a), Some(b)) = (float(&a), float(&b)) else { return Err(Fault::OtherType) };
                Float(match operator {
                    Arithmetic::Add => a + b,
                    Arithmetic::Subtract => a - b,
                    Arithmetic::Multiply => a * b,
                    Arithmetic::Divide => a / b,
                    Arithmetic::Remainder => a % b,
                })
            }
        },
        Part::Compare(operator, a, b) => {
            let (a, b) = (naive(a, hit)?, naive(b, hit)?);
            let order = match (&a, &b) {
                (Int(a), Int(b)) => a.partial_cmp(b),
                (Text(a), Text(b)) => a.partial_cmp(b),
                (Char(a), Char(b)) => a.partial_cmp(b),
                (Truth(a), Truth(b)) => a.partial_cmp(b),
                (a, b) => float(a).and_then(|a| a.partial_cmp(&float(b)?)),
            };
            Truth(match operator {
                Comparison::Equal => order.is_some_and(std::cmp::Ordering::is_eq),
                Comparison::NotEqual => !order.is_some_and(std::cmp::Ordering::is_eq),
                Comparison::Less => order.is_some_and(std::cmp::Ordering::is_lt),
                Comparison::LessOrEqual => order.is_some_and(std::cmp::Ordering::is_le),
                Comparison::Greater => order.is_some_and(std::cmp::Ordering::is_gt),
                Comparison::GreaterOrEqual => order.is_some_and(std::cmp::Ordering::is_ge),
                Comparison::Matches | Comparison::MatchesNot => return Err(Fault::OtherType),
            })
        }
        Part::First(_) | Part::OneIn(_) => return Err(Fault::OtherType),
    })
}

#[derive(Debug)]
enum Naive {
    Int(i128),
    Float(f64),
    Truth(bool),
    Char(char),
    Text(String),
}

proptest! {
    #[test]
    fn any_text_parses_or_is_a_mistake_in_it(text in r#"([a-z0-9"'\\ ()<>=!&|~+*/%.,-]|bytes|&&|first |1 in |é){0,30}"#) {
        match text.parse::<Predicate>() {
            Ok(predicate) => {
                let printed = predicate.to_string();
                prop_assert_eq!(printed.parse::<Predicate>().unwrap().to_string(), printed);
                let _ = Program::condition(&predicate.node, &Scope { fields: &fields(), has_latency: false });
            }
            Err(error) => prop_assert!(text.is_char_boundary(error.at), "{}: {:?}", text, error),
        }
    }

    #[test]
    fn a_program_means_what_its_tree_means(text in conditions(), hit in hits()) {
        let predicate: Predicate = text.parse().unwrap();
        let again: Predicate = predicate.to_string().parse().unwrap();
        let expected = match naive(&predicate.node, &hit) {
            Ok(Naive::Truth(it)) => Ok(it),
            Ok(other) => panic!("{other:?}"),
            Err(fault) => Err(fault),
        };
        let fields = fields();
        for predicate in [predicate, again] {
            let program = match Program::condition(&predicate.node, &Scope { fields: &fields, has_latency: true }) {
                Ok(program) => program,
                Err(Mismatch::Type(error)) => {
                    prop_assert!(error.problem.starts_with("at most"), "{}", error.problem);
                    continue;
                }
                Err(other) => panic!("{other:?}"),
            };
            let quick = program.quick(&hit.values());
            prop_assert!(quick.is_none_or(|quick| Ok(quick) == expected), "{}: {:?}", predicate, quick);
            prop_assert_eq!(program.passes(&hit.values(), &Around::default()), expected, "{}", predicate);
        }
    }
    #[test]
    fn quick_conditions_mean_what_their_trees_mean(text in quick_conditions(), hit in hits()) {
        let program = compiled(&text).unwrap();
        let passes = program.passes(&hit.values(), &Around::default());
        let predicate: Predicate = text.parse().unwrap();
        let Ok(Naive::Truth(expected)) = naive(&predicate.node, &hit) else { panic!("{text}") };
        prop_assert_eq!(passes, Ok(expected));
        // Conditions that always hold, or never do, may have no such step.
        if program.steps.iter().all(|step| matches!(step, Step::Within(_))) && !program.steps.is_empty() {
            prop_assert_eq!(program.quick(&hit.values()), Some(expected));
        }
        prop_assert_eq!(program.quick(&[]), None, "a missing value");
    }
}
