//! However a program is linked, its calls are counted.

use std::process::Command;

use probe_tests::c_library::run;
use probe_tests::folder::Folder;
use probe_tests::{instrumented, whole};

use crate::program::{build, counts_exactly, ran, source, storm, with_agent};

/// Flags of compilers and linkers that change words that lead calls.
const WAYS: [&[&str]; 7] = [
    &["-Wl,-z,lazy"],
    &["-Wl,-z,now"],
    &["-Wl,-z,relro,-z,now", "-fno-plt"],
    &["-Wl,-z,norelro", "-Wl,-z,lazy"],
    &["-no-pie", "-fno-pie", "-Wl,-z,now", "-DWITHOUT_ADDRESSES"],
    &["-D_FORTIFY_SOURCE=2", "-Wl,-z,now"],
    &["-fno-plt", "-Wl,-z,lazy"],
];

#[test]
fn each_way_of_linking_counts_exactly() {
    let folder = Folder::new("linking");
    let mut built = 0;
    for compiler in instrumented::compilers() {
        for linker in [&[][..], &["-fuse-ld=lld"], &["-fuse-ld=bfd"]] {
            for (number, way) in WAYS.into_iter().enumerate() {
                // Each way once, or all ways of each compiler and linker.
                if !whole::is_asked_for() && (number + built) % 3 == 2 && !linker.is_empty() {
                    continue;
                }
                let flags = [&["-O2", "-pthread", "-w"], way, linker].concat();
                let out = folder.join("program");
                // A linker may not be there.
                if run(compiler, &flags, &[&source("storm.c")], &out).is_done {
                    built += 1;
                    counts_exactly(&out, &["storm"], &folder);
                } else {
                    assert!(!linker.is_empty(), "{compiler} {flags:?}");
                }
            }
        }
    }
    println!("{built} programs");
}

/// A library's calls of its own functions, by a word or without one.
#[test]
fn calls_inside_of_a_library_are_not_seen() {
    let folder = Folder::new("inside");
    std::fs::write(folder.join("own.probes"), "library libown.so\nown::twice = int twice(int n)\n").unwrap();
    std::fs::write(
        folder.join("main.c"),
        "int again(int n);\nint twice(int n);\nint main(void) { return again(1) + twice(2) == 8 ? 0 : 1; }\n",
    )
    .unwrap();
    for flag in ["-Wl,-Bsymbolic", "-fsemantic-interposition"] {
        build(&folder, "own.c", &["-shared", "-fPIC", "-O0", flag], "libown.so");
        let mut gcc = Command::new(instrumented::compilers()[0]);
        gcc.current_dir(&*folder).args(["main.c", "-o", "main", "-L.", "-lown", "-Wl,-rpath,$ORIGIN"]);
        assert!(gcc.status().unwrap().success());
        let mut command = with_agent(&folder.join("main"), "own::twice kind=entry=count by(n)");
        let err = ran(command.env("PROBES_MODULES", folder.join("own.probes"))).err;
        let rows: Vec<Vec<_>> = err.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(rows, [["probe", "n", "count"], ["own::twice", "2", "1"]], "{flag}");
    }
}

#[test]
fn a_program_without_named_modules_is_left_alone() {
    let folder = Folder::new("alone");
    let storm = storm(&folder);
    let ran = ran(with_agent(&storm, "**=count").arg("storm"));
    assert_eq!(ran.err, "");
}
