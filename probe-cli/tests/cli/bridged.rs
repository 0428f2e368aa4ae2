//! `list --bpftrace` of this program's file: the program is exact, and bpftrace takes it and counts
//! each call.

use std::fs;
use std::hint::black_box;
use std::process::Command;

use object::{Object, ObjectSymbol};
use probe_runtime::probe;
use probe_tests::bpftrace;
use serde_json::Value;

use crate::ran::{Folder, HAS_SITES, fails, out, run, this};

#[probe]
#[inline(never)]
fn plain(x: u64) -> u64 {
    black_box(x) + 1
}

#[probe(usdt, args(x))]
#[inline(never)]
fn asked(x: u64) -> u64 {
    probe!("other", x);
    black_box(x) + 1
}

/// Probes that a program shows with notes.
mod noted {
    use super::{black_box, probe};

    #[probe(usdt, ret)]
    #[inline(never)]
    pub fn returned(x: u64) -> u64 {
        probe!(usdt, "pair__a", x);
        probe!(usdt, "pair::a", x);
        black_box(x)
    }
}

/// bpftrace runs this, and counts.
#[test]
fn calls() {
    (0..17).for_each(|x| {
        black_box(plain(x));
    });
    (0..5).for_each(|x| {
        black_box(asked(x));
    });
    black_box(noted::returned(1));
}

/// Returns the address of a function, by its symbol.
fn function(name: &str) -> u64 {
    let bytes = fs::read(this()).unwrap();
    let file = object::File::parse(&*bytes).unwrap();
    let is_meant = |symbol: &object::Symbol<'_, '_>| {
        symbol.name().is_ok_and(|it| it.contains(&format!("bridged{}{name}17h", name.len())))
    };
    file.symbols().find(is_meant).expect("its symbol").address()
}

/// Returns the program for these probes, without its first line, and the notes.
fn program(selector: &str) -> (Vec<String>, String) {
    let ran = run(&["list", "--bpftrace", &this(), selector]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let mut lines = ran.out.lines().map(str::to_owned);
    assert_eq!(lines.next().unwrap(), format!("// Counts hits in {}, until Ctrl-C: bpftrace FILE", this()));
    (lines.collect(), ran.err)
}

#[test]
fn a_program_for_bpftrace() {
    if !HAS_SITES {
        println!("skipped: files of this build show no sites");
        return;
    }
    let path = fs::canonicalize(this()).unwrap().display().to_string();
    let at = function("plain");
    assert_eq!(
        program("cli::bridged::*"),
        (
            vec![
                format!(
                    "usdt:\"{path}\":cli:bridged__asked__entry {{ @[\"cli::bridged::asked entry\"] = count(); }}"
                ),
                format!(
                    "usdt:\"{path}\":cli:bridged__asked__exit {{ @[\"cli::bridged::asked exit\"] = count(); }}"
                ),
                format!("uprobe:\"{path}\":{at:#x} {{ @[\"cli::bridged::plain entry\"] = count(); }}"),
            ],
            "note: 2 probes left out: only entries and probes with `usdt` can be seen by bpftrace\n"
                .to_owned()
        )
    );
}

/// Two probes of one USDT name are one to bpftrace, and an exit with `ret` has a note at its return
/// only.
#[test]
fn notes_tell_of_names_and_panics() {
    if !HAS_SITES {
        println!("skipped: files of this build show no sites");
        return;
    }
    let (lines, notes) = program("cli::bridged::noted::** kind=point, cli::bridged::noted::** kind=exit");
    let names: Vec<_> = lines.iter().map(|line| line.split_once("\":").unwrap().1).collect();
    assert_eq!(
        names,
        [
            "cli:bridged__noted__pair__a { @[\"cli::bridged::noted::pair::a point\"] = count(); }",
            "cli:bridged__noted__returned__exit { @[\"cli::bridged::noted::returned exit\"] = count(); }",
        ]
    );
    assert_eq!(
        notes,
        "note: `cli::bridged::noted::pair__a point` and `cli::bridged::noted::pair::a point` have one USDT name, and \
         are counted as the latter\n\
         note: hits by a panic are not seen of 1 probe with `usdt` and `ret`\n"
    );
}

/// A path below a process stays as it is: it leads to a program that was deleted, too.
#[test]
fn a_process_s_program_has_its_path() {
    if !HAS_SITES {
        println!("skipped: files of this build show no sites");
        return;
    }
    let file = format!("/proc/{}/exe", std::process::id());
    let text = out(&["list", "--bpftrace", &file, "cli::bridged::plain kind=entry"]);
    assert!(text.lines().nth(1).unwrap().starts_with(&format!("uprobe:\"{file}\":0x")), "{text}");
}

#[test]
fn bpftrace_takes_it() {
    if !HAS_SITES {
        println!("skipped: files of this build show no sites");
        return;
    }
    if let Some(why) = bpftrace::missing() {
        println!("skipped: {why}");
        return;
    }
    let folder = Folder::new("bridged");
    let text = run(&["list", "--bpftrace", &this(), "cli::bridged::* kind=entry"]).out;
    let file = folder.file("program.bt", text);
    let calls = format!("{} --exact bridged::calls", this());
    let output = Command::new("bpftrace").args([&file, "-c", &calls]).output().expect("bpftrace");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let [shown, said] = [text(&output.stdout), text(&output.stderr)];
    for line in ["@[cli::bridged::plain entry]: 17", "@[cli::bridged::asked entry]: 5"] {
        assert!(shown.lines().any(|it| it == line), "no `{line}` in:\n{shown}{said}");
    }
}

#[test]
fn what_it_can_not_show_is_told() {
    if !HAS_SITES {
        return;
    }
    assert_eq!(
        fails(4, &["list", "--bpftrace", &this(), "cli::bridged::plain kind=exit"]),
        "error: bpftrace can see none of these probes; 1 probe left out: only entries and probes with `usdt` can be \
         seen by bpftrace; give the probes `usdt`, or ask for entries: `kind=entry`\n"
    );
    assert_eq!(
        fails(2, &["list", "--bpftrace", "--json", &this()]),
        "error: --bpftrace writes a program, and no JSON; leave out one\n"
    );
    let pid = std::process::id().to_string();
    assert_eq!(
        fails(2, &["list", "--bpftrace", &pid]),
        format!("error: --bpftrace reads a file: give /proc/{pid}/exe\n")
    );
}

#[test]
fn lists_show_usdt_names() {
    if !HAS_SITES {
        return;
    }
    let text = out(&["list", &this(), "cli::bridged::*"]);
    let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(lines[0], ["probe", "kind", "sites", "place", "fields", "usdt"]);
    assert_eq!(
        (lines[1][0], *lines[1].last().unwrap()),
        ("cli::bridged::asked", "cli:bridged__asked__entry")
    );
    let json: Value = serde_json::from_str(&out(&["list", "--json", &this(), "cli::bridged::*"])).unwrap();
    let usdt: Vec<_> = json["rows"].as_array().unwrap().iter().map(|row| row["usdt"].as_str()).collect();
    let [entry, exit] = ["cli:bridged__asked__entry", "cli:bridged__asked__exit"];
    assert_eq!(usdt, [Some(entry), Some(exit), None, None, None]);
}
