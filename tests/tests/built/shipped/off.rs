//! Both kill switches, for the whole program whoever sets them: nothing is left of any site.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use object::{Object as _, ObjectSection as _, ObjectSymbol as _};
use probe_tests::fixture::site_table::SiteTable;
use probe_tests::fixture::{Built, Configuration, Linker};
use probe_tests::whole;

use crate::shipped::configuration;

/// The program's feature `off` is the runtime's; `--cfg` needs no feature.
fn switches(name: &'static str) -> [Configuration; 2] {
    let configuration = configuration(name).release_on_plain_runtime();
    [configuration.clone().flags(&["--cfg=probe_off"]), configuration.features(&["off"])]
}

/// No site, no record, no definition, no note, no name of a probe.
fn must_hold_nothing(built: &Built, file: &str, names: &[&str]) {
    let bytes = built.bytes(file);
    let table = SiteTable::parse(&bytes);
    let sections: BTreeMap<&str, u64> = (table.file().sections())
        .filter_map(|section| Some((section.name().ok()?, section.size())))
        .filter(|(name, size)| *size != 0 && (name.contains("probe") || name.contains("PROBE")))
        .collect();
    assert_eq!(sections, BTreeMap::new(), "sections left in {file}, {}", built.description());
    assert_eq!(table.nops(), 0, "{}", built.description());
    for name in [names, &["LatentProbe", "__PROBE_DEFINITION"]].concat() {
        let found = bytes.windows(name.len()).position(|bytes| bytes == name.as_bytes());
        assert_eq!(found, None, "{name:?} is left in {file}, {}", built.description());
    }
}

/// The work is done for any value of the variable, which may be another program's.
fn must_go_on(built: &Built) {
    for probes in ["app::serve=count", "app::**=latency", "a, b:c", "=", "**=profile(budget=1%)"] {
        let mut program = Command::new(built.path("app"));
        let output =
            program.arg("serve").env("PROBES", probes).env("PROBES_OUT", "/a/%x.jsn").output().unwrap();
        let [stdout, stderr] = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
        assert!(output.status.success() && stdout == "4 of 0\n", "{probes}: {stderr}");
        assert_eq!(
            stderr, "PROBES: this program was built without probes; nothing is attached\n",
            "{probes}"
        );
    }
}

/// The program alone says so; its libraries don't, and follow. A slice has the flag with a program
/// that needs no standard library, in `a_function_is_what_it_was_without_probes`.
#[test]
fn the_program_and_its_libraries_have_no_probes() {
    let linkers: &[_] = if whole::is_asked_for() { &[Linker::Lld, Linker::Gnu] } else { &[Linker::Lld] };
    for &linker in linkers {
        let name = if linker == Linker::Lld { "off_lld" } else { "off_gnu" };
        let [by_flag, by_feature] = switches(name);
        let by_flag = whole::is_asked_for().then_some(by_flag);
        for configuration in by_flag.into_iter().chain([by_feature]) {
            let built = configuration.linker(linker).build("app");
            assert_eq!(built.run("app", &[Path::new("serve")]), "4 of 0\n", "{}", built.description());
            must_hold_nothing(&built, "app", &["app::serve", "leaf::decode", "Reader::split"]);
            must_go_on(&built);
        }
        // And back: the switch is not remembered.
        let built = configuration(name).release_on_plain_runtime().linker(linker).build("app");
        assert_eq!(built.run("app", &[Path::new("serve")]), "4 of 24\n", "{}", built.description());
    }
}

/// The libraries deny all warnings, of clippy too: expansions cause none, also where they leave
/// nothing.
#[test]
fn no_lint_fires() {
    // Without the program, no runtime with a standard library is checked for this.
    let package = if whole::is_asked_for() { "app" } else { "middle" };
    let [by_flag, by_feature] = switches("lints");
    by_flag.lint(package);
    configuration("lints").lint(package);
    if whole::is_asked_for() {
        by_feature.lint(package);
        configuration("lints").flags(&["--cfg=probe_portable"]).lint(package);
    }
}

/// The machine code of each function `twin_…` in the file.
fn code(built: &Built) -> BTreeMap<String, Vec<u8>> {
    let bytes = built.bytes("twins");
    let table = SiteTable::parse(&bytes);
    let twins = table.file().symbols().filter_map(|symbol| Some((symbol.name().ok()?.to_owned(), symbol)));
    twins
        .filter(|(name, _)| name.starts_with("twin_"))
        .map(|(name, symbol)| {
            let code = table.bytes_at(symbol.address(), symbol.size()).expect("it is in the file");
            (name, code.to_vec())
        })
        .collect()
}

/// Byte for byte what the compiler makes of the same source without probes.
#[test]
fn a_function_is_what_it_was_without_probes() {
    let plain =
        code(&configuration("twins").release_on_plain_runtime().features(&["unprobed"]).build("twins"));
    let names: Vec<&str> = plain.keys().map(String::as_str).collect();
    assert_eq!(names, ["twin_captures", "twin_early", "twin_leaf", "twin_loop", "twin_poll"]);
    for configuration in switches("twins") {
        let built = configuration.build("twins");
        must_hold_nothing(&built, "twins", &["twins::hashed"]);
        assert_eq!(code(&built), plain, "{}", built.description());
    }
    assert_ne!(code(&configuration("twins").release_on_plain_runtime().build("twins")), plain);
}
