//! SQLite built by `probe_build`: a thread inserts and queries while another attaches to one
//! function, to all of SQLite's and to all there are, toggles them and detaches. No result changes.
//! Each scenario in a process of its own: it compares all of the library's text.
#![cfg(all(target_arch = "x86_64", target_os = "linux", not(any(probe_portable, probe_off))))]

use probe_tests::real::{SQLITE, Way, checks};

const ROOT: &str = env!("CARGO_TARGET_TMPDIR");
const ROWS: u64 = 5_000;
const SELECTORS: [&str; 5] =
    ["sqlite3VdbeExec", "sqlite3*", "**", "sqlite3Btree* kind=exit, sqlite3Vdbe*", "*, !sqlite3VdbeExec"];

fn scenario(name: &str, way: Way) {
    checks::in_a_child(&SQLITE, ROOT, name, way, |way| {
        checks::toggling_changes_nothing(&SQLITE, ROOT, way, ROWS, &SELECTORS);
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
