//! A crate of Rust and C++ whose build script has one line of ours, and whose Rust code has none:
//! its functions have sites, those that are not linked have none, and the kill switches reach the
//! C++ code.

// Once is enough: it builds each of its programs with the backend it wants.
#![cfg(not(probe_portable))]

use std::collections::BTreeMap;

use object::{Object as _, ObjectSection as _};
use probe_tests::fixture::{Configuration, Linker};
use probe_tests::instrumented::compilers;
use probe_tests::whole;

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
    Configuration::new(env!("CARGO_TARGET_TMPDIR"), "mixed", name).release_on_plain_runtime()
}

/// Each linked function has an entry and an exit.
fn check(configuration: &Configuration, expected: &[&str]) {
    let built = configuration.build("app");
    assert_eq!(built.run("app", &[]), PRINTED, "{}", built.description());
    let (paths, records) = probes(&built.bytes("app"));
    let expected: BTreeMap<_, _> = expected.iter().map(|path| ((*path).to_owned(), 2)).collect();
    assert_eq!(paths, expected, "{}", built.description());
    assert!(records >= 2 * expected.len(), "{records} records, {}", built.description());
}

/// rust-lld drops functions that nobody calls, and with them their records, stubs and definitions.
/// Of a template's instance in two files, one is left.
#[test]
fn what_is_not_linked_leaves_no_record() {
    check(&configuration("lld"), &["text::count", "text::is_space<char>", "words"]);
}

/// GNU ld keeps functions that have a record, unless it is told not to (see docs/objects.md).
#[test]
fn gnu_ld_drops_them_on_request() {
    let gnu = configuration("gnu").linker(Linker::Gnu).flags_of_program(&["-Clink-arg=-Wl,-z,start-stop-gc"]);
    check(&gnu, &["text::count", "text::is_space<char>", "words"]);
}

#[test]
fn the_kill_switches_reach_the_code() {
    let mut switches =
        vec![configuration("off").flags(&["--cfg=probe_off"]), configuration("off").features(&["off"])];
    if whole::is_asked_for() {
        switches.push(configuration("off").flags(&["--cfg=probe_portable"]));
    }
    for configuration in switches {
        let built = configuration.build("app");
        assert_eq!(built.run("app", &[]), PRINTED);
        assert_eq!(probes(&built.bytes("app")), (BTreeMap::new(), 0), "{}", built.description());
    }
    // And back: the build script runs again when the flags or features change.
    let built = configuration("off").build("app");
    assert_eq!(probes(&built.bytes("app")).0.len(), 3);
}

/// Where addresses are constants of 32 bits (`-fno-pic`, `-no-pie`), in all ways to place sites, by
/// each compiler.
#[test]
fn a_program_at_a_fixed_address() {
    let compilers = compilers();
    let clang: &[&str] = if compilers.contains(&"clang") { &["clang"] } else { &[] };
    if clang.is_empty() {
        println!("left out: there is no clang");
    }
    for linker in [Linker::Lld, Linker::Gnu] {
        let built = configuration("fixed")
            .linker(linker)
            .features(clang)
            .flags_of_program(&["-Crelocation-model=static", "-Clink-arg=-no-pie"])
            .build("fixed");
        let program = built.bytes("fixed");
        let file = object::File::parse(&*program).expect("an ELF file");
        assert_eq!(file.kind(), object::ObjectKind::Executable, "{}", built.description());
        let counted = built.run("fixed", &[]);
        assert_eq!(counted, expected_of_fixed(&compilers), "{}", built.description());
    }
}

/// Values from 0 to 5, by each compiler. Static functions are probes of both.
fn expected_of_fixed(compilers: &[&str]) -> String {
    let times = compilers.len();
    let pair = |path: String, hits| (format!("{path} entry"), hits, format!("{path} exit"));
    let each = |compiler: &&str| {
        [("branch", 12), ("choose", 6), ("entries", 6), ("hooks", 6), ("tail", 6 + 5)]
            .map(|(name, hits)| pair(format!("{compiler}_{name}"), hits))
    };
    let shared = [("first", 6), ("second", 6), ("leaf", 11 + 1)]
        .map(|(name, hits)| pair(name.to_owned(), times * hits));
    let mut lines: Vec<String> = compilers
        .iter()
        .flat_map(each)
        .chain(shared)
        .flat_map(|(entry, hits, exit)| [format!("{entry} {hits}\n"), format!("{exit} {hits}\n")])
        .collect();
    lines.extend([
        format!("sum point {}\n", times * (1 + 2 + 3 + 4 + 5)),
        format!("done point {}\n", times * 6),
    ]);
    lines.sort_unstable();
    lines.concat()
}
