//! `list` of this program's file, which is compared with what the program knows of itself.

use std::fs;
use std::process::Command;

use probe_runtime::abi::usdt::UsdtName;
use probe_runtime::field::Type;
use probe_runtime::{Kind, ProbeInfo, probe, probes};
use serde_json::Value;

use crate::ran::{Folder, HAS_SITES, fails, out, run, this};

const HANDLE: u32 = line!() + 3;
#[probe(group = "net", doc = "a request was handled")]
#[inline(never)]
fn handle(request: &str) -> usize {
    probe!("parsed", bytes = request.len(), request, first = ?request.chars().next(), ratio = 0.5);
    request.len()
}

enum Store {}

#[probe]
impl Store {
    #[inline(never)]
    fn put(key: usize) -> usize {
        if key == 0 { 1 } else { key }
    }

    #[probe(skip)]
    fn count() {}
}

fn hit() {
    Store::count();
    assert_eq!(handle("hello") + Store::put(0), 6);
}

fn place(line: u32) -> String {
    format!("{}:{line}", file!())
}

#[test]
fn a_table_as_the_runtime_prints_it() {
    hit();
    if !HAS_SITES {
        assert!(run(&["list", &this()]).out.ends_with("0 probes, 0 sites\n"));
        return;
    }
    let text = out(&["list", &this(), "cli::listed::**"]);
    let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
    let (handle, parsed) = (place(HANDLE), place(HANDLE + 1));
    assert_eq!(lines[0], ["probe", "kind", "sites", "place", "fields", "group"]);
    assert_eq!(lines[1][..4], ["cli::listed::Store::put", "entry", "1", lines[1][3]]);
    assert_eq!(lines[2][..3], ["cli::listed::Store::put", "exit", "1"]);
    assert_eq!(lines[3], ["cli::listed::handle", "entry", "1", &handle, "net"]);
    assert_eq!(lines[4], ["cli::listed::handle", "exit", "1", &handle, "net"]);
    assert_eq!(
        lines[5],
        [
            "cli::listed::parsed", "point", "1", &parsed, "bytes:", "u64,", "request:", "str,", "first:",
            "format,", "ratio:", "f64", "net"
        ]
    );
    assert_eq!(lines[6], ["5", "probes,", "5", "sites"]);
    assert_eq!(lines[7], ["1", "function", "was", "left", "out:"]);
    assert_eq!(lines[8], ["cli::listed::Store::count", "(asked)"]);
    assert_eq!(lines.len(), 9);
    assert!(text.lines().all(|line| !line.ends_with(' ')), "{text}");
}

fn type_name(ty: Type) -> &'static str {
    match ty {
        Type::U64 => "u64",
        Type::F64 => "f64",
        Type::Str => "str",
        Type::Format => "format",
        other => panic!("no field here has {other:?}"),
    }
}

fn row(probe: &ProbeInfo) -> Value {
    let field = |field: &probe_runtime::field::FieldInfo| match field.ty() {
        Some(ty) => serde_json::json!({ "name": field.name(), "type": type_name(ty) }),
        None => serde_json::json!({ "name": field.name() }),
    };
    let fields: Vec<_> = probe.fields().iter().map(field).collect();
    let mut row = serde_json::json!({
        "probe": probe.path(), "kind": probe.kind().name(), "file": probe.file(), "line": probe.line(),
        "sites": probe.sites(), "fields": fields, "state": "latent",
    });
    if let Some(group) = probe.group() {
        row["group"] = group.into();
    }
    if let Some(doc) = probe.doc() {
        row["doc"] = doc.into();
    }
    if probe.path() == "cli::bridged::asked" || probe.path().starts_with("cli::bridged::noted::") {
        row["usdt"] = UsdtName::of(probe.path(), probe.kind()).unwrap().to_string().into();
    }
    row
}

/// The file tells what the running program knows, to the last type.
#[test]
fn the_file_agrees_with_the_program() {
    hit();
    if !HAS_SITES {
        println!("skipped: files of this build show no sites");
        return;
    }
    let mut known = probes();
    // Another test loads objects of C.
    known.retain(|probe| probe.skipped().is_none() && probe.path().starts_with("cli::"));
    known.sort_by(|a, b| (a.path(), a.kind(), a.line()).cmp(&(b.path(), b.kind(), b.line())));
    let known: Vec<_> = known.iter().map(row).collect();
    let folder = Folder::new("stripped");
    let stripped = folder.0.join("stripped");
    fs::copy(this(), &stripped).unwrap();
    let strip = Command::new("strip").arg(&stripped).status();
    assert!(strip.is_ok_and(|status| status.success()), "there is binutils' strip");
    for file in [this(), stripped.display().to_string()] {
        let json: Value = serde_json::from_str(&out(&["list", "--json", &file])).unwrap();
        assert_eq!((&json["schema"], &json["command"]), (&1.into(), &"list".into()));
        assert_eq!(json["unread"], 0);
        assert_eq!(json["skipped"][0]["reason"], "asked");
        assert_eq!(json["rows"].as_array().unwrap(), &known);
    }
    assert!(known.iter().any(|row| row["kind"] == Kind::Point.name()));
}

#[test]
fn nothing_that_matches_brings_suggestions() {
    hit();
    if !HAS_SITES {
        return;
    }
    assert_eq!(
        fails(4, &["list", &this(), "listed::handle"]),
        "error: no probe matches the selector; did you mean `**::listed::handle` (2 probes)?\n"
    );
    assert_eq!(
        fails(4, &["list", &this(), "cli::listed::Store::count"]),
        "error: no probe matches the selector; it matches only functions that were left out: \
         `cli::listed::Store::count` (asked)\n"
    );
    let ran = run(&["list", &this(), "cli::listed::handle, zzz"]);
    assert_eq!((ran.code, ran.err.as_str()), (0, "note: no probe matches `zzz`\n"));
    assert!(ran.out.ends_with("2 probes, 2 sites\n"), "{}", ran.out);
}

#[test]
fn a_file_without_probes_has_an_empty_list() {
    let file = env!("CARGO_BIN_EXE_probectl");
    let ran = run(&["list", file]);
    assert_eq!((ran.code, ran.out.as_str()), (4, "probe  kind  sites  place  fields\n0 probes, 0 sites\n"));
    let ran = run(&["audit", file]);
    assert!(ran.code == 4 && ran.out.ends_with("0 findings\n"), "{ran:?}");
    assert_eq!(
        fails(4, &["list", file, "**"]),
        format!("error: no probe matches the selector; {file} has no probes\n")
    );
}

#[test]
fn the_file_itself() {
    let text = out(&["list", "--objects", &this()]);
    let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(lines[0], ["object", "type", "probes", "sites", "unread", "build", "id"]);
    assert_eq!(lines[1][..2], [this().as_str(), "position-independent"]);
    let json: Value = serde_json::from_str(&out(&["list", "--objects", "--json", &this()])).unwrap();
    assert_eq!(json["rows"][0]["unread"], 0);
    assert_eq!(json["rows"][0]["probes"].as_u64().unwrap() > 0, HAS_SITES);
}
