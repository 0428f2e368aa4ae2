//! Variables, files and mistakes of the setup.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::process::Command;

use probe_tests::folder::Folder;

use crate::objects::sites;
use crate::place::{CC, clean, compilers, done, folder, has, text};

const FILES: &[(&str, &str)] = &[
    (
        "sub/a.c",
        "#include \"in.h\"\nint net_a(void) { return small(); }\nint net_b(void) { return 2; }\n__attribute__((naked)) void bare(void) { __asm__(\"ret\"); }\n",
    ),
    ("sub/in.h", "static int __attribute__((noinline)) small(void) { return 1; }\n"),
];

fn object(folder: &Folder, command: &mut Command) -> usize {
    done(command.current_dir(&**folder).args(["-O1", "-c", "sub/a.c", "-o", "a.o"]));
    sites(&fs::read(folder.join("a.o")).unwrap())
}

fn script(folder: &Folder, name: &str, text: &str) -> String {
    let path = folder.join(name);
    fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
    fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
    path.display().to_string()
}

#[test]
fn a_filter_chooses_functions_and_files() {
    let compiler = compilers()[0];
    let folder = folder("filter", FILES);
    let count = |filter: Option<&str>| {
        object(&folder, compiler.probed(false).envs(filter.map(|it| ("PROBE_CC_FILTER", it))))
    };
    assert_eq!(count(None), 6);
    for (filter, expected) in [
        ("", 6),
        ("net_*", 4),
        ("net_*;!*_b", 2),
        ("!*", 0),
        ("*.h", 2),
        ("sub/*.c", 4),
        ("!in.h", 4),
        ("!sub/**", 0),
        ("other/*.c", 0),
        ("# nothing\nsmall", 2),
    ] {
        assert_eq!(count(Some(filter)), expected, "{filter}");
    }
    fs::write(folder.join(".probe-cc"), "net_a\n").unwrap();
    assert_eq!((count(None), count(Some("*"))), (2, 6));
    fs::write(folder.join("sub/.probe-cc"), "!small\n").unwrap();
    assert_eq!(count(None), 4);
}

#[test]
fn the_log_has_a_line_for_each_file() {
    let compiler = compilers()[0];
    let folder = folder("log", FILES);
    let log = folder.join("log");
    let run = |line: &str| {
        let mut command = compiler.probed(false);
        done(command.current_dir(&*folder).env("PROBE_CC_LOG", &log).args(line.split(' ')));
    };
    run("-c sub/a.c");
    run("-flto -c sub/a.c");
    run("-S sub/a.c");
    run("-E sub/a.c");
    run("-shared a.o -o a.so");
    let path = folder.join("sub/a.c").display().to_string();
    let logged = fs::read_to_string(&log).unwrap();
    let lines: Vec<_> = logged.lines().map(|line| line.strip_prefix(&*path).expect(line)).collect();
    let [placed, without, assembly] = lines[..] else { panic!("{lines:?}") };
    assert!(placed.starts_with(": 3 functions with sites; left out bare: "), "{placed}");
    assert!(without.starts_with(": 3 functions with sites, compiled without -flto; "), "{without}");
    assert_eq!(assembly, ": no sites: sites are not placed with -S");
}

#[test]
fn the_real_compiler_is_the_first_other_one() {
    let folder = folder("found", FILES);
    let real = compilers()[0].c;
    let path = std::env::var("PATH").unwrap();
    // A link to this program comes first, then a compiler that tells of itself.
    fs::create_dir(folder.join("bin")).unwrap();
    fs::create_dir(folder.join("other")).unwrap();
    symlink(CC, folder.join("bin/cc")).unwrap();
    script(
        &folder,
        "other/cc",
        &format!("echo \"$@\" >> {}\nexec {real} \"$@\"", folder.join("calls").display()),
    );
    let mut command = Command::new(CC);
    clean(&mut command);
    command
        .env_remove("PROBE_CC")
        .env("PATH", format!("{}:{}:{path}", folder.join("bin").display(), folder.join("other").display()));
    assert_eq!(object(&folder, &mut command), 6);
    assert!(fs::read_to_string(folder.join("calls")).unwrap().contains(" -S "));
}

#[test]
fn wrappers_stand_before_and_behind() {
    let compiler = compilers()[0];
    let folder = folder("wrapped", FILES);
    let script = script(&folder, "wrapper", "exec \"$@\"");
    for wrapper in [&*script, "ccache", "distcc"] {
        if wrapper != script && !has(wrapper) {
            continue;
        }
        let set = |command: &mut Command| {
            command.env("CCACHE_DIR", folder.join("cache")).env("DISTCC_DIR", &*folder);
            command.env("DISTCC_HOSTS", "localhost");
            fs::remove_file(folder.join("a.o")).unwrap_or_default();
        };
        // The second objects are those of a cache, if there is one.
        for _ in 0..2 {
            let mut behind = compiler.probed(false);
            set(behind.env("PROBE_CC", format!("{wrapper} {}", compiler.c)));
            assert_eq!(object(&folder, &mut behind), 6, "behind {wrapper}");
            let mut before = Command::new(wrapper);
            compiler.behind(&mut before);
            set(before.arg(CC));
            assert_eq!(object(&folder, &mut before), 6, "before {wrapper}");
        }
    }
}

/// A compiler has the name of its processor, as in builds for others.
#[test]
fn compilers_for_a_processor_have_sites_if_it_is_known() {
    let folder = folder("cross", FILES);
    let log = folder.join("log");
    let foreign = "code is not patched on this target (AArch64 Linux), only on x86-64 Linux";
    for (compiler, expected, said) in [
        ("aarch64-linux-gnu-gcc", 0, foreign),
        ("clang --target=aarch64-linux-gnu", 0, foreign),
        ("x86_64-linux-gnu-gcc", 6, "3 functions with sites"),
    ] {
        if !has(compiler.split(' ').next().unwrap()) {
            continue;
        }
        let mut command = Command::new(CC);
        clean(&mut command);
        command.env("PROBE_CC", compiler).env("PROBE_CC_LOG", &log);
        assert_eq!(object(&folder, &mut command), expected, "{compiler}");
        let logged = fs::read_to_string(&log).unwrap();
        let line = logged.lines().last().unwrap();
        assert!(line.contains(said), "{compiler}: {line}");
        let machine = if expected == 0 { 183 } else { 62 };
        assert_eq!(fs::read(folder.join("a.o")).unwrap()[18], machine, "{compiler}");
    }
}

/// A compiler for another processor, or one that is not known, compiles as ever.
#[test]
fn foreign_compilers_are_left_alone() {
    let compiler = compilers()[0];
    let folder = folder("foreign", FILES);
    let log = folder.join("log");
    for (define, said) in [("__aarch64__", "AArch64"), ("__TINYC__", "tcc")] {
        let undefine = if define == "__aarch64__" { "-U__x86_64__" } else { "-DX" };
        let foreign = script(
            &folder,
            "foreign-gcc",
            &format!(
                "case \" $* \" in *' -dM '*) set -- -D{define} {undefine} \"$@\";; esac\nexec {} \"$@\"",
                compiler.c
            ),
        );
        let mut command = compiler.probed(false);
        command.env("PROBE_CC", foreign).env("PROBE_CC_LOG", &log);
        assert_eq!(object(&folder, &mut command), 0);
        let logged = fs::read_to_string(&log).unwrap();
        assert!(logged.lines().last().unwrap().contains(said), "{logged}");
    }
}

#[test]
fn mistakes_of_the_setup_are_told() {
    let folder = folder("mistakes", FILES);
    let itself = Path::new(CC).with_file_name("probe-cxx").display().to_string();
    let script = script(&folder, "indirect", &format!("exec {CC} \"$@\""));
    let file = folder.join(".probe-cc").display().to_string();
    fs::write(&file, "a[\n").unwrap();
    let cases: &[(&[(&str, &str)], &str)] = &[
        (
            &[("PROBE_CC", "no-such-compiler")],
            "PROBE_CC names `no-such-compiler`, which is no program in PATH",
        ),
        (&[("PROBE_CC", CC)], "which is this program itself"),
        (&[("PROBE_CC", &itself)], "which is this program itself"),
        (
            &[("PROBE_CC", &script), ("PROBE_CC_FILTER", "")],
            "runs this program again; name the real compiler in PROBE_CC",
        ),
        (&[("PROBE_CC", " ")], "PROBE_CC is blank"),
        (
            &[("PATH", "/nowhere")],
            "no C compiler found: PATH has no other cc, gcc or clang; name one in PROBE_CC",
        ),
        (&[("PROBE_CC_FILTER", "x;[")], "PROBE_CC_FILTER: `[` is no glob"),
        (&[], ".probe-cc: `a[` is no glob"),
        (&[("PROBE_CC_LOG", "none/log")], "PROBE_CC_LOG: can't write none/log"),
    ];
    for (variables, said) in cases {
        let mut command = Command::new(CC);
        clean(&mut command);
        command.env_remove("PROBE_CC").envs(variables.iter().copied());
        let output = command.current_dir(&*folder).args(["-c", "sub/a.c"]).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(text(&output.stderr).contains(said), "{said}: {}", text(&output.stderr));
        assert!(text(&output.stderr).starts_with("probe-cc: "));
    }
}

/// Nobody would notice that a filter has no effect.
#[test]
fn a_file_of_a_filter_is_read_or_named() {
    let compiler = compilers()[0];
    let folder = folder("unread", FILES);
    let file = folder.join("sub/.probe-cc");
    let run = || compiler.probed(false).current_dir(&*folder).args(["-c", "sub/a.c"]).output().unwrap();
    let said = |why: &str| format!("probe-cc: {}: can't be read: {why}\n", file.display());
    fs::write(&file, b"net_a\n\xff\n").unwrap();
    assert_eq!(text(&run().stderr), said("stream did not contain valid UTF-8"));
    fs::remove_file(&file).unwrap();
    fs::create_dir(&file).unwrap();
    let output = run();
    assert_eq!(text(&output.stderr), said("Is a directory (os error 21)"));
    assert!(output.status.code() == Some(1) && !folder.join("a.o").exists());
}

/// No folder of an object's assembly stays, whatever becomes of it.
#[test]
fn nothing_stays_behind() {
    let compiler = compilers()[0];
    let folder = folder("clean", FILES);
    fs::create_dir(folder.join("tmp")).unwrap();
    fs::write(folder.join("wrong.c"), "int f(\n").unwrap();
    for line in ["-c sub/a.c", "-c wrong.c", "-shared -fPIC sub/a.c -o a.so", "sub/a.c"] {
        let mut command = compiler.probed(false);
        command
            .env("TMPDIR", folder.join("tmp"))
            .current_dir(&*folder)
            .args(line.split(' '))
            .output()
            .unwrap();
        assert_eq!(fs::read_dir(folder.join("tmp")).unwrap().count(), 0, "{line}");
    }
}
