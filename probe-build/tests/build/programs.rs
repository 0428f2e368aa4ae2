//! With probes, programs behave as without them, under each compiler and with either strategy. The
//! report accounts for every function.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use probe_build::{Cause, FunctionReport, Outcome, Report, Sites};

use crate::objects::Elf;
use crate::place::{Compiler, build, directory, link_and_run, source};

const C: &[&str] = &["main.c", "left/part.c", "right/part.c"];
const CPP: &[&str] = &["shapes.cpp"];

/// The sources and settings of a program.
struct Program<'a> {
    name: &'a str,
    files: &'a [&'a str],
    flags: &'a [&'a str],
    sites: Sites,
}

impl Program<'_> {
    fn is_cpp(&self) -> bool {
        self.files.iter().any(|file| Path::new(file).extension().is_some_and(|extension| extension == "cpp"))
    }

    fn check(&self, compiler: Compiler) {
        let (expected, plain) = self.run(compiler, Sites::None);
        let (found, report) = self.run(compiler, self.sites);
        assert_eq!(found, expected, "{} {compiler:?}", self.name);
        assert!(
            plain.functions().next().is_none() && plain.files().iter().all(|file| file.plain().is_some())
        );
        for file in report.files() {
            assert_eq!(file.plain(), None, "{report}");
            let elf = Elf::read(file.object());
            // A function may have several symbols, such as a constructor; the report has one of
            // them.
            for names in elf.functions() {
                let told =
                    file.functions().iter().filter(|function| names.contains(function.symbol())).count();
                assert_eq!(told, 1, "{names:?} of {}", file.source().display());
            }
            // Hooks also show functions that were inlined everywhere.
            let inlined = file.functions().len() - elf.functions().len();
            assert!(inlined == 0 || self.sites == Sites::InstrumentFunctions, "{inlined}");
            let sites: usize = file.functions().iter().map(|function| sites(function.outcome())).sum();
            assert!(sites > 0);
            assert_eq!((elf.records(), elf.nops()), (sites, sites), "{}", file.source().display());
            if !self.flags.iter().any(|flag| flag.starts_with("-g")) {
                assert_eq!(elf.sections().iter().find(|name| name.starts_with(".debug")), None);
            }
            let hooks = elf.undefined().into_iter().filter(|name| name.starts_with("__cyg_profile"));
            assert_eq!(hooks.collect::<Vec<_>>(), [] as [&str; 0]);
        }
        assert_eq!(left_out(&report), [] as [&str; 0], "{report}");
    }

    /// Returns the program's output and the report of its build.
    fn run(&self, compiler: Compiler, sites: Sites) -> (String, Report) {
        let out_dir = directory(&format!("{}-{compiler:?}-{sites:?}", self.name));
        let name = compiler.name(self.is_cpp());
        let mut build = build(&out_dir, name);
        build
            .files(self.files.iter().map(|file| source(file)))
            .flags(self.flags)
            .cpp(self.is_cpp())
            .sites(sites);
        let (objects, report) = build.try_compile_intermediates().expect("it compiles");
        assert_eq!(objects.len(), self.files.len());
        assert_eq!(objects.iter().collect::<BTreeSet<_>>().len(), objects.len());
        (link_and_run(name, &objects, &out_dir.join("program")), report)
    }
}

/// Returns the left-out functions, except those of the standard library that only have hooks with
/// an unknown function, from inlining.
fn left_out(report: &Report) -> Vec<&str> {
    let is_told = |function: &&FunctionReport| match function.outcome() {
        Outcome::LeftOut(reason) => {
            !matches!(reason.cause, Cause::Hooks(_)) || !function.path().starts_with("std::")
        }
        _ => false,
    };
    report.functions().filter(is_told).map(FunctionReport::path).collect()
}

fn sites(outcome: &Outcome) -> usize {
    match outcome {
        Outcome::Placed { entries, exits, .. } => entries + exits,
        _ => 0,
    }
}

fn check(compilers: Vec<Compiler>, name: &str, files: &[&str], flags: &[&str], sites: Sites) {
    for compiler in compilers {
        Program { name, files, flags, sites }.check(compiler);
    }
}

#[test]
fn c() {
    check(Compiler::all(), "c", C, &[], Sites::EntryReturn);
}

#[test]
fn c_with_debug_info() {
    check(Compiler::all(), "c-g", C, &["-g"], Sites::EntryReturn);
}

#[test]
fn c_unoptimised() {
    check(Compiler::all(), "c-o0", C, &["-O0", "-fcf-protection=full"], Sites::EntryReturn);
}

#[test]
fn c_through_hooks() {
    check(Compiler::all(), "c-hooks", C, &[], Sites::InstrumentFunctions);
}

#[test]
fn cpp() {
    check(Compiler::all_or_one(Compiler::Gcc), "cpp", CPP, &[], Sites::EntryReturn);
}

#[test]
fn cpp_with_debug_info() {
    check(Compiler::all_or_one(Compiler::Clang), "cpp-g", CPP, &["-g3", "-gdwarf-4"], Sites::EntryReturn);
}

/// Without `shapes.cpp`: clang's code for `std::string` and `-finstrument-functions` does not link,
/// with or without probes.
#[test]
fn cpp_through_hooks() {
    check(Compiler::all(), "cpp-hooks", &["grid.cpp"], &[], Sites::InstrumentFunctions);
}

/// Functions of one name in two files, and a header's function in three: the report has the file
/// and line of each.
#[test]
fn functions_are_reported_by_name_file_and_line() {
    for compiler in Compiler::all() {
        let out_dir = directory(&format!("told-{compiler:?}"));
        let mut build = build(&out_dir, compiler.name(false));
        let report = build.files(C.iter().map(|file| source(file))).try_compile("told").expect("it compiles");
        let told = |path: &str| -> BTreeSet<(PathBuf, u32)> {
            let of = report.functions().filter(|function| function.path() == path);
            // clang names files relative to where it runs.
            let root = Path::new(env!("CARGO_MANIFEST_DIR"));
            of.map(|function| (root.join(function.file()), function.line())).collect()
        };
        assert_eq!(told("left_part"), BTreeSet::from([(source("left/part.c"), 9)]));
        assert_eq!(told("step"), BTreeSet::from([(source("left/part.c"), 5), (source("right/part.c"), 4)]));
        assert_eq!(told("shared_twice"), BTreeSet::from([(source("include/shared.h"), 5)]));
        assert!(out_dir.join("libtold.a").is_file());
    }
}

/// The archive is the same as cc's: it links with `-l`.
#[test]
fn an_archive_links() {
    let out_dir = directory("archive");
    let parts = ["left/part.c", "right/part.c"].map(source);
    let report =
        build(&out_dir, "gcc").files(parts).file(source("left/part.c")).try_compile("parts").unwrap();
    // A file that is given twice is compiled once, and reported twice.
    assert_eq!(report.files().len(), 3);
    assert_eq!(report.files()[0].object(), report.files()[2].object());
    let (main, _) = build(&out_dir, "gcc").file(source("main.c")).compile_intermediates();
    let libraries = [main[0].clone(), out_dir.join("libparts.a")];
    let printed = link_and_run("gcc", &libraries, &out_dir.join("program"));
    assert_eq!(printed.lines().count(), 2);
}

/// Linkers that fold identical functions leave those with sites apart: folded ones would have their
/// calls counted as one function's.
#[test]
fn functions_with_sites_are_not_folded() {
    for linker in ["gold", "lld", "mold"] {
        if Command::new(format!("ld.{linker}")).arg("--version").output().is_err() {
            println!("skipped for {linker}: it is not there");
            continue;
        }
        for compiler in Compiler::all() {
            for (sites, is_folded) in
                [(Sites::None, true), (Sites::EntryReturn, false), (Sites::InstrumentFunctions, false)]
            {
                let out_dir = directory(&format!("folded-{linker}-{compiler:?}-{sites:?}"));
                let mut build = build(&out_dir, compiler.name(false));
                build.file(source("folded.c")).flag("-ffunction-sections").sites(sites);
                let (objects, report) = build.try_compile_intermediates().expect("it compiles");
                let program = out_dir.join("program");
                let flags = [format!("-fuse-ld={linker}"), "-Wl,--icf=all".to_owned()].map(PathBuf::from);
                let printed = link_and_run(compiler.name(false), &[&flags[..], &objects].concat(), &program);
                let expected = if is_folded { "11 folded\n" } else { "11 apart\n" };
                assert_eq!(printed, expected, "{linker} {compiler:?} {report}");
            }
        }
    }
}
