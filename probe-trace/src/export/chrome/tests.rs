//! Exact output for small traces, and balance for any.

use std::collections::HashMap;

use proptest::prelude::*;
use serde_json::Value;

use crate::export::{Error, Format, export};
use crate::fixtures::{Fixture, any_fixture};
use crate::item::FieldValue;

fn text(fixture: &Fixture) -> String {
    let mut text = Vec::new();
    export(Format::Chrome, None, fixture.results(), &mut text).unwrap();
    String::from_utf8(text).unwrap()
}

#[test]
fn events_have_exact_times_and_typed_arguments() {
    let fixture = Fixture::new()
        .thread(1, "main")
        .fields(
            1,
            18_446_744_073_709_551_001,
            "entry app::net::get",
            vec![
                ("n", FieldValue::I64(-3)),
                ("big", FieldValue::U128(u128::MAX)),
                ("nan", FieldValue::F64(f64::NAN)),
                ("half", FieldValue::F64(0.5)),
                ("text", FieldValue::Str { text: "a\"b".to_owned(), cut: 2 }),
            ],
        )
        .fields(1, 18_446_744_073_709_551_001, "point app::net::queue", vec![("length", FieldValue::U64(9))])
        .hit(1, 18_446_744_073_709_551_002, "exit app::net::get")
        .gap(1, 18_446_744_073_709_551_003, 18_446_744_073_709_551_005, 4);
    let expected = r#"[
{"ph":"M","name":"process_name","pid":7,"args":{"name":"server"}},
{"ph":"M","name":"thread_name","pid":7,"tid":101,"args":{"name":"main"}},
{"ph":"B","name":"app::net::get","cat":"app","pid":7,"tid":101,"ts":18446744073709551.001,"args":{"n":-3,"big":"340282366920938463463374607431768211455","nan":"NaN","half":0.5,"text":"a\"b… (2 bytes more)"}},
{"ph":"i","name":"app::net::queue","cat":"app","pid":7,"tid":101,"ts":18446744073709551.001,"s":"t","args":{"length":9}},
{"ph":"C","name":"app::net::queue","cat":"app","pid":7,"ts":18446744073709551.001,"args":{"length":9}},
{"ph":"E","name":"app::net::get","cat":"app","pid":7,"tid":101,"ts":18446744073709551.002},
{"ph":"i","name":"4 events lost","cat":"probe","pid":7,"tid":101,"ts":18446744073709551.003,"s":"t","args":{"lost":4,"nanoseconds":2}}
]
"#;
    assert_eq!(text(&fixture), expected);
}

#[test]
fn futures_are_asynchronous_events() {
    let fixture = Fixture::new().hit(1, 1000, "resume app::get 64").hit(1, 2000, "drop app::get 64");
    let expected = r#"[
{"ph":"b","name":"app::get","cat":"app","pid":7,"tid":7,"ts":1.000,"id":"0x1","args":{"future":64,"probe.began_before":true}},
{"ph":"b","name":"poll","cat":"app","pid":7,"tid":7,"ts":1.000,"id":"0x1"},
{"ph":"B","name":"app::get","cat":"app","pid":7,"tid":101,"ts":1.000},
{"ph":"E","name":"app::get","cat":"app","pid":7,"tid":101,"ts":2.000,"args":{"probe.ending":"cancelled"}},
{"ph":"e","name":"poll","cat":"app","pid":7,"tid":7,"ts":2.000,"id":"0x1","args":{"probe.ending":"cancelled"}},
{"ph":"n","name":"cancelled","cat":"app","pid":7,"tid":7,"ts":2.000,"id":"0x1"},
{"ph":"e","name":"app::get","cat":"app","pid":7,"tid":7,"ts":2.000,"id":"0x1","args":{"probe.ending":"cancelled"}}
]
"#;
    assert_eq!(text(&fixture), expected);
}

#[test]
fn output_is_whole_where_a_trace_is_torn() {
    let items = Fixture::new().hit(1, 10, "entry app::f").items;
    let items = items.into_iter().map(Ok).chain([Err("torn")]);
    let mut text = Vec::new();
    let error = export(Format::Chrome, None, items, &mut text).unwrap_err();
    assert_eq!(error.to_string(), "can't read the trace further, so the export ends here: torn");
    assert!(matches!(error, Error::Items("torn")));
    let events: Vec<Value> = serde_json::from_slice(&text).unwrap();
    assert_eq!(events[1]["args"]["probe.ending"], "open at the end of the trace");
}

proptest! {
    #[test]
    fn begins_and_ends_balance(fixture in any_fixture()) {
        let events: Vec<Value> = serde_json::from_str(&text(&fixture)).unwrap();
        let mut open: HashMap<(u64, String), Vec<String>> = HashMap::new();
        for event in &events {
            let key = (event["tid"].as_u64().unwrap_or(0), event["id"].to_string());
            let name = event["name"].as_str().unwrap().to_owned();
            match event["ph"].as_str().unwrap() {
                "B" | "b" => open.entry(key).or_default().push(name),
                "E" | "e" => prop_assert_eq!(open.entry(key).or_default().pop(), Some(name)),
                _ => {}
            }
        }
        prop_assert!(open.values().all(Vec::is_empty));
    }
}
