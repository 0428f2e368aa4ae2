//! A program ▸ `middle` ▸ `leaf`, each with probes: all are listed, selected and counted as if they
//! were one crate's.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use probe_tests::fixture::Configuration;
use probe_tests::fixture::transcript::Sites::{AtLeast, Exactly};
use probe_tests::fixture::transcript::{Expected, Transcript, check, function};
use probe_tests::whole;

use crate::shipped::configuration;

/// A future's five probes, after futures that never waited; the optimiser may see that they don't.
fn future(path: &'static str, hits: u64) -> [Expected; 5] {
    [("entry", hits), ("exit", hits), ("drop", 0), ("suspend", 0), ("resume", 0)]
        .map(|(kind, hits)| (path, kind, AtLeast(usize::from(hits != 0)), hits))
}

/// A function that the program does not call: it may have been compiled in the library, and may be
/// linked.
fn uncalled(path: &'static str) -> [Expected; 2] {
    ["entry", "exit"].map(|kind| (path, kind, AtLeast(0), 0))
}

/// What `leaf` ships, after `calls` calls of `serve`.
pub fn leaf(calls: u64) -> Vec<Expected> {
    let mut expected = function("leaf::decode", Exactly(1), 4 * calls).to_vec();
    expected.extend(function("leaf::sum", Exactly(1), 2 * calls));
    expected.extend(function("leaf::Tally::add", Exactly(1), 2 * calls));
    expected.extend(uncalled("leaf::spare"));
    expected.extend(future("leaf::fetch", calls));
    expected.extend([
        ("leaf::decode::frame", "point", AtLeast(1), 3 * calls),
        ("leaf::Tally::counted", "point", AtLeast(1), calls),
        ("leaf::decode::short", "point", AtLeast(1), calls),
        ("leaf::never", "point", AtLeast(0), 0),
    ]);
    expected
}

/// What `middle` ships.
pub fn middle(calls: u64) -> Vec<Expected> {
    let mut expected = function("middle::total", Exactly(1), calls).to_vec();
    expected.extend(function("middle::Reader::next", Exactly(1), 3 * calls));
    expected.push(("middle::Reader::split", "point", AtLeast(1), 2 * calls));
    expected
}

/// All probes of the program.
pub fn all(calls: u64) -> Vec<Expected> {
    [function("app::serve", Exactly(1), calls).to_vec(), leaf(calls), middle(calls)].concat()
}

/// The hits that are expected of some of the probes.
pub fn hits(expected: &[Expected]) -> BTreeMap<(String, String), u64> {
    let hits = expected.iter().map(|(path, kind, _, hits)| (((*path).into(), (*kind).into()), *hits));
    hits.collect()
}

fn check_chain(configuration: &Configuration) {
    let built = configuration.build("app");
    let output = built.run("app", &[Path::new("chain")]);
    let stages = Transcript::stages(&output);
    let names: Vec<&str> = stages.iter().map(|(name, _)| *name).collect();
    let selectors = [
        "leaf::** kind=entry|exit", "group=middle::reader", "group=leaf::*", "@leaf/src/*.rs kind=point",
        "**",
    ];
    assert_eq!(names, [&["listed"][..], &selectors].concat(), "{}", built.description());
    let stages: Vec<Transcript> = stages.into_iter().map(|(_, stage)| stage).collect();

    let listed = &stages[0];
    listed.must_match_files(&built, &["app"]);
    check(&Transcript { hits: hits(&all(0)), ..listed.clone() }, &all(0), built.description());
    must_stand_where_they_do(&listed.rest);
    let left_out: Vec<_> = listed.rest.iter().filter(|line| line.starts_with("left out ")).collect();
    assert_eq!(left_out, ["left out leaf::Tally::frames small"], "{}", built.description());

    let selected: [&dyn Fn(&Expected) -> bool; 5] = [
        &|(path, kind, ..)| path.starts_with("leaf::") && matches!(*kind, "entry" | "exit"),
        &|(path, ..)| path.starts_with("middle::Reader::"),
        &|(path, ..)| path.starts_with("leaf::Tally::"),
        &|(path, kind, ..)| path.starts_with("leaf::") && *kind == "point",
        &|_| true,
    ];
    for ((stage, selector), is_selected) in stages[1..].iter().zip(selectors).zip(selected) {
        let expected: Vec<Expected> = all(2).into_iter().filter(is_selected).collect();
        assert_eq!(stage.hits, hits(&expected), "{selector}, {}", built.description());
        let sites: usize = (expected.iter())
            .map(|(path, kind, ..)| listed.sites[&((*path).to_owned(), (*kind).to_owned())])
            .sum();
        let mut rest = vec![format!("patched {sites}"), format!("restored {sites}")];
        rest.extend((selector == "**").then(|| "ok".to_owned()));
        assert_eq!(stage.rest, rest, "{selector}, {}", built.description());
    }
}

/// Each probe names the file of its crate, the line of its function or point there, and its fields.
fn must_stand_where_they_do(lines: &[String]) {
    let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("shipped");
    let line_of = |file: &str, text: &str| {
        let source = fs::read_to_string(fixture.join(file)).expect("the source");
        1 + source.lines().position(|line| line.contains(text)).expect(text)
    };
    for (probe, file, text, fields) in [
        ("app::serve entry", "app/src/main.rs", "fn serve", ""),
        ("leaf::decode exit", "leaf/src/lib.rs", "fn decode", ""),
        ("leaf::decode::frame point", "leaf/src/lib.rs", "\"decode::frame\"", "tag,len,head"),
        ("leaf::decode::short point", "leaf/src/lib.rs", "\"decode::short\"", "missing"),
        ("middle::Reader::next entry", "middle/src/lib.rs", "fn next_frame", ""),
        ("leaf::Tally::add exit", "leaf/src/lib.rs", "fn add", ""),
        ("leaf::Tally::counted point", "leaf/src/lib.rs", "\"Tally::counted\"", "tag,so_far"),
        ("middle::Reader::split point", "middle/src/lib.rs", "\"Reader::split\"", "left"),
    ] {
        let found: Vec<&str> =
            lines.iter().filter_map(|line| line.strip_prefix(&format!("at {probe} "))).collect();
        let [found] = found[..] else { panic!("{probe}: {found:?}") };
        let expected = format!("{file}:{} {fields}", line_of(file, text));
        assert!(found.ends_with(&expected), "{probe}: {found}, not {expected}");
    }
}

#[test]
fn debug() {
    check_chain(&configuration("debug"));
}

#[test]
fn release() {
    check_chain(&configuration("release").release_on_plain_runtime());
}

/// All crates as one.
#[test]
fn fat_lto() {
    if whole::has("fat_lto") {
        check_chain(&configuration("fat_lto").release().setting("LTO", "fat"));
    }
}
