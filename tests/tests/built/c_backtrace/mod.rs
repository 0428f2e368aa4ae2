//! Backtraces from inside a consumer, through stub and runtime into C: from entries, returns and
//! tail calls, by the unwinder, by gdb, and from every single instruction that an active site
//! executes. Functions and lines are the source's. Each scenario is a process of its own: it counts
//! all probes there are, and gdb runs one as its child.
#![cfg(all(target_arch = "x86_64", target_os = "linux", not(probe_portable)))]

mod stepped;
mod walks;

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use probe_build::Sites;
use probe_tests::c::{Compiler, Language, Recipe, is_there};
use probe_tests::{scenario, whole};

const OBJECT: &str = "PROBE_TEST_C_OBJECT";
const HAS_LINES: &str = "PROBE_TEST_C_LINES";

/// The object that the parent has built.
fn object() -> PathBuf {
    PathBuf::from(env::var_os(OBJECT).expect("the parent has set it"))
}

fn build(compiler: Compiler, sites: Sites, flags: &str) -> PathBuf {
    let recipe = Recipe::new(compiler, Language::C, sites, flags).files(&["frames.c", "jumps.c"]);
    recipe.build(env!("CARGO_TARGET_TMPDIR")).0
}

/// A slice has each of the flags with one compiler.
fn for_each_build(flags: &[&str], mut act: impl FnMut(&Path, &str)) {
    let compilers: Vec<_> = Compiler::ALL.into_iter().filter(|compiler| compiler.is_there()).collect();
    for (compiler, flags) in whole::pairs(&compilers, flags) {
        act(&build(compiler, Sites::EntryReturn, flags), flags);
    }
}

#[test]
fn every_frame_is_there_in_order() {
    for_each_build(&["-O2 -g", "-O2", "-Os -g -fcf-protection=full"], |object, flags| {
        let has_lines = if flags.contains("-g") { "1" } else { "" };
        let variables = [(OBJECT, object.as_os_str()), (HAS_LINES, has_lines.as_ref())];
        scenario::pass("walk", &variables);
    });
}

#[test]
fn from_every_instruction() {
    for_each_build(&["-O2", "-O1 -fno-omit-frame-pointer"], |object, _| {
        scenario::pass("step", &[(OBJECT, object.as_os_str())]);
    });
}

#[test]
fn gdb_shows_the_same() {
    if !is_there("gdb") {
        println!("skipped: there is no `gdb`");
        return;
    }
    for_each_build(&["-O2 -g"], |object, _| walks::under_gdb(object));
}

/// Debug information of an object with sites is as valid as that of one without. Of clang's: its
/// verifier does not come to an end with what gcc writes.
#[test]
fn debug_information_is_valid() {
    let Some(verifier) = ["llvm-dwarfdump", "llvm-dwarfdump-14"].into_iter().find(|it| is_there(it)) else {
        println!("skipped: there is no `llvm-dwarfdump`");
        return;
    };
    for compiler in [Compiler::Clang].into_iter().filter(|compiler| compiler.is_there()) {
        let [plain, placed] = [Sites::None, Sites::EntryReturn].map(|sites| {
            let object = build(compiler, sites, "-O2 -g");
            let output = Command::new(verifier).arg("--verify").arg(&object).output().unwrap();
            let text = scenario::said(&output).replace(object.to_str().unwrap(), "");
            (output.status.success(), text)
        });
        assert!(placed.0 || !plain.0, "{compiler:?}: {}", placed.1);
    }
}

#[test]
#[ignore = "other tests play it, in children"]
fn scenario() {
    match scenario::to_play().as_str() {
        "walk" => walks::walk(),
        "step" => stepped::step(),
        "stop" => walks::stop(),
        other => panic!("no scenario {other}"),
    }
}
