//! Whole builds that know of no probes, and their programs.

use std::path::Path;
use std::process::Command;

use crate::objects::sites;
use crate::place::{CC, CXX, Compiler, compilers, counted, done, folder, has, text};

const FILES: &[(&str, &str)] = &[
    (
        "src/main.c",
        "#include <stdio.h>\n#include \"lib.h\"\nint main(void) {\n  int sum = 0;\n  for (int i = 0; i < 5; i++) sum += step(i);\n  printf(\"%d\\n\", sum + wide(2));\n  return 0;\n}\n",
    ),
    (
        "src/lib.c",
        "#include \"lib.h\"\nstatic int __attribute__((noinline)) inner(int x) { return x * x; }\nint step(int x) { return x % 2 ? inner(x) : 0; }\n",
    ),
    (
        "src/wide.cpp",
        "extern \"C\" {\n#include \"lib.h\"\n}\nnamespace geo { struct P { int x; P(int x) : x(x) {} int twice() const; };\nint __attribute__((noinline)) P::twice() const { return 2 * x; } }\nint wide(int x) { return geo::P(x).twice(); }\n",
    ),
    ("src/lib.h", "int step(int);\nint wide(int);\n"),
    (
        "Makefile",
        "CFLAGS = -O1 -g -MMD\nCXXFLAGS = -O1 -MMD\nprogram: src/main.o src/lib.o src/wide.o\n\t$(CXX) $(LDFLAGS) $^ -o $@\n-include $(wildcard src/*.d)\n",
    ),
    (
        "CMakeLists.txt",
        "cmake_minimum_required(VERSION 3.10)\nproject(p C CXX)\nset(CMAKE_C_FLAGS -O1)\nset(CMAKE_CXX_FLAGS -O1)\nadd_executable(program src/main.c src/lib.c src/wide.cpp)\n",
    ),
];

/// The hits of each function.
const ROWS: [&str; 10] = [
    "geo::P::twice entry 1 1", "geo::P::twice exit 1 1", "inner entry 1 2", "inner exit 1 2",
    "main entry 1 1", "main exit 1 1", "step entry 1 5", "step exit 2 5", "wide entry 1 1", "wide exit 1 1",
];

fn assert_counts(program: &Path) {
    let (output, rows) = counted(program);
    assert_eq!(text(&output.stdout), "14\n");
    // Compilers differ in how many exits a function has.
    let without_sites = |row: &str| {
        let words: Vec<_> = row.split(' ').collect();
        format!("{} {} {}", words[0], words[1], words[words.len() - 1])
    };
    let expected = ROWS.map(without_sites);
    assert_eq!(rows.iter().map(|row| without_sites(row)).collect::<Vec<_>>(), expected, "{rows:#?}");
}

fn make(compiler: Compiler, folder: &Path) -> Command {
    let mut command = Command::new("make");
    compiler.behind(&mut command);
    command.current_dir(folder).env("CC", CC).env("CXX", CXX);
    command
}

#[test]
fn make_builds_with_probes() {
    if !has("make") {
        return;
    }
    for compiler in compilers() {
        let folder = folder("make", FILES);
        done(make(compiler, &folder).arg("-j2"));
        assert!(sites(&std::fs::read(folder.join("program")).unwrap()) >= 10);
        assert_counts(&folder.join("program"));
        // The dependency files are those of the objects.
        let unchanged = done(make(compiler, &folder).arg("-q"));
        assert_eq!(text(&unchanged.stdout), "");
        std::fs::write(folder.join("src/lib.h"), "int step(int);\nint wide(int); \n").unwrap();
        assert!(!make(compiler, &folder).arg("-q").status().unwrap().success());
    }
}

#[test]
fn objects_link_where_the_build_optimises_while_linking() {
    if !has("make") {
        return;
    }
    for compiler in compilers() {
        let folder = folder("lto", FILES);
        let flags = "-O1 -flto -ffat-lto-objects";
        let flags = if compiler.c == "gcc" { flags } else { "-O1 -flto" };
        let [plain, mine] = [compiler.plain(true), compiler.probed(true)].map(|mut command| {
            command
                .current_dir(&*folder)
                .args(flags.split(' '))
                .args(["src/wide.cpp", "-shared", "-fPIC", "-o", "wide.so"]);
            command.status().unwrap().success()
        });
        assert!(mine >= plain, "{compiler:?}");
        if !plain {
            println!("skipped: {compiler:?} has no plugin for the linker");
            continue;
        }
        let assignments = ["CFLAGS", "CXXFLAGS", "LDFLAGS"].map(|name| format!("{name}={flags}"));
        done(make(compiler, &folder).args(assignments));
        assert_counts(&folder.join("program"));
    }
}

#[test]
fn cmake_builds_with_probes() {
    if !has("cmake") || !has("make") {
        return;
    }
    let compiler = compilers()[0];
    let folder = folder("cmake", FILES);
    let mut configure = Command::new("cmake");
    compiler.behind(&mut configure);
    configure.args(["-S", ".", "-B", "build", "-G", "Unix Makefiles"]);
    configure.arg(format!("-DCMAKE_C_COMPILER={CC}")).arg(format!("-DCMAKE_CXX_COMPILER={CXX}"));
    done(configure.current_dir(&*folder));
    let mut build = Command::new("cmake");
    compiler.behind(&mut build);
    done(build.args(["--build", "build"]).current_dir(&*folder));
    assert_counts(&folder.join("build/program"));
}
