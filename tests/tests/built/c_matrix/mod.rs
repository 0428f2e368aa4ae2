//! C and C++ functions of every kind, built by both compilers with the flags that people use, with
//! sites by both strategies: latent, counted, and beside a consumer that changes every register it
//! may. Their arguments and results equal those of a build without sites, bit for bit. Their probes
//! count exactly what the functions count themselves.
//!
//! Each configuration is a process of its own: a crash is one configuration's, and each counts all
//! probes there are. `PROBE_TEST_WHOLE=1` builds a choice of pairs of flags, in place of a slice of
//! it; `PROBE_SOAK_C_MATRIX=1` all flags with all levels of optimisation, `=-O2` those of one
//! level.
#![cfg(all(target_arch = "x86_64", target_os = "linux", not(probe_portable)))]

mod configurations;
mod play;
mod reference;
mod sanitizers;

use std::ffi::OsStr;
use std::fs;
use std::path::Path;

use probe_build::{Outcome, Report, Sites};
use probe_tests::c::{Compiler, Language, Recipe};
use probe_tests::fixture::site_table::SiteTable;
use probe_tests::scenario;

#[test]
fn gcc_c() {
    matrix(Compiler::Gcc, Language::C);
}

#[test]
fn gcc_cpp() {
    matrix(Compiler::Gcc, Language::Cpp);
}

#[test]
fn clang_c() {
    matrix(Compiler::Clang, Language::C);
}

#[test]
fn clang_cpp() {
    matrix(Compiler::Clang, Language::Cpp);
}

#[test]
#[ignore = "other tests play it, in children"]
fn scenario() {
    match scenario::to_play().as_str() {
        "reference" => reference::write(),
        "play" => play::play(),
        other => panic!("no scenario {other}"),
    }
}

/// Variables that the children read.
const RECIPE: &str = "PROBE_TEST_C_RECIPE";
const OBJECT: &str = "PROBE_TEST_C_OBJECT";
const NOTES: &str = "PROBE_TEST_C_NOTES";
const NAMED: &str = "PROBE_TEST_C_NAMED";

/// Plays every configuration, and reports all that fail.
fn matrix(compiler: Compiler, language: Language) {
    if !compiler.is_there() {
        return;
    }
    let root = env!("CARGO_TARGET_TMPDIR");
    let notes = reference::of(compiler, language, root);
    play_all(configurations::of(compiler, language), root, &notes, &[]);
}

/// Plays recipes with further variables. Compares them with the notes of a build without sites.
fn play_all(recipes: Vec<Recipe>, root: &str, notes: &Path, further: &[(&str, &OsStr)]) {
    let mut failures = Vec::new();
    for recipe in recipes {
        let (compiler, language) = (recipe.compiler, recipe.language);
        let (object, report) = recipe.build(root);
        let plain = report
            .files()
            .iter()
            .find_map(|file| file.plain().map(|why| format!("{}: {why}", file.source().display())));
        if let Some(plain) = plain {
            failures.push(format!("{}: {plain}", recipe.name()));
        }
        let bytes = fs::read(&object).expect("the object");
        let begun = SiteTable::parse(&bytes).functions_that_begin_with_a_site();
        if !begun.is_empty() {
            failures.push(format!("{}: functions that begin with a site: {begun:?}", recipe.name()));
        }
        let named = named(&report);
        println!("{}: named as not wholly placed: {named}", recipe.name());
        if recipe.sites == Sites::InstrumentFunctions && !named.is_empty() {
            failures.push(format!("{}: hooks of unknown functions: {named}", recipe.name()));
        }
        let mut variables = variables(compiler, language, recipe.sites, &object, notes);
        variables.push((NAMED, named.as_ref()));
        variables.extend(further);
        let output = scenario::play("play", &variables);
        if !output.status.success() {
            failures.push(format!(
                "{}: {} {}\n{report}",
                recipe.name(),
                output.status,
                scenario::said(&output)
            ));
        }
    }
    assert!(failures.is_empty(), "{} fail:\n{}", failures.len(), failures.join("\n"));
}

/// The functions that the build names as without sites, or without some of them.
fn named(report: &Report) -> String {
    let is_whole = |outcome: &Outcome| matches!(outcome, Outcome::Placed { unknown_hooks: 0, .. });
    let named: Vec<_> = (report.functions())
        .filter(|function| !is_whole(function.outcome()))
        .filter(|function| !matches!(function.outcome(), Outcome::Excluded(_)))
        .map(probe_build::FunctionReport::path)
        .collect();
    named.join(";")
}

fn variables<'a>(
    compiler: Compiler,
    language: Language,
    sites: Sites,
    object: &'a Path,
    notes: &'a Path,
) -> Vec<(&'static str, &'a OsStr)> {
    let recipe: &'static str = format!("{compiler:?} {language:?} {sites:?}").leak();
    vec![(RECIPE, recipe.as_ref()), (OBJECT, object.as_os_str()), (NOTES, notes.as_os_str())]
}
