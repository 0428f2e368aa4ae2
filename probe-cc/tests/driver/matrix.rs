//! Each command line as the compiler alone runs it, and as `probe-cc` does: the same output, exit
//! status and files, but for sites in objects.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;

use crate::objects::{code, names, sites};
use crate::place::{Compiler, compilers, files, folder, has, text};

const FILES: &[(&str, &str)] = &[
    ("a.c", "#include \"h.h\"\nint f(int x) { return g(x) + 1; }\nint g(int x) { return x * X; }\n"),
    ("main.c", "#include <stdio.h>\nint f(int);\nint main(void) { printf(\"%d\\n\", f(3)); return 0; }\n"),
    ("h.h", "#define X 7\nint g(int);\n"),
    ("sub/b.x.c", "#include \"../h.h\"\nint b(void) { return X; }\n"),
    ("a.cpp", "template <class T> T twice(T x) { return x + x; }\nint c(int x) { return twice(x); }\n"),
    ("careless.c", "int f(void) { int unused; return 1; }\nint h(void) { return undeclared_function(); }\n"),
    ("wrong.c", "int f(void) { return undeclared; }\nint g(void) { return 1 }\n"),
    ("missing.c", "#include \"none.h\"\n"),
    ("inline.c", "int f(void) { int unused; __asm__(\"no_such_instruction\"); return 1; }\n"),
    ("listing.c", "#warning \"look\"\nint f(void) { return 1; }\n"),
    ("text.s", "\t.text\n\t.globl s\ns:\tret\n\t.section .note.GNU-stack,\"\",@progbits\n"),
    ("text.S", "#define R ret\n\t.text\n\t.globl s\ns:\tR\n\t.section .note.GNU-stack,\"\",@progbits\n"),
    ("pre.i", "# 1 \"pre.c\"\nint f(void) { return 1; }\n"),
    ("odd.inc", "int f(void) { return 1; }\n"),
    ("conftest.c", "int f(void) { return 1; }\n"),
    ("sp ace.c", "int f(void) { return 1; }\n"),
    ("args", "-c a.c\n-o 'x y.o' -MD"),
    ("out/.keep", ""),
];

/// A command line, split at spaces but for `\_`, which is a space, and how many sites its files
/// have together.
const LINES: &[(&str, usize)] = &[
    // One object.
    ("-c a.c", 4),
    ("-O0 -g -c a.c -o out/a.o", 4),
    ("-O3 -fPIC -Wall -Wextra -pipe -c -oout/a.o a.c", 4),
    ("-c -O2 -ffunction-sections -fdata-sections a.c", 4),
    ("-c sub/b.x.c", 2),
    ("-c pre.i", 2),
    ("-x c -c odd.inc -o odd.o", 2),
    ("-x cpp-output -c pre.i -o odd.o", 2),
    ("-c sp\\_ace.c", 2),
    ("-O1 -c a.c main.c sub/b.x.c", 8),
    ("-MD -c a.c main.c", 6),
    ("-MMD -MF out/x.d -c a.c main.c", 6),
    ("-O1 -c a.c a.cpp", 2),
    ("-Wall -c careless.c a.c", 8),
    ("-c a.c wrong.c main.c", 0),
    ("-c a.c text.s", 0),
    ("-c a.c main.c -o a.o", 0),
    ("-Isub -DX2=1 -include h.h -isystem sub -c a.c", 4),
    ("-O2 -flto -c a.c", 4),
    ("-O2 -c a.c -o a.lo", 4),
    ("-c a.c -Wa,--noexecstack -O1", 4),
    ("-c a.c -lm -L. -Wl,-z,now", 4),
    ("-m64 -march=x86-64-v2 -fno-plt -fstack-protector-strong -c a.c", 4),
    ("-c conftest.c", 0),
    // Dependency files.
    ("-MD -c a.c", 4),
    ("-MMD -MP -c a.c -o out/a.o", 4),
    ("-MD -c a.c -o out/no_ending", 4),
    ("-MD -MF out/x.d -c a.c -o out/a.b.o", 4),
    ("-MMD -MT target -MFout/x.d -c a.c", 4),
    ("-MD -MQ a$b -MT other -c a.c -o we$ird.o", 4),
    ("-MD -c sub/b.x.c", 2),
    ("-Wp,-MD,out/w.d -c a.c -o out/w.o", 4),
    ("-Wp,-MMD,out/w.d -c a.c", 4),
    ("-M a.c", 0),
    ("-MM -MG missing.c", 0),
    ("@args", 4),
    // Messages.
    ("-Wall -c careless.c", 4),
    ("-Wall -fdiagnostics-color=always -c careless.c", 4),
    ("-Werror -Wall -c careless.c", 0),
    ("-w -c careless.c -MD", 4),
    ("-c wrong.c", 0),
    ("-c wrong.c -MD -o out/w.o", 0),
    ("-c missing.c", 0),
    ("-c none.c", 0),
    ("-c listing.c", 2),
    ("-c a.c -fno-such-flag", 0),
    ("-c a.c -o none/a.o", 0),
    ("-c a.c -Wno-such-warning", 4),
    ("-c a.c -o", 0),
    // Programs.
    ("a.c main.c", 6),
    ("-O2 a.c main.c -o out/program -lm -DX3 -Iout", 6),
    ("-O2 -shared -fPIC a.c -o out/lib.so", 4),
    ("-flto -O2 a.c main.c -o out/program", 6),
    ("a.c main.c -MD -o out/program", 0),
    ("wrong.c main.c", 0),
    ("a.c text.s main.c", 6),
    // The compiler's own affairs.
    ("-E a.c", 0),
    ("-E -dM a.c", 0),
    ("-S a.c", 0),
    ("-S -o - -O2 a.c", 0),
    ("-c a.c -o /dev/null", 0),
    ("-fsyntax-only -Wall careless.c", 0),
    ("-c text.s", 0),
    ("-c text.S", 0),
    ("-x c -c -", 0),
    ("-x c-header h.h -o h.gch", 0),
    ("-c h.h -o h.h.gch", 0),
    ("-c a.c -save-temps", 0),
    ("-c a.c --coverage", 0),
    ("-c a.c -fstack-usage", 0),
    ("-c a.c -masm=intel -O1", 0),
    ("--version", 0),
    ("-v", 0),
    ("-dumpmachine", 0),
    ("-print-file-name=libc.so", 0),
    ("-print-search-dirs", 0),
    ("", 0),
];

const LINES_OF_CXX: &[(&str, usize)] = &[
    ("-c a.cpp -MD", 4),
    ("-O2 -std=c++17 -fno-exceptions -c a.cpp -o out/a.o", 2),
    ("-c a.c", 4),
    ("-x c++ -c odd.inc -o odd.o", 2),
    ("-c wrong.c", 0),
    ("--version", 0),
    ("-c a.cpp -fmodules-ts", 0),
];

/// The output without names of temporary files, and without the folder of the test.
fn told(bytes: &[u8], folder: &str) -> String {
    let said = text(bytes).replace(folder, "FOLDER");
    let mut parts = said.split("/tmp/");
    let mut told = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        told += "TEMPORARY";
        told += part.trim_start_matches(|c: char| c.is_ascii_alphanumeric() || "-_./".contains(c));
    }
    told
}

type Outcome = (Option<i32>, String, String, BTreeMap<PathBuf, Vec<u8>>);

fn run(compiler: Compiler, line: &str, is_cxx: bool, is_probed: bool) -> Outcome {
    let folder = folder("matrix", FILES);
    let mut command = if is_probed { compiler.probed(is_cxx) } else { compiler.plain(is_cxx) };
    let words = line.split_whitespace().map(|word| word.replace("\\_", " "));
    let output = command.args(words).current_dir(&*folder).output().unwrap();
    let path = folder.display().to_string();
    let mut files = files(&folder);
    FILES.iter().for_each(|(name, _)| drop(files.remove(&PathBuf::from(name))));
    (output.status.code(), told(&output.stdout, &path), told(&output.stderr, &path), files)
}

/// Files that only differ by their sites. Objects without sites are the compiler's own.
fn assert_files(
    line: &str,
    plain: &BTreeMap<PathBuf, Vec<u8>>,
    probed: &BTreeMap<PathBuf, Vec<u8>>,
    expected: usize,
) {
    assert_eq!(probed.keys().collect::<Vec<_>>(), plain.keys().collect::<Vec<_>>(), "{line}");
    let mut all = 0;
    for ((name, plain), probed) in plain.iter().zip(probed.values()) {
        let found = sites(probed);
        all += found;
        // Precompiled headers and bitcode have times and numbers by chance.
        let is_random = name.extension().is_some_and(|it| it == "gch" || it == "gcno");
        if found == 0 && !plain.starts_with(b"\x7fELF") && !is_random {
            assert_eq!(text(probed), text(plain), "{line}: {}", name.display());
        }
        if found > 0 && !line.contains("-g ") {
            let names = names(probed);
            assert!(!names.iter().any(|name| name.starts_with(".debug")), "{line}: {names:?}");
        }
    }
    assert_eq!(all, expected, "{line}");
}

fn assert_same(compiler: Compiler, lines: &[(&str, usize)], is_cxx: bool) {
    for (line, expected) in lines {
        let plain = run(compiler, line, is_cxx, false);
        let probed = run(compiler, line, is_cxx, true);
        let line = format!("{compiler:?} {line}");
        assert_eq!((probed.0, &probed.1, &probed.2), (plain.0, &plain.1, &plain.2), "{line}");
        assert_files(&line, &plain.3, &probed.3, *expected);
    }
}

#[test]
fn c() {
    for compiler in compilers() {
        assert_same(compiler, LINES, false);
    }
}

#[test]
fn cxx() {
    for compiler in compilers() {
        let is_known = |line: &&(&str, usize)| compiler.c == "gcc" || !line.0.contains("-fmodules-ts");
        let lines: Vec<_> = LINES_OF_CXX.iter().filter(is_known).copied().collect();
        assert_same(compiler, &lines, true);
    }
}

/// On a terminal there are colours, and each message once.
#[test]
fn on_a_terminal() {
    if !has("script") {
        return;
    }
    for compiler in compilers() {
        let folder = folder("terminal", FILES);
        for line in [
            "-Wall -c careless.c", "-c wrong.c", "-Wall -c inline.c", "-Wall -c naked.c",
            "-Wall careless.c -shared",
        ] {
            std::fs::write(folder.join("naked.c"), NAKED).unwrap();
            let [plain, probed] = [compiler.plain(false), compiler.probed(false)].map(|command| {
                let program = command.get_program().display().to_string();
                let mut script = Command::new("script");
                compiler.behind(&mut script);
                script.env("TERM", "xterm").args(["-qec", &format!("{program} {line}"), "/dev/null"]);
                let output = script.current_dir(&*folder).output().unwrap();
                (output.status.code(), told(&output.stdout, "/none"))
            });
            assert_eq!(probed, plain, "{compiler:?} {line}");
            assert!(probed.1.contains('\u{1b}'), "{compiler:?} {line}: {probed:?}");
        }
    }
}

/// The whole file is left alone, since its assembly is not understood.
const NAKED: &str =
    "int f(void) { int unused; return 1; }\n__asm__(\".macro m\\n.endm\\n.code32\\n.code64\");\n";

/// A mistake in assembly is the assembler's, whose temporary files have other names each time.
#[test]
fn mistakes_in_assembly() {
    for compiler in compilers() {
        let plain = run(compiler, "-c inline.c", false, false);
        let probed = run(compiler, "-c inline.c", false, true);
        assert_eq!((probed.0, &probed.2), (plain.0, &plain.2));
        assert!(probed.2.contains("no_such_instruction"), "{}", probed.2);
    }
}

/// A name and a file fill their place in a definition, or leave a byte of it, or take one more. The
/// assembler has nothing to warn of.
#[test]
fn names_that_fill_a_definition() {
    let names = (143..=145).map(|bytes| "f".repeat(bytes - "a.c".len()));
    let source = names.map(|name| format!("void {name}(void) {{}}\n")).collect::<Vec<_>>().concat();
    for compiler in compilers() {
        let folder = folder("names", &[("a.c", &source)]);
        let args = ["-Wa,--fatal-warnings", "-c", "a.c"];
        let output = crate::place::done(compiler.probed(false).current_dir(&*folder).args(args));
        assert_eq!(text(&output.stderr), "", "{compiler:?}");
        assert_eq!(sites(&std::fs::read(folder.join("a.o")).unwrap()), 6, "{compiler:?}");
    }
}

const CODE: &str = "int g(int);\n\
    static __attribute__((noinline)) int half(int x) { return x / 2; }\n\
    int loop(int x) { while (x) { if (x % 3) x = g(x); else x = half(x); } return x; }\n\
    int other(int x) { switch (x) { case 0: return g(1); case 1: return 5; case 2: return g(x) + 2;\n\
      case 3: return 11; case 4: return loop(x) + 1; default: return half(x); } }\n";

/// Compiles `CODE` with both compilers; only `function` gets sites.
fn objects(compiler: Compiler, flags: &str, function: &str) -> [Vec<u8>; 2] {
    let folder = folder("as-ever", &[("a.c", CODE)]);
    let mut probed = compiler.probed(false);
    probed.env("PROBE_CC_FILTER", function);
    [compiler.plain(false), probed].map(|mut command| {
        crate::place::done(command.current_dir(&*folder).args(flags.split(' ')).args(["-c", "a.c"]));
        std::fs::read(folder.join("a.o")).unwrap()
    })
}

/// Where no function has sites, code is the plain compiler's, byte by byte. Otherwise, that of each
/// section without sites is, with its relocations. So is debug information.
#[test]
fn functions_without_sites_are_as_ever() {
    for compiler in compilers() {
        for flags in ["-O0", "-O2", "-O2 -fPIC", "-O2 -g"] {
            let [plain, probed] = objects(compiler, flags, "none_such");
            assert_eq!(code(&probed), code(&plain), "{compiler:?} {flags}");
            assert_eq!(sites(&probed), 0, "{compiler:?} {flags}");
            let has_debug = |object: &[u8]| names(object).iter().any(|it| it == ".debug_info");
            let is_wanted = flags.contains("-g");
            assert_eq!((has_debug(&probed), has_debug(&plain)), (is_wanted, is_wanted));

            let flags = format!("{flags} -ffunction-sections");
            let [plain, probed] = objects(compiler, &flags, "loop");
            let (mut plain, mut others) = (code(&plain), code(&probed));
            let added = |name: &str| name.starts_with(".text.unlikely.__probe_stub_");
            others.retain(|name, _| !added(name));
            assert_ne!(plain.remove(".text.loop"), others.remove(".text.loop"), "{compiler:?} {flags}");
            assert_eq!(others, plain, "{compiler:?} {flags}");
            assert!(plain.contains_key(".text.other") && sites(&probed) >= 2, "{compiler:?} {flags}");
        }
    }
}

/// Some versions of clang encode the constant of a shift by one; their assembler leaves it out.
#[test]
fn shifts_by_one_are_those_of_the_assembly() {
    for compiler in compilers() {
        let folder = folder("shift", &[("a.c", "unsigned f(unsigned x) { return x << 1; }\n")]);
        let made = |mut command: Command, args: &str, file: &str| {
            crate::place::done(command.current_dir(&*folder).args(args.split(' ')));
            std::fs::read(folder.join(file)).unwrap()
        };
        made(compiler.plain(false), "-O0 -S a.c", "a.s");
        let plain = made(compiler.plain(false), "-O0 -c a.s", "a.o");
        let mut command = compiler.probed(false);
        command.env("PROBE_CC_FILTER", "none_such");
        let probed = made(command, "-O0 -c a.c", "a.o");
        assert_eq!(code(&probed), code(&plain), "{compiler:?}");
    }
}
