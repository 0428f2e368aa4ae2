//! `list` and `audit` of files whose functions call the compiler's hooks: each compiler, linker and
//! way to call. `objdump` reads the same machine code.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use probe_tests::c_library;
use probe_tests::instrumented::{compilers, without_sections};
use serde_json::Value;

use crate::ran::{Folder, HAS_SITES, fails, run};

/// A function that ends in the exit hook, one with a table of jumps, one that is inlined, one that
/// nothing calls.
const SOURCE: &str = "\
static int twice(int n) { return n * 2; }
__attribute__((noinline)) void ends(int *n) { *n += 2; }
__attribute__((noinline)) int chosen(int n) {
    switch (n) { case 0: return 7; case 1: return twice(n); case 2: ends(&n); return n;
                 case 3: return n ^ 5; case 4: n = twice(n) + 1; break; default: n = 9; }
    return n * 3;
}
int never(int n) { return chosen(n) + 1; }
int start(int argc) { return chosen(argc); }
#ifndef SHARED
int main(int argc, char **argv) { (void)argv; return start(argc); }
#endif
";

/// The functions, each with its line.
const FUNCTIONS: [(&str, u32); 6] =
    [("chosen", 3), ("ends", 2), ("main", 11), ("never", 8), ("start", 9), ("twice", 1)];

const OWN_HOOKS: &str = "\
#define NO __attribute__((no_instrument_function, noinline))
NO void __cyg_profile_func_enter(void *f, void *s) { __asm__ volatile(\"\" :: \"r\"(f), \"r\"(s)); }
NO void __cyg_profile_func_exit(void *f, void *s) { __asm__ volatile(\"\" :: \"r\"(f), \"r\"(s)); }
#line 1
";

/// Compiles; `None` if the compiler or the linker is not there.
fn made(folder: &Folder, compiler: &str, text: &str, flags: &[&str]) -> Option<PathBuf> {
    let (source, program) = (folder.0.join("code.c"), folder.0.join("program"));
    fs::write(&source, text).unwrap();
    let all = [&["-finstrument-functions"], flags].concat();
    let said = c_library::run(compiler, &all, &[&source], &program);
    if said.is_done {
        return Some(program);
    }
    let is_missing =
        said.messages.contains("cannot find 'ld'") || said.messages.contains("invalid linker name");
    assert!(is_missing, "{compiler} {flags:?}: {}", said.messages);
    println!("left out: {compiler} {flags:?}");
    None
}

fn rows(command: &str, file: &Path) -> Vec<Value> {
    let document: Value =
        serde_json::from_str(&run(&["--json", command, file.to_str().unwrap()]).out).unwrap();
    document["rows"].as_array().unwrap().clone()
}

/// Returns the calls of hooks in a file. Section headers lead to the names of exported functions.
fn calls(file: &Path) -> BTreeSet<String> {
    let shown = |it: &Value| format!("{} {} {} {}", it["site"], it["kind"], it["form"], it["switched_by"]);
    rows("audit", file).iter().map(shown).collect()
}

#[test]
fn program_headers_alone_lead_to_the_calls() {
    if !HAS_SITES {
        return;
    }
    let folder = Folder::new("hooked-headers");
    for compiler in compilers() {
        for flags in [&["-O2"][..], &["-O1", "-fno-plt", "-no-pie"], &["-O0", "-shared", "-fPIC", "-DSHARED"]]
        {
            let program = made(&folder, compiler, SOURCE, flags).unwrap();
            assert!(Command::new("strip").arg(&program).status().unwrap().success());
            let audited = calls(&program);
            assert!(audited.len() >= 10, "{audited:?}");
            without_sections(&program);
            assert_eq!(calls(&program), audited, "{compiler} {flags:?}");
            assert!(rows("list", &program).iter().all(|it| it["state"] == "hook"));
            let name = program.to_str().unwrap();
            let error = fails(3, &["coldpatch", name, "-o", name, "--force"]);
            assert!(
                error.contains("has no symbols, which tell its functions: coldpatch it before"),
                "{error}"
            );
            // A number of none, and a place.
            let mut bytes = fs::read(&program).unwrap();
            let half = bytes.len() as u64 / 2;
            bytes[40..48].copy_from_slice(&half.to_le_bytes());
            fs::write(&program, bytes).unwrap();
            assert!([0, 3, 4].contains(&run(&["list", name]).code), "{compiler} {flags:?}");
        }
    }
}

/// Returns the addresses of calls and jumps that lead to hooks, as `objdump` reads the code.
fn disassembled(file: &Path) -> BTreeSet<u64> {
    let output = Command::new("objdump").args(["-dw", "--no-show-raw-insn"]).arg(file).output().unwrap();
    let mut function = String::new();
    let mut found = BTreeSet::new();
    for line in String::from_utf8(output.stdout).unwrap().lines() {
        if let Some((_, name)) = line.strip_suffix(">:").and_then(|it| it.split_once('<')) {
            name.clone_into(&mut function);
        }
        let Some((at, instruction)) = line.trim().split_once(":\t") else { continue };
        // Entries of linkage tables have these names, or none.
        let is_entry = function.contains("plt") || function.contains("PROCEDURE_LINKAGE");
        let leads = instruction.contains("<__cyg_profile_func_enter")
            || instruction.contains("<__cyg_profile_func_exit");
        let is_transfer =
            ["call", "jmp", "bnd", "addr32", "notrack"].iter().any(|it| instruction.starts_with(it));
        if leads && is_transfer && !is_entry {
            found.insert(u64::from_str_radix(at, 16).unwrap());
        }
    }
    found
}

#[test]
fn each_function_is_listed_with_each_compiler_and_linker() {
    if !HAS_SITES {
        return;
    }
    let folder = Folder::new("hooked");
    let own = format!("{OWN_HOOKS}{SOURCE}");
    let of_others = "`probectl run` or `attach` makes them probes";
    for compiler in compilers() {
        for (text, flags, can) in [
            (SOURCE, &["-O0", "-g"][..], of_others),
            (SOURCE, &["-O1", "-g", "-no-pie", "-fno-pie"], of_others),
            (SOURCE, &["-O2", "-g", "-fno-plt", "-fno-inline"], of_others),
            (SOURCE, &["-O3", "-g", "-fcf-protection", "-Wl,-z,now"], of_others),
            (SOURCE, &["-O2", "-g", "-fuse-ld=gold"], of_others),
            (SOURCE, &["-O2", "-g", "-fuse-ld=lld"], of_others),
            (SOURCE, &["-O2", "-g", "-fuse-ld=mold", "-Wl,-z,lazy"], of_others),
            (SOURCE, &["-O2", "-g", "-shared", "-fPIC", "-DSHARED"], of_others),
            (&own, &["-O2", "-g", "-shared", "-fPIC", "-DSHARED"], "it has hooks of its own"),
            (&own, &["-O2", "-g"], "it has hooks of its own"),
            (SOURCE, &["-O2", "-g", "-static"], "it is linked statically"),
            (SOURCE, &["-O2", "-g", "-static-pie", "-fPIE"], "it is linked statically"),
        ] {
            let Some(file) = made(&folder, compiler, text, flags) else { continue };
            let case = format!("{compiler} {flags:?}");
            let listed = rows("list", &file);
            let is_shared = flags.contains(&"-shared");
            let expected: Vec<_> = FUNCTIONS
                .into_iter()
                .filter(|(name, _)| !(is_shared && *name == "main"))
                .flat_map(|(name, line)| ["entry", "exit"].map(|kind| (name, kind, u64::from(line))))
                .collect();
            let found: Vec<_> = { &listed }
                .iter()
                .map(|it| {
                    assert!(
                        it["file"].as_str().unwrap().ends_with("code.c") && it["state"] == "hook",
                        "{case}: {it}"
                    );
                    (
                        it["probe"].as_str().unwrap(),
                        it["kind"].as_str().unwrap(),
                        it["line"].as_u64().unwrap(),
                    )
                })
                .collect();
            assert_eq!(found, expected, "{case}");
            let sites: BTreeSet<_> =
                rows("audit", &file).iter().map(|it| it["site"].as_u64().unwrap()).collect();
            assert_eq!(sites, disassembled(&file), "{case}");
            let said = run(&["list", file.to_str().unwrap()]);
            let calls = format!("{} calls of the hooks of -finstrument-functions; {can}", sites.len());
            assert!(said.err.contains(&calls) && said.code == 0, "{case}: {said:?}");
        }
    }
}

#[test]
fn a_stripped_file_is_named_by_its_separate_one() {
    if !HAS_SITES {
        return;
    }
    let folder = Folder::new("hooked-stripped");
    let whole = made(&folder, compilers()[0], SOURCE, &["-O2", "-g"]).unwrap();
    let expected = rows("list", &whole);
    let tool = |name: &str, arguments: &[&str]| {
        assert!(Command::new(name).args(arguments).current_dir(&folder.0).status().unwrap().success());
    };
    tool("objcopy", &["--only-keep-debug", "program", "program.debug"]);
    tool("strip", &["-s", "program", "-o", "stripped"]);
    let stripped = folder.0.join("stripped");
    // Without names, functions are told apart by their places in the file.
    let listed = rows("list", &stripped);
    assert_eq!(listed.len(), expected.len());
    let stripped_path = stripped.canonicalize().unwrap();
    for row in &listed {
        assert!(row["probe"].as_str().unwrap().starts_with("stripped::0x"), "{row}");
        assert_eq!((row["file"].as_str(), row["line"].as_u64()), (stripped_path.to_str(), Some(0)));
    }
    tool("objcopy", &["--add-gnu-debuglink=program.debug", "stripped"]);
    assert_eq!(rows("list", &stripped), expected);
}

#[test]
fn selectors_know_them() {
    if !HAS_SITES {
        return;
    }
    let folder = Folder::new("hooked-selected");
    let file = made(&folder, compilers()[0], SOURCE, &["-O1", "-g"]).unwrap();
    let file = file.to_str().unwrap();
    let listed = run(&["list", file, "ends kind=exit, @code.c:9"]).out;
    let lines: Vec<Vec<_>> = listed.lines().map(|line| line.split_whitespace().collect()).collect();
    let names: Vec<_> = lines.iter().map(|line| (line[0], line[1])).collect();
    assert_eq!(names[1..], [("ends", "exit"), ("start", "entry"), ("start", "exit"), ("3", "probes,")]);
    assert_eq!((lines[0].last(), lines[1].last()), (Some(&"state"), Some(&"hook")));
    let error = run(&["list", file, "chosn"]).err;
    assert!(error.contains("no probe matches the selector; did you mean `chosen`?"), "{error}");
    let objects = run(&["--json", "list", "--objects", file]).out;
    assert!(objects.contains("\"probes\":12"), "{objects}");
    let audited = run(&["audit", "--quiet", file]).out;
    assert!(audited.contains(" of hooks, of 12 probes: 0 stay calls\n0 findings\n"), "{audited}");
    // A file without any says nothing of them.
    let plain = made(&folder, compilers()[0], SOURCE, &["-fno-instrument-functions"]).unwrap();
    let ran = run(&["list", plain.to_str().unwrap()]);
    assert!(ran.out.ends_with("0 probes, 0 sites\n") && !ran.err.contains("hooks"), "{ran:?}");
}
