//! SQLite built by `probe_build`: its functions are listed by name, file and line; each has an
//! account; no hook is left. Each scenario in a process of its own: both builds have the same
//! probes.
#![cfg(all(target_arch = "x86_64", target_os = "linux", not(any(probe_portable, probe_off))))]

use probe_runtime::{Kind, probes};
use probe_tests::real::{SQLITE, Way, checks};

const ROOT: &str = env!("CARGO_TARGET_TMPDIR");

fn scenario(name: &str, way: Way) {
    checks::in_a_child(&SQLITE, ROOT, name, way, |way| {
        let _loaded = checks::listing(&SQLITE, ROOT, way).load();
        let kinds = |path: &str| {
            let found = probes()
                .into_iter()
                .filter(|it| it.path() == path && it.file().ends_with("sqlite3/sqlite3.c"));
            found.map(|it| it.kind()).collect::<Vec<_>>()
        };
        assert_eq!(kinds("sqlite3VdbeExec"), [Kind::Entry, Kind::Exit]);
    });
}

#[test]
fn entry_return() {
    scenario("entry_return", Way::EntryReturn);
}

#[test]
fn instrument_functions() {
    scenario("instrument_functions", Way::InstrumentFunctions);
}
