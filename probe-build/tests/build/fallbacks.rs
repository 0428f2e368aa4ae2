//! Each obstacle to sites leaves the object that cc alone would make, and a reason.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use probe_build::{Build, FileReport, PlainReason, Report, Sites};

use crate::objects::Elf;
use crate::place::{Compiler, build, directory, source, write};
use crate::shim::Shim;

/// Builds one C file.
fn compile(name: &str, compiler: &str, configure: impl Fn(&mut Build)) -> Report {
    let mut build = build(&directory(name), compiler);
    build.file(source("left/part.c"));
    configure(&mut build);
    let (objects, report) = build.try_compile_intermediates().expect("it compiles");
    assert!(objects.iter().all(|object| object.is_file()));
    report
}

fn reason(report: &Report) -> &PlainReason {
    let [file] = report.files() else { panic!("{report}") };
    assert_eq!((file.functions().len(), report.placed()), (0, 0));
    assert_eq!(file.source(), source("left/part.c"));
    file.plain().expect("a plain object")
}

/// Checks that the object has no sites.
fn assert_plain(file: &FileReport) {
    let elf = Elf::read(file.object());
    assert_eq!((elf.records(), elf.nops()), (0, 0));
    assert!(elf.functions().iter().any(|names| names.contains("left_part")), "{:?}", elf.functions());
}

#[test]
fn flags() {
    let flags: [&[&str]; 6] = [
        &["-masm=intel"],
        &["-fsplit-stack"],
        &["-gsplit-dwarf"],
        &["-flto", "-ffat-lto-objects"],
        &["-mcmodel=large", "-fno-pic"],
        &["-mcmodel=medium"],
    ];
    for flags in flags {
        let report = compile(&format!("flag{}", flags[0]), "gcc", |build| {
            build.flags(flags);
        });
        assert_eq!(reason(&report), &PlainReason::Flag(flags[0].to_owned()));
        assert_plain(&report.files()[0]);
    }
}

/// gcc supports it up to version 12.
#[test]
fn stabs() {
    let mut is_known = Command::new("gcc");
    is_known.args(["-gstabs", "-w", "-fsyntax-only", "-x", "c", "/dev/null"]).stderr(Stdio::null());
    if !is_known.status().is_ok_and(|status| status.success()) {
        println!("skipped: gcc does not know -gstabs");
        return;
    }
    let report = compile("stabs", "gcc", |build| {
        build.flag("-gstabs");
    });
    assert_eq!(reason(&report), &PlainReason::Flag("-gstabs".to_owned()));
    assert_plain(&report.files()[0]);
}

#[test]
fn flags_of_clang() {
    if !Compiler::all().contains(&Compiler::Clang) {
        return;
    }
    for flag in ["-emit-llvm", "-flto=thin"] {
        let report = compile(&format!("clang{flag}"), "clang", |build| {
            build.flag(flag);
        });
        assert_eq!(reason(&report), &PlainReason::Flag(flag.to_owned()));
        let object = fs::read(report.files()[0].object()).unwrap();
        assert_eq!(object[..2], *b"BC", "LLVM's bitcode");
    }
}

/// clang with GNU as: every assembler accepts the sites.
#[test]
fn an_external_assembler_is_no_obstacle() {
    if !Compiler::all().contains(&Compiler::Clang) {
        return;
    }
    let report = compile("external", "clang", |build| {
        build.flag("-fno-integrated-as");
    });
    assert_eq!((report.files()[0].plain(), report.placed()), (None, 4));
    assert!(Elf::read(report.files()[0].object()).records() >= 8);
}

#[test]
fn temporaries_are_saved_on_request() {
    for compiler in Compiler::all() {
        let name = format!("temporaries-{compiler:?}");
        let out_dir = directory(&name);
        let left = |flag: &str| -> usize {
            let report = compile(&name, compiler.name(false), |build| {
                build.flag(flag);
            });
            assert_eq!((report.files()[0].plain(), report.placed()), (None, 4));
            let files = fs::read_dir(&out_dir).unwrap().map(|entry| entry.unwrap().path());
            files.filter(|path| path.extension().is_some_and(|extension| extension == "s")).count()
        };
        assert_eq!(left("-Wall"), 0);
        assert!(left("-save-temps=obj") >= 2);
    }
}

#[test]
fn languages() {
    let out_dir = directory("languages");
    let assembly = write(&out_dir, "code.S", "#define NAME from_assembly\n.globl NAME\nNAME: ret\n");
    let mut build = build(&out_dir, "gcc");
    build.file(source("left/part.c")).file(&assembly).asm_flag("-DUNUSED");
    let (objects, report) = build.try_compile_intermediates().unwrap();
    let plain: Vec<_> = report.files().iter().map(FileReport::plain).collect();
    assert_eq!(plain, [None, Some(&PlainReason::Language("S".to_owned()))]);
    assert_eq!(objects.len(), 2);
    assert_eq!(report.files()[1].object(), objects[1]);
    let report = compile("said", "gcc", |build| {
        build.flag("-x").flag("c++");
    });
    assert_eq!(report.files()[0].plain(), None);
    assert!(report.functions().any(|function| function.symbol() == "_Z9left_parti"));
    let report = compile("other", "gcc", |build| {
        build.flag("-x").flag("c-header");
    });
    assert_eq!(reason(&report), &PlainReason::Flag("c-header".to_owned()));
}

#[test]
fn no_sites() {
    let report = compile("none", "gcc", |build| {
        build.sites(Sites::None);
    });
    assert_eq!(reason(&report), &PlainReason::Asked);
    assert_plain(&report.files()[0]);
}

#[test]
fn targets() {
    let report = compile("x32", "gcc", |build| {
        // These objects are for another ABI of the same processor.
        build.flag("-mx32").flag("-nostdinc").flag("-isystem").flag(builtin_headers());
    });
    let target = "x86-64 Linux with 32-bit pointers";
    assert_eq!(reason(&report), &PlainReason::Target(target.to_owned()));
    if Compiler::all().contains(&Compiler::Clang) {
        let report = compile("arm", "clang", |build| {
            build.target("aarch64-unknown-linux-gnu");
        });
        assert_eq!(reason(&report), &PlainReason::Target("AArch64 Linux".to_owned()));
    }
}

/// Returns the directory of `stdarg.h`.
fn builtin_headers() -> String {
    let output = Command::new("gcc").arg("-print-file-name=include").output().expect("gcc runs");
    String::from_utf8(output.stdout).expect("text").trim().to_owned()
}

#[test]
fn compilers() {
    let out_dir = directory("compilers");
    let foreign = Shim::new(&out_dir, "icc", "gcc").predefining("__INTEL_COMPILER=2021");
    let report = compile("icc", foreign.path(), |_| {});
    assert_eq!(reason(&report), &PlainReason::Compiler("this is Intel's icc".to_owned()));
    assert_plain(&report.files()[0]);
    let silent = Shim::new(&out_dir, "silent", "gcc").refusing("-dM");
    let report = compile("silent", silent.path(), |_| {});
    let message = format!("`{}` does not say what it is, but: error: refused -dM", silent.path());
    assert_eq!(reason(&report), &PlainReason::Compiler(message));
    assert_plain(&report.files()[0]);
}

#[test]
fn no_assembly() {
    let out_dir = directory("no-assembly");
    let shim = Shim::new(&out_dir, "cc", "gcc").refusing("-S");
    let report = compile("refused", shim.path(), |_| {});
    assert_eq!(reason(&report), &PlainReason::Assembly("error: refused -S".to_owned()));
    assert_plain(&report.files()[0]);
}

#[test]
fn an_assembler_that_refuses() {
    let out_dir = directory("refusing");
    let shim = Shim::new(&out_dir, "cc", "gcc").refusing("assembler");
    let report = compile("refusing-as", shim.path(), |_| {});
    assert_eq!(reason(&report), &PlainReason::Assembler("error: refused assembler".to_owned()));
    assert_plain(&report.files()[0]);
}

/// This assembly is not the output of a supported compiler.
#[test]
fn assembly_that_is_not_understood() {
    let out_dir = directory("strange");
    let shim = Shim::new(&out_dir, "cc", "gcc").spoiling_assembly();
    let report = compile("strange-as", shim.path(), |_| {});
    assert!(matches!(reason(&report), PlainReason::Unplaced(_)), "{report}");
    assert_plain(&report.files()[0]);
}

/// A file without sites has no effect on the others.
#[test]
fn other_files_keep_their_sites() {
    let out_dir = directory("others");
    let code = ".globl left_part\n.type left_part, @function\nleft_part: ret\n";
    let naked = write(&out_dir, "left_part.s", code);
    let mut build = build(&out_dir, "gcc");
    build.files([source("right/part.c"), naked]);
    let (objects, report) = build.try_compile_intermediates().unwrap();
    assert_eq!(report.placed(), 4);
    assert_plain(&report.files()[1]);
    assert!(Elf::read(Path::new(&objects[0])).records() > 0);
}
