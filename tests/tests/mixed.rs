//! A crate of Rust and C++ whose build script has one line of ours, and whose Rust code has none: its functions have sites,
//! those that are not linked have none, and the kill switches reach the C++ code.

// Once is enough: it builds each of its programs with the backend it wants.
#![cfg(not(probe_portable))]

use std::collections::BTreeMap;

use object::{Object as _, ObjectSection as _};
use probe_tests::fixture::{Configuration, Linker};

const PRINTED: &str = "0\n1\n2\n3\n";

/// How many definitions of each path a program has, and how many records in all.
fn probes(program: &[u8]) -> (BTreeMap<String, usize>, usize) {
    let file = object::File::parse(program).expect("an ELF file");
    let section = |name| file.section_by_name(name).map(|section| section.data().expect("data").to_vec());
    let definitions = section("linkme_PROBE_DEFINITIONS_V1").unwrap_or_default();
    let mut paths = BTreeMap::new();
    for definition in definitions.chunks_exact(192) {
        let len = usize::from(u16::from_le_bytes([definition[32], definition[33]]));
        let path = String::from_utf8_lossy(&definition[48..48 + len]).into_owned();
        *paths.entry(path).or_insert(0) += 1;
    }
    (paths, section("probe_sites").unwrap_or_default().len() / 16)
}

fn configuration(name: &'static str) -> Configuration {
    Configuration::new(env!("CARGO_TARGET_TMPDIR"), "mixed", name).release()
}

/// What is linked, is there: an entry and an exit of each.
fn check(configuration: &Configuration, expected: &[&str]) {
    let built = configuration.build("app");
    assert_eq!(built.run("app", &[]), PRINTED, "{}", built.description());
    let (paths, records) = probes(&built.bytes("app"));
    let expected: BTreeMap<_, _> = expected.iter().map(|path| ((*path).to_owned(), 2)).collect();
    assert_eq!(paths, expected, "{}", built.description());
    assert!(records >= 2 * expected.len(), "{records} records, {}", built.description());
}

/// rust-lld drops functions that nobody calls, and with them their records, stubs and definitions. Of a template's
/// instance in two files, one is left.
#[test]
fn what_is_not_linked_leaves_no_record() {
    check(&configuration("lld"), &["text::count", "text::is_space<char>", "words"]);
}

/// GNU ld keeps what has a record, unless it is told not to (see the README).
#[test]
fn gnu_ld_drops_them_on_request() {
    let gnu = configuration("gnu").linker(Linker::Gnu).flags(&["-Clink-arg=-Wl,-z,start-stop-gc"]);
    check(&gnu, &["text::count", "text::is_space<char>", "words"]);
}

#[test]
fn the_kill_switches_reach_the_code() {
    for flag in ["--cfg=probe_off", "--cfg=probe_portable"] {
        let built = configuration("off").flags(&[flag]).build("app");
        assert_eq!(built.run("app", &[]), PRINTED);
        assert_eq!(probes(&built.bytes("app")), (BTreeMap::new(), 0), "{}", built.description());
    }
    // And back: the build script runs again when the flags change.
    let built = configuration("off").build("app");
    assert_eq!(probes(&built.bytes("app")).0.len(), 3);
}
