//! Files by each linker, at any address and at a fixed one, dynamic and static, stripped, of Rust
//! and of C: what `list` reads is what the program itself lists.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use probe_build::Sites;
use probe_runtime::probes;
use probe_tests::c::{Compiler, Language, Object, Recipe};
use probe_tests::fixture::{Configuration, Linker};
use serde_json::Value;

use crate::ran::{HAS_SITES, out};

/// Returns probes, kinds and numbers of sites, as the file has them.
fn of_file(path: &Path) -> Vec<String> {
    let path = path.display().to_string();
    assert!(out(&["audit", "-q", &path]).ends_with("\n0 findings\n"));
    let json: Value = serde_json::from_str(&out(&["list", "--json", &path])).unwrap();
    let mut rows: Vec<_> = json["rows"].as_array().unwrap().iter().map(shown).collect();
    rows.sort();
    rows
}

fn shown(row: &Value) -> String {
    let text = |member: &str| row[member].as_str().unwrap().to_owned();
    format!("{} {} {}", text("probe"), text("kind"), row["sites"])
}

/// Returns the same, as the program lists itself.
fn of_program(path: &Path) -> Vec<String> {
    let output = Command::new(path).arg("chain").output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    let lines = text.lines().filter_map(|line| line.strip_prefix("probe "));
    let mut rows: Vec<_> = lines.map(str::to_owned).collect();
    rows.sort();
    rows
}

fn check(configuration: &Configuration) {
    let program = configuration.build("app").path("app");
    let known = of_program(&program);
    assert!(known.len() > 10, "{known:?}");
    assert_eq!(of_file(&program), known);
    let stripped = program.with_extension("stripped");
    let strip =
        Command::new("strip").args(["-o".as_ref(), stripped.as_os_str(), program.as_os_str()]).status();
    assert!(strip.unwrap().success());
    assert_eq!(of_file(&stripped), known);
}

fn configuration(name: &'static str) -> Configuration {
    Configuration::new(env!("CARGO_TARGET_TMPDIR"), "shipped", name)
}

#[test]
fn position_independent_by_each_linker() {
    if HAS_SITES {
        check(&configuration("cli-lld"));
        check(&configuration("cli-gnu").linker(Linker::Gnu));
    }
}

#[test]
fn static_and_at_a_fixed_address() {
    if HAS_SITES {
        check(&configuration("cli-static").flags_of_program(&["-Ctarget-feature=+crt-static"]));
        let fixed = ["-Ctarget-feature=+crt-static", "-Crelocation-model=static"];
        check(&configuration("cli-fixed").flags_of_program(&fixed));
    }
}

/// Returns the numbers of sites of all probes of this process, by the probes' numbers.
fn sites() -> BTreeMap<usize, usize> {
    probes().iter().map(|probe| (probe.id().index(), probe.sites())).collect()
}

/// Objects of C and C++, in both strategies: definitions in COMDAT groups, CALLs and JMPs.
#[test]
fn shared_objects_of_c() {
    if !HAS_SITES || !Compiler::Gcc.is_there() {
        return;
    }
    for (language, sites_at) in [
        (Language::C, Sites::EntryReturn),
        (Language::Cpp, Sites::EntryReturn),
        (Language::Cpp, Sites::InstrumentFunctions),
    ] {
        let before = sites();
        let (path, _) =
            Recipe::new(Compiler::Gcc, language, sites_at, "-O2").build(env!("CARGO_TARGET_TMPDIR"));
        let _loaded = Object::open(&path);
        let known = probes();
        // Objects stay loaded, and a probe of two of them has the sites of both.
        let mut known: Vec<_> = (known.iter())
            .map(|probe| (probe, probe.sites() - before.get(&probe.id().index()).unwrap_or(&0)))
            .filter(|(_, sites)| *sites != 0)
            .map(|(probe, sites)| format!("{} {} {sites}", probe.path(), probe.kind().name()))
            .collect();
        known.sort();
        assert!(known.len() > 20, "{known:?}");
        let differs = of_file(&path).into_iter().zip(known).find(|(listed, known)| listed != known);
        assert_eq!(differs, None, "{language:?} {sites_at:?}");
    }
}
