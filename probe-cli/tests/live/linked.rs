//! Files that linkers have made and tools have changed: each way to their probes finds them.
//!
//! A linker may put notes into segments of other alignments, and `patchelf` moves them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use probe_tests::c_library;
use probe_tests::instrumented;
use probe_tests::whole;
use serde_json::Value;

use crate::injected_into::{Target, done};
use crate::outside::hits;
use crate::preloaded::{Served, agent, output, with_agent};
use crate::program::{Folder, Program, Ran, out, run, this, words};

/// Works until its input ends.
const SOURCE: &str = r#"
#ifdef HOST
unsigned long work(unsigned long);
#else
#include <probe.h>
__attribute__((noinline)) unsigned long work(unsigned long x) {
    PROBE_U64("working", x);
    return 3 * x + 1;
}
#endif
#ifndef LIBRARY
#include <poll.h>
#include <stdio.h>
int main(void) {
    unsigned long wrong = 0;
    struct pollfd input = {.fd = 0, .events = POLLIN};
    puts("ready");
    fflush(stdout);
    for (unsigned long x = 0; poll(&input, 1, 1) <= 0; x++) wrong += work(x) != 3 * x + 1;
    puts(wrong ? "wrong" : "right");
    return 0;
}
#endif
"#;

/// A linker, and the tool that it is.
const LINKERS: [(&str, &str); 4] =
    [("bfd", "ld.bfd"), ("gold", "ld.gold"), ("lld", "ld.lld"), ("mold", "mold")];

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Fixed,
    Pie,
    Static,
    Shared,
}

const KINDS: [Kind; 4] = [Kind::Fixed, Kind::Pie, Kind::Static, Kind::Shared];

/// A tool that changes a file, with its arguments.
type Change = (&'static str, &'static [&'static str]);

const CHANGES: [Change; 5] = [
    ("", &[]),
    ("strip", &[]),
    ("patchelf", &["--set-rpath", "$ORIGIN/a/path/that/is/too/long/for/the/room/that/the/linker/left"]),
    ("objcopy", &["--compress-debug-sections"]),
    ("eu-strip", &[]),
];

/// The members of a slice: places in the lists above.
const SLICE: [[usize; 3]; 6] = [[3, 1, 2], [0, 0, 2], [2, 1, 0], [1, 3, 3], [0, 1, 1], [3, 2, 4]];

/// How the probes are seen, beside `list` and `audit` of the file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Way {
    /// By a runtime that the dynamic linker loads into the program.
    InProcess,
    /// By an agent that is brought to the program that runs.
    Attached,
    /// From outside.
    Outside,
}

const WAYS: [Way; 3] = [Way::InProcess, Way::Attached, Way::Outside];

/// Returns whether there is a tool; says so if not.
fn is_there(tool: &str) -> bool {
    let is_there = tool.is_empty() || Command::new(tool).arg("--version").output().is_ok();
    if !is_there {
        println!("left out: there is no {tool}");
    }
    is_there
}

/// Changes a file by a tool.
fn change(file: &Path, (tool, arguments): Change) {
    let ran = Ran::from(output(Command::new(tool).args(arguments).arg(file)));
    assert_eq!(ran.code, Some(0), "{tool} {}: {ran:?}", file.display());
}

/// Makes a file with a probe. Returns it, and the program, which may be another one.
fn made(folder: &Folder, linker: &str, kind: Kind, change_by: Change) -> (PathBuf, PathBuf) {
    let source = folder.0.join("linked.c");
    fs::write(&source, SOURCE).unwrap();
    let name = format!("{linker}-{kind:?}-{}", change_by.0);
    let compile = |flags: &[&str], files: &[&Path], file: PathBuf| {
        let used = format!("-fuse-ld={linker}");
        let flags = [&["-O1", "-g", &used], flags].concat();
        let said = c_library::run(instrumented::compilers()[0], &flags, files, &file);
        assert!(said.is_done, "{name}: {}", said.messages);
        file
    };
    let flags: &[&str] = match kind {
        Kind::Fixed => &["-no-pie"],
        Kind::Pie => &["-pie", "-fPIE"],
        Kind::Static => &["-static", "-no-pie"],
        Kind::Shared => &["-shared", "-fPIC", "-DLIBRARY"],
    };
    let file = compile(flags, &[&source], folder.0.join(format!("{name}.bin")));
    if !change_by.0.is_empty() {
        change(&file, change_by);
    }
    let program = match kind {
        Kind::Shared => compile(&["-DHOST"], &[&source, &file], folder.0.join(&name)),
        _ => file.clone(),
    };
    (file, program)
}

/// Looks at a file, and at its program. Returns `None` if nobody may trace here, which is said.
fn look(folder: &Folder, file: &Path, program: &Path, way: Way) -> Option<()> {
    let path = file.to_str().unwrap();
    let list: Value = serde_json::from_str(&out(folder, &["list", "--json", path])).unwrap();
    let row = &list["rows"][0];
    assert_eq!((list["rows"].as_array().unwrap().len(), list["unread"].as_u64()), (1, Some(0)), "{list}");
    assert_eq!((row["probe"].as_str(), row["sites"].as_u64()), (Some("working"), Some(1)), "{path}: {list}");
    // A note may say that nothing tells where functions begin.
    let audit = run(folder, &["audit", "-q", path]);
    assert!(audit.code == Some(0) && audit.out.ends_with("\n0 findings\n"), "{path}: {audit:?}");
    if way == Way::InProcess {
        let mut served = Served::start(folder, &["--", program.to_str().unwrap()]);
        let list = out(folder, &["list", &served.pid()]);
        assert_eq!(words(&list).last().unwrap().join(" "), "1 probe, 1 site", "{path}: {list}");
        assert_eq!(served.end(), Some(0));
        return Some(());
    }
    let mut target = Target::start(folder, &mut Command::new(program));
    let pid = target.pid();
    let outside: &[&str] = if way == Way::Outside { &["--ptrace"] } else { &[] };
    let count = [&["--json", "count", "-p", &pid, "working", "--for", "50ms"], outside].concat();
    let counted = done(folder, &count)?;
    assert_ne!(hits(&counted), 0, "{path}, {way:?}: {counted}");
    assert_eq!(target.end(), "right");
    Some(())
}

#[test]
fn each_way_finds_the_probes_of_each_file() {
    let folder = Folder::new("linked");
    let all = (0..LINKERS.len()).flat_map(|linker| {
        let kinds = (0..KINDS.len()).map(move |kind| [linker, kind]);
        kinds.flat_map(|[linker, kind]| (0..CHANGES.len()).map(move |change| [linker, kind, change]))
    });
    let is_whole = whole::has("files by each linker, of each kind, changed by each tool");
    let files: Vec<_> = if is_whole { all.collect() } else { SLICE.to_vec() };
    for (number, [linker, kind, change]) in files.into_iter().enumerate() {
        let ((linker, tool), kind, change) = (LINKERS[linker], KINDS[kind], CHANGES[change]);
        // A static file has no dynamic section for `patchelf`.
        if kind == Kind::Static && change.0 == "patchelf" || !is_there(tool) || !is_there(change.0) {
            continue;
        }
        let (file, program) = made(&folder, linker, kind, change);
        for (turn, way) in WAYS.into_iter().enumerate() {
            // A static program can get no runtime.
            if (is_whole || number % WAYS.len() == turn) && (kind != Kind::Static || way == Way::Outside) {
                look(&folder, &file, &program, way);
            }
        }
    }
}

/// The way into the program's own runtime, and into the library, if `patchelf` has moved the notes
/// that lead there.
#[test]
fn agents_start_in_files_that_patchelf_has_changed() {
    if !is_there("patchelf") {
        return;
    }
    let folder = Folder::new("linked-agents");
    let changed = |file: &Path| {
        let copy = folder.0.join(file.file_name().unwrap());
        fs::copy(file, &copy).unwrap();
        change(&copy, CHANGES[1]);
        change(&copy, CHANGES[2]);
        copy
    };
    let program = Program::without_agent_from(&folder, &changed(&this()));
    let counted = ["--json", "count", "-p", &program.pid(), "live::program::work", "--for", "50ms"];
    let Some(counted) = done(&folder, &counted) else { return };
    assert_ne!(hits(&counted), 0, "{counted}");

    let (_, program) = made(&folder, "bfd", Kind::Pie, CHANGES[0]);
    let mut target = Target::start(&folder, &mut Command::new(program));
    let counted = ["--json", "count", "-p", &target.pid(), "working", "--for", "50ms"];
    let counted = output(with_agent(&folder, &counted).env("PROBE_AGENT_LIBRARY", changed(&agent())));
    let counted = Ran::from(counted);
    assert_eq!(counted.code, Some(0), "{counted:?}");
    assert_ne!(hits(&counted.out), 0, "{counted:?}");
    assert_eq!(target.end(), "right");
}
