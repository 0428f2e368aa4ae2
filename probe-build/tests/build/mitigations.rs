//! Flags against speculation that change how functions return. Each return has a site, or the
//! report names its function as left out.

use std::collections::BTreeMap;
use std::process::{Command, Stdio};

use probe_build::{Cause, Outcome, Report, Sites};

use crate::objects::Elf;
use crate::place::{Compiler, build, directory, source};

/// Returns whether a compiler knows a flag; if not, prints that.
fn knows(compiler: Compiler, flag: &str) -> bool {
    let mut command = Command::new(compiler.name(false));
    command.args([flag, "-fsyntax-only", "-x", "c", "/dev/null"]).stderr(Stdio::null());
    let is_known = command.status().is_ok_and(|status| status.success());
    if !is_known {
        println!("skipped: {} does not know {flag}", compiler.name(false));
    }
    is_known
}

fn compile(compiler: Compiler, flags: &[&str], sites: Sites) -> Report {
    let name = format!("mitigations-{compiler:?}-{sites:?}{}", flags.concat());
    let mut build = build(&directory(&name), compiler.name(false));
    build.file(source("left/part.c")).flags(flags).sites(sites);
    let (objects, report) = build.try_compile_intermediates().expect("it compiles");
    assert_eq!(report.files()[0].plain(), None);
    let placed = report.functions().filter_map(|function| match function.outcome() {
        Outcome::Placed { entries, exits, .. } => Some(entries + exits),
        _ => None,
    });
    let elf = Elf::read(&objects[0]);
    let sites: usize = placed.sum();
    assert_eq!((elf.records(), elf.nops()), (sites, sites), "{report}");
    report
}

/// Returns the left-out functions, with their causes.
fn left_out(report: &Report) -> BTreeMap<&str, &Cause> {
    let causes = report.functions().filter_map(|function| match function.outcome() {
        Outcome::LeftOut(reason) => Some((function.symbol(), &reason.cause)),
        _ => None,
    });
    causes.collect()
}

const FUNCTIONS: [&str; 4] = ["left_part", "shared_twice", "step", "sum_of"];

#[test]
fn a_jump_to_the_return_thunk_is_an_exit() {
    for flag in ["-mfunction-return=thunk", "-mfunction-return=thunk-extern"] {
        if !knows(Compiler::Gcc, flag) {
            continue;
        }
        let report = compile(Compiler::Gcc, &[flag, "-fcf-protection=none"], Sites::EntryReturn);
        let thunk = ("__x86_return_thunk", &Cause::Thunk);
        let expected = if flag.ends_with("extern") { BTreeMap::new() } else { BTreeMap::from([thunk]) };
        assert_eq!((report.placed(), left_out(&report)), (4, expected));
    }
}

/// The thunk's code replaces each return: a call of a label, which changes its return address.
#[test]
fn a_return_thunk_in_the_function_leaves_it_out() {
    let flag = "-mfunction-return=thunk-inline";
    if !knows(Compiler::Gcc, flag) {
        return;
    }
    let report = compile(Compiler::Gcc, &[flag, "-fcf-protection=none"], Sites::EntryReturn);
    let expected = FUNCTIONS.map(|function| (function, &Cause::CallOfLabel));
    assert_eq!((report.placed(), left_out(&report)), (0, BTreeMap::from(expected)));
}

/// Functions return by `popq %rcx; lfence; jmpq *%rcx`. Hooks still give them sites.
#[test]
fn a_return_behind_a_fence_leaves_its_function_out() {
    let flag = "-mlvi-cfi";
    if !Compiler::all().contains(&Compiler::Clang) || !knows(Compiler::Clang, flag) {
        return;
    }
    let report = compile(Compiler::Clang, &[flag], Sites::EntryReturn);
    let mut expected = BTreeMap::from(FUNCTIONS.map(|function| (function, &Cause::IndirectJump)));
    expected.insert("__llvm_lvi_thunk_r11", &Cause::Thunk);
    assert_eq!((report.placed(), left_out(&report)), (0, expected));
    let report = compile(Compiler::Clang, &[flag], Sites::InstrumentFunctions);
    assert_eq!((report.placed(), left_out(&report)), (4, BTreeMap::new()));
}
