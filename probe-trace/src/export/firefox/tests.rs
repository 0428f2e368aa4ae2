//! Exact profiles of small traces. Of any trace, samples have the times that folded stacks have.

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::Value;

use crate::calls::Track;
use crate::export::{Format, export};
use crate::fixtures::{Fixture, any_fixture, id};
use crate::item::FieldValue;
use crate::layout::reading;

fn profile(fixture: &Fixture, clocks: Option<[u64; reading::WORDS]>) -> Value {
    let mut text = Vec::new();
    export(Format::Firefox, clocks, fixture.results(), &mut text).unwrap();
    serde_json::from_slice(&text).unwrap()
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().unwrap().iter()
}

fn string(thread: &Value, index: &Value) -> String {
    thread["stringArray"][at(index)].as_str().unwrap().to_owned()
}

fn at(index: &Value) -> usize {
    usize::try_from(index.as_u64().unwrap()).unwrap()
}

/// A thread's markers: names, begins and ends in milliseconds, and fields.
fn markers(profile: &Value, thread: &Value) -> Vec<String> {
    let column = |name: &str| list(&thread["markers"][name]);
    let times = column("startTime").zip(column("endTime"));
    let rest = column("name").zip(column("data")).zip(column("phase"));
    let shown = times.zip(rest).map(|((start, end), ((name, data), phase))| {
        let schema = list(&profile["meta"]["markerSchema"]).find(|it| it["name"] == data["type"]).unwrap();
        let fields = list(&schema["fields"]).map(|field| {
            let value = &data[field["key"].as_str().unwrap()];
            let text =
                if field["format"] == "unique-string" { string(thread, value) } else { value.to_string() };
            format!(" {}={text}", field["label"].as_str().unwrap())
        });
        let until = if *phase == 1 { format!("..{end}") } else { String::new() };
        format!("{start}{until} {}{}", string(thread, name), fields.collect::<String>())
    });
    shown.collect()
}

/// A thread's stacks, as folded ones, with the sums of their weights.
fn stacks(thread: &Value) -> BTreeMap<String, u64> {
    let mut stacks = BTreeMap::new();
    let frame = |stack: &Value| {
        let func = &thread["frameTable"]["func"][at(&thread["stackTable"]["frame"][at(stack)])];
        string(thread, &thread["funcTable"]["name"][at(func)])
    };
    for (mut stack, weight) in list(&thread["samples"]["stack"]).zip(list(&thread["samples"]["weight"])) {
        let mut names = Vec::new();
        while !stack.is_null() {
            names.push(frame(stack));
            stack = &thread["stackTable"]["prefix"][at(stack)];
        }
        names.reverse();
        if !names.is_empty() {
            *stacks.entry(names.join(";")).or_default() += weight.as_u64().unwrap();
        }
    }
    stacks
}

fn named<'a>(profile: &'a Value, name: &str) -> &'a Value {
    list(&profile["threads"]).find(|thread| thread["name"] == name).unwrap()
}

#[test]
fn calls_are_markers_and_samples() {
    let text = FieldValue::Str { text: "größe".to_owned(), cut: 0 };
    let fixture = Fixture::new()
        .thread(1, "main")
        .thread(2, "worker")
        .fields(1, 1_000_000, "entry app::get", vec![("n", FieldValue::I64(-3)), ("type", text)])
        .fields(1, 1_200_000, "point app::queue", vec![("length", FieldValue::U64(9))])
        .hit(1, 1_500_000, "entry app::read")
        .hit(1, 4_500_000, "exit app::read")
        .fields(1, 5_000_001, "exit app::get", vec![("n", FieldValue::U64(7))])
        .gap(1, 6_000_000, 7_000_000, 4)
        .hit(2, 8_000_000, "entry lib::run");
    let mut clocks = [0; reading::WORDS];
    (clocks[reading::MONOTONIC], clocks[reading::REAL]) = (3_000_000, 9_000_000);
    let profile = profile(&fixture, Some(clocks));
    assert_eq!(profile["meta"]["startTime"], 7.0, "milliseconds, when the first hit was");
    assert_eq!(profile["meta"]["product"], "server");
    let main = named(&profile, "main");
    assert_eq!(
        (&main["pid"], &main["tid"], &main["processName"]),
        (&"7".into(), &"101".into(), &"server".into())
    );
    assert_eq!(
        markers(&profile, main),
        [
            "0.2 app::queue length=9.0",
            "0.5..3.5 app::read",
            "0.0..4.000001 app::get n=-3 type=größe n=7",
            "5.0..6.0 lost events lost=4",
        ]
    );
    let expected = [("app::get", 1_000_001), ("app::get;app::read", 3_000_000)];
    assert_eq!(stacks(main), expected.map(|(stack, own)| (stack.to_owned(), own)).into());
    let worker = named(&profile, "worker");
    assert_eq!(markers(&profile, worker), ["7.0..7.0 lib::run probe.ending=open at the end of the trace"]);
    let categories: Vec<_> =
        list(&profile["meta"]["categories"]).map(|it| it["name"].as_str().unwrap()).collect();
    assert!(categories.ends_with(&["app", "probe", "lib"]), "{categories:?}");
    // A counter's value has a graph.
    let graphs = list(&profile["meta"]["markerSchema"]).filter_map(|it| it.get("graphs"));
    assert_eq!(graphs.filter(|it| it[0]["key"] == "length").count(), 1);
}

#[test]
fn futures_have_a_row_of_tracks() {
    let fixture = Fixture::new()
        .thread(1, "main")
        .fields(1, 1_000_000, "entry app::task 64", vec![("id", FieldValue::U64(5))])
        .hit(1, 2_000_000, "suspend app::task 64")
        .hit(1, 4_000_000, "resume app::task 64")
        .hit(1, 5_000_000, "drop app::task 64");
    let profile = profile(&fixture, None);
    assert_eq!(
        markers(&profile, named(&profile, "main")),
        ["0.0..1.0 app::task id=5", "3.0..4.0 app::task probe.ending=cancelled"]
    );
    assert_eq!(
        markers(&profile, named(&profile, "futures")),
        ["1.0..3.0 app::task waits", "0.0..4.0 app::task future=64 id=5 probe.ending=cancelled"]
    );
}

#[test]
fn long_times_have_a_larger_unit() {
    let fixture = |long: u64| {
        let fixture = Fixture::new().thread(1, "main").hit(1, 5, "entry app::sleep").hit(
            1,
            5 + long,
            "exit app::sleep",
        );
        fixture.hit(1, 100 + long, "entry app::wake").hit(1, 107 + long, "exit app::wake")
    };
    let sums = |long: u64| {
        let profile = profile(&fixture(long), None);
        let stacks = stacks(named(&profile, "main"));
        let nanoseconds = profile["meta"]["interval"].as_f64().unwrap() * 1e6;
        (nanoseconds.round(), stacks["app::sleep"], stacks["app::wake"])
    };
    let most = u64::from(i32::MAX.unsigned_abs());
    assert_eq!(sums(most), (1.0, most, 7));
    // The remainder is told with the next sample.
    assert_eq!(sums(most * 10 + 3), (10.0, most, 1));
    assert_eq!(sums(u64::MAX - 107).1, 1_844_674_407);
}

/// Stacks of a thread in the folded format.
fn folded(fixture: &Fixture) -> BTreeMap<String, u64> {
    let mut text = Vec::new();
    export(Format::Folded, None, fixture.results(), &mut text).unwrap();
    let text = String::from_utf8(text).unwrap();
    let lines = text.lines().map(|line| line.rsplit_once(' ').unwrap());
    let mut stacks = BTreeMap::new();
    for (stack, own) in lines {
        // The program and the thread come first.
        let calls: Vec<_> = stack.split(';').skip(2).collect();
        if own != "0" {
            *stacks.entry(calls.join(";")).or_default() += own.parse::<u64>().unwrap();
        }
    }
    stacks
}

proptest! {
    #[test]
    fn samples_have_the_times_of_folded_stacks(fixture in any_fixture()) {
        let profile = profile(&fixture, None);
        let mut all = BTreeMap::new();
        for thread in list(&profile["threads"]) {
            for (stack, own) in stacks(thread) {
                *all.entry(stack).or_default() += own;
            }
        }
        prop_assert_eq!(all, folded(&fixture));
    }

    #[test]
    fn each_slice_and_each_point_is_a_marker(fixture in any_fixture()) {
        use crate::calls::{Calls, Slice, Step};
        let shown = |step: &Step| match step {
            Step::End(end) => matches!(end.track, Track::Thread(_)) || end.slice != Slice::Poll,
            Step::Instant(_) | Step::Gap(_) => true,
            _ => false,
        };
        let steps = Calls::new(fixture.results()).map(Result::unwrap).filter(shown).count();
        let profile = profile(&fixture, None);
        let found: usize = list(&profile["threads"]).map(|thread| markers(&profile, thread).len()).sum();
        prop_assert_eq!(found, steps);
    }
}

#[test]
fn threads_of_one_id_are_told_apart() {
    let mut fixture = Fixture::new().hit(1, 10, "point app::a").hit(2, 11, "point app::b");
    for item in &mut fixture.items {
        if let crate::Item::Event(event) = item {
            event.thread.tid = id(1).tid;
        }
    }
    let profile = profile(&fixture, None);
    let tids: Vec<_> = list(&profile["threads"]).map(|thread| thread["tid"].clone()).collect();
    assert_eq!(tids, ["101", "101.1"]);
}
