//! `list`: `probectl list` of a file with 100,000 sites, as a table and as JSON, and `audit` of it,
//! from the open call to the whole text in memory. The baseline is `nm`, a process of its own,
//! which prints the symbols of the same file.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use probe_benches::{Case, IS_PATCHED, Scale, figure, interleave, monotonic_ns};
use probe_cli::args::{Arguments, Audit, Command as Asked, List};
use probe_cli::commands;

const PROBES: &str = env!("CARGO_BIN_EXE_startup-probes");
const SITES: usize = 100_000;

/// Runs a command of `probectl`; returns its output.
fn run(command: Asked, json: bool) -> String {
    commands::run(&Arguments { json, wide: false, command }).expect("the file can be read").out
}

fn list(json: bool) {
    let file = PathBuf::from(PROBES);
    let text = run(
        Asked::List(List {
            file: Some(file),
            pid: None,
            selector: None,
            objects: false,
            bpftrace: false,
            list: None,
        }),
        json,
    );
    // Each line is a probe with one site, but for a line before and one or two after.
    assert_eq!(text.lines().count() - 2, SITES);
}

fn audit() {
    let text = run(Asked::Audit(Audit { file: PathBuf::from(PROBES), quiet: false }), false);
    // The heading, the totals, the findings: the generated functions begin with their sites.
    assert!(text.lines().count() > SITES + 2);
}

fn symbols() {
    let status = Command::new("nm").arg(PROBES).stdout(Stdio::null()).status();
    assert!(status.expect("binutils' nm").success());
}

/// Returns a case that measures elapsed time.
fn timed<'a>(name: &'static str, mut run: impl FnMut() + 'a) -> Case<'a> {
    Case::given(name, move || {
        let before = monotonic_ns();
        run();
        monotonic_ns() - before
    })
}

fn main() {
    if !IS_PATCHED {
        println!("sites are not patched in this build");
        return;
    }
    if Command::new("nm").arg("--version").output().is_err() {
        println!("there is no `nm`");
        return;
    }
    let mut cases = [
        timed("nm", symbols),
        timed("table", || list(false)),
        timed("json", || list(true)),
        timed("audit", audit),
    ];
    let medians = interleave(Scale::from_args().of(21), &mut cases);
    for case in medians.names().skip(1) {
        let ms = medians.ns(case) / 1e6;
        figure(&format!("list/{case}"), format_args!("{ms:.1}"), "ms", medians.ratio(case, "nm"), "nm");
    }
}
