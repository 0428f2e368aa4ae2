//! Whole builds that know of no probes, and their programs.

use std::fs;
use std::path::Path;
use std::process::Command;

use probe_tests::nested::{cargo_into, lend_lock_file};

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
    (
        "meson.build",
        "project('p', 'c', 'cpp', default_options: ['optimization=1'])\nlib = static_library('parts', 'src/lib.c', 'src/wide.cpp')\nexecutable('program', 'src/main.c', link_with: lib)\n",
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

/// Objects that GNU ld or lld have joined keep all sites, whatever links them then. gold loses the
/// links of sections, and mold joins those of several groups, also without sites.
#[test]
fn joined_objects_keep_their_sites() {
    const HEADER: &str = "inline __attribute__((noinline)) int times5(int x) { return x * 5; }\n\
        template <class T> __attribute__((noinline)) T twice(T x) { return x * 2; }\n";
    let one = format!("{HEADER}int f(int x) {{ return times5(twice(x)) + 1; }}\n");
    let other =
        format!("{HEADER}int f(int);\nint main(int x, char **) {{ return times5(twice(f(x))) & 0; }}\n");
    let linkers: Vec<_> = ["bfd", "lld", "gold"].into_iter().filter(|it| has(&format!("ld.{it}"))).collect();
    for compiler in compilers() {
        let folder = folder("joined", &[("a.cpp", &one), ("b.cpp", &other)]);
        for source in ["a.cpp", "b.cpp"] {
            done(compiler.probed(true).current_dir(&*folder).args(["-O2", "-c", source]));
        }
        for first in linkers.iter().filter(|it| **it != "gold") {
            let mut join = Command::new(format!("ld.{first}"));
            done(join.current_dir(&*folder).args(["-r", "a.o", "b.o", "-o", "joined.o"]));
            for second in &linkers {
                let linker = format!("-fuse-ld={second}");
                let args = [&*linker, "-Wl,--gc-sections", "joined.o", "-o", "program"];
                done(compiler.plain(true).current_dir(&*folder).args(args));
                let program = fs::read(folder.join("program")).unwrap();
                assert_eq!(sites(&program), 8, "{compiler:?}: {first}, then {second}");
            }
        }
    }
}

#[test]
fn make_builds_with_probes() {
    if !has("make") {
        return;
    }
    for compiler in compilers() {
        let folder = folder("make", FILES);
        done(make(compiler, &folder).arg("-j2"));
        assert!(sites(&fs::read(folder.join("program")).unwrap()) >= 10);
        assert_counts(&folder.join("program"));
        // The dependency files are those of the objects.
        let unchanged = done(make(compiler, &folder).arg("-q"));
        assert_eq!(text(&unchanged.stdout), "");
        fs::write(folder.join("src/lib.h"), "int step(int);\nint wide(int); \n").unwrap();
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

#[test]
fn meson_builds_with_probes() {
    if !has("meson") || !has("ninja") {
        return;
    }
    let folder = folder("meson", FILES);
    for compiler in compilers() {
        let build = folder.join(compiler.c);
        let meson = |words: &[&str]| {
            let mut command = Command::new("meson");
            compiler.behind(&mut command);
            command.current_dir(&*folder).env("CC", CC).env("CXX", CXX);
            text(&done(command.env("PROBE_CC_LOG", build.join("log")).args(words).arg(&build)).stdout)
        };
        meson(&["setup"]);
        meson(&["compile", "-C"]);
        assert_counts(&build.join("program"));
        // Questions of meson to the compiler have no sites.
        let log = fs::read_to_string(build.join("log")).unwrap();
        let mut placed: Vec<_> = log.lines().filter(|line| line.contains(" functions with sites")).collect();
        placed.sort_unstable();
        assert_eq!(placed.len(), 3, "{log}");
        for (line, name) in placed.iter().zip(["lib.c", "main.c", "wide.cpp"]) {
            assert!(line.contains(&format!("src/{name}: ")), "{log}");
        }
    }
}

/// A build script asks the crate `cc` for a compiler, which takes the one of `CC`.
#[test]
fn build_scripts_build_with_probes() {
    let compiler = compilers()[0];
    let folder = folder(
        "cargo",
        &[
            (
                "Cargo.toml",
                "[package]\nname = \"p\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\n[workspace]\n\n[build-dependencies]\ncc = \"1\"\n",
            ),
            ("build.rs", "fn main() { cc::Build::new().file(\"part.c\").opt_level(1).compile(\"part\"); }\n"),
            ("part.c", "int outer(int x) { return x + 1; }\n"),
            (
                "src/main.rs",
                "unsafe extern \"C\" {\n    safe fn outer(x: i32) -> i32;\n}\nfn main() {\n    println!(\"{}\", (0..6).map(|x| outer(x)).sum::<i32>());\n}\n",
            ),
        ],
    );
    lend_lock_file(&folder);
    let mut cargo = cargo_into(&folder, "build", &folder.join("target"));
    compiler.behind(&mut cargo);
    done(cargo.args(["--offline", "--quiet"]).env("CC", CC));
    let (output, rows) = counted(&folder.join("target/debug/p"));
    assert_eq!(text(&output.stdout), "21\n");
    assert_eq!(rows, ["outer entry 1 6", "outer exit 1 6"]);
}
