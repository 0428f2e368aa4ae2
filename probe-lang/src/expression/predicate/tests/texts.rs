//! Random conditions, as texts, and hits.

use proptest::prelude::*;

use super::Hit;

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

pub(super) fn conditions() -> impl Strategy<Value = String> {
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

pub(super) fn hits() -> impl Strategy<Value = Hit> {
    let few = prop_oneof![0..30_u64, any::<u64>()];
    let signed = prop_oneof![-5..30_i64, any::<i64>()];
    let ratio = prop_oneof![Just(f64::NAN), Just(2.5), any::<f64>()];
    (few, signed, ratio, any::<bool>(), prop::char::range('a', 'd'), "[a-c]{0,2}")
        .prop_map(|(bytes, delta, ratio, ok, letter, peer)| Hit { bytes, delta, ratio, ok, letter, peer })
}

/// Comparisons of 64-bit integers with constants, also at the ends of their ranges.
pub(super) fn quick_conditions() -> impl Strategy<Value = String> {
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
