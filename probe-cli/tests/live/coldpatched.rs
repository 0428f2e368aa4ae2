//! Cold-patched programs: what an agent and `--ptrace` count is what the program's own tally says,
//! also after `strip`.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use probe_tests::c::is_there;
use probe_tests::c_library;
use probe_tests::instrumented::{build, compilers, source};
use serde_json::Value;

use crate::hooks::{made, ran, rows};
use crate::injected_into::done;
use crate::program::{Folder, out};

pub fn coldpatch(folder: &Folder, file: &Path, to: &Path, more: &[&str]) -> String {
    let [file, to] = [file, to].map(|it| it.to_str().unwrap());
    out(folder, &[&["coldpatch", file, "-o", to], more].concat())
}

pub fn strip(file: &Path) {
    assert!(Command::new("strip").arg(file).status().unwrap().success());
}

#[test]
fn an_agent_counts_each_call() {
    for compiler in compilers() {
        for (flags, of_program) in [
            (&["-O2"][..], &[][..]),
            (&["-O0"], &["-Wl,-z,lazy"]),
            (&["-O2", "-fno-plt", "-fcf-protection"], &["-Wl,-z,now"]),
            (&["-O1"], &["-no-pie", "-fno-pie"]),
        ] {
            let folder = Folder::new("coldpatched");
            let (program, _) = made(&folder, compiler, flags, of_program);
            let (patched, report) = (folder.0.join("patched"), folder.0.join("report.json"));
            let said = coldpatch(&folder, &program, &patched, &[]);
            assert!(!said.contains("stay"), "{compiler} {flags:?}: {said}");
            let library = folder.0.join("libshared.so");
            assert!(!coldpatch(&folder, &library, &library, &["--force"]).contains("stay"));
            // Without the plugin, which is not loaded.
            let tally = |spec| {
                let mut tally = ran(&folder, &patched, &[], spec, &report);
                tally.retain(|name, _| name != "plugged" && name != "inner");
                tally
            };
            for is_stripped in [false, true] {
                if is_stripped {
                    for file in [&patched, &library] {
                        strip(file);
                    }
                }
                let tally = tally("**=count");
                assert_eq!((tally["serve"], tally["shared"]), (300, 200));
                assert_eq!(rows(&report, "probe", "hits"), tally, "{compiler} {flags:?} {of_program:?}");
            }
            let tally = tally("**=latency");
            assert_eq!(rows(&report, "function", "calls"), tally, "{compiler} {flags:?} {of_program:?}");
        }
    }
}

/// A function whose arguments the program tells.
const TOLD: &str = r#"
#include <stdio.h>
__attribute__((noinline)) long weigh(const char *kind, int by) { long sum = 0; for (int i = 0; i < by; i++) sum += kind[0]; return sum + by; }
int main(void)
{
    long odd = 0, even = 0, sum = 0;
    for (int i = 1; i <= 10; i++) { sum += weigh(i % 2 ? "odd" : "even", i); *(i % 2 ? &odd : &even) += i; }
    printf("odd %ld\neven %ld\n", odd, even);
    return sum == 0;
}
"#;

/// Calls of hooks and cold-patched ones have arguments, also of a stripped file whose debug
/// information lies beside it.
#[test]
fn arguments_are_those_of_the_calls() {
    for compiler in compilers() {
        // clang fills its parameters' memory after the call of the hook.
        let level = if compiler == "gcc" { "-O0" } else { "-O1" };
        let folder = Folder::new("coldpatched-values");
        let program = folder.0.join("told");
        build(compiler, &source(&folder.0, "told.c", TOLD), &program, &[level]);
        let [patched, report] = ["patched", "report.json"].map(|name| folder.0.join(name));
        coldpatch(&folder, &program, &patched, &[]);
        for file in [&program, &patched] {
            for is_stripped in [false, true] {
                if is_stripped {
                    let debug = file.with_extension("debug");
                    let objcopy = |args: &[&str], files: &[&Path]| {
                        assert!(Command::new("objcopy").args(args).args(files).status().unwrap().success());
                    };
                    objcopy(&["--only-keep-debug"], &[file, &debug]);
                    strip(file);
                    objcopy(&[&format!("--add-gnu-debuglink={}", debug.display())], &[file]);
                }
                let tally = ran(&folder, file, &[], "weigh[by < 11]=sum(by) by(kind)", &report);
                assert_eq!(
                    tally,
                    [("odd", 25), ("even", 30)].map(|(kind, sum)| (kind.to_owned(), sum)).into()
                );
                let report: Value = serde_json::from_slice(&fs::read(&report).unwrap()).unwrap();
                let row =
                    |row: &Value| (row["keys"][0].as_str().unwrap().to_owned(), row["sum"].as_u64().unwrap());
                let sums = report["rows"].as_array().unwrap().iter().map(row).collect();
                assert_eq!(tally, sums, "{compiler} {} {is_stripped}: {report}", file.display());
            }
        }
    }
}

/// Functions without a probe call one that has.
const CALLED: &str = r#"
#include <stdio.h>
#ifdef __clang__
#define PLAIN __attribute__((no_instrument_function, noinline))
#else
#define PLAIN __attribute__((no_instrument_function, noipa))
#endif
static volatile long sum;
__attribute__((noinline)) long once(long x) { sum += x; return 3 * x; }
PLAIN void first(long x) { sum += once(x); }
PLAIN void second(long x) { sum += once(x); }
PLAIN void third(long x) { second(x); sum++; }
PLAIN int main(void)
{
    for (int i = 0; i < 3; i++) first(i);
    for (int i = 0; i < 5; i++) third(i);
    printf("first 3\nsecond 5\n");
    return sum == 0;
}
"#;

#[test]
fn callers_are_those_of_the_calls() {
    for compiler in compilers() {
        for level in ["-O0", "-O2"] {
            let folder = Folder::new("coldpatched-callers");
            let [program, patched, report] =
                ["called", "patched", "report.json"].map(|name| folder.0.join(name));
            build(compiler, &source(&folder.0, "called.c", CALLED), &program, &[level]);
            coldpatch(&folder, &program, &patched, &[]);
            let keys = |spec: &str| -> BTreeMap<String, u64> {
                assert_eq!(ran(&folder, &patched, &[], spec, &report)["first"], 3);
                let report: Value = serde_json::from_slice(&fs::read(&report).unwrap()).unwrap();
                let row = |row: &Value| {
                    let key = row["keys"][0].as_str().unwrap();
                    (key.rsplit("main;").next().unwrap().to_owned(), row["count"].as_u64().unwrap())
                };
                report["rows"].as_array().unwrap().iter().map(row).collect()
            };
            let expected = |keys: [&str; 2]| keys.map(str::to_owned).into_iter().zip([3, 5]).collect();
            let callers: BTreeMap<_, _> = expected(["first", "second"]);
            assert_eq!(keys("once=count by(caller)"), callers, "{compiler} {level}");
            assert_eq!(keys("once kind=exit=count by(caller)"), callers, "{compiler} {level}");
            let stacks: BTreeMap<_, _> = expected(["first", "third;second"]);
            assert_eq!(keys("once=count by(stack)"), stacks, "{compiler} {level}");
        }
    }
}

/// A program with hooks of its own, which works as soon as it is told to, and prints its tally.
const ALONE: &str = r#"
#include <stdio.h>
#ifdef __clang__
#define PLAIN __attribute__((no_instrument_function, noinline))
#else
#define PLAIN __attribute__((no_instrument_function, noipa))
#endif
static volatile long hooked, tally[4];
/* Jumps within a section may be too short for a site. */
#define HOOK PLAIN __attribute__((section(".text.hooks"))) void
HOOK __cyg_profile_func_enter(void *function, void *site) { hooked += function != site; }
HOOK __cyg_profile_func_exit(void *function, void *site) { hooked += 2 * (function != site); }
__attribute__((noinline)) long once(long x) { tally[0]++; return 3 * x; }
static inline long twice(long x) { tally[1]++; return once(x) + once(x + 1); }
__attribute__((noinline)) void ends(long *x) { tally[2]++; *x += 1; }
__attribute__((noinline)) void passes(long *x) { tally[3]++; ends(x); ends(x); }
PLAIN int main(void)
{
    char line[8];
    long sum = 0;
    puts("ready");
    fflush(stdout);
    if (!fgets(line, sizeof line, stdin)) return 1;
    for (long i = 0; i < 500; i++) { sum += twice(i); if (i % 3) passes(&sum); else ends(&sum); }
    printf("%ld once=%ld twice=%ld ends=%ld passes=%ld\n", hooked, tally[0], tally[1], tally[2], tally[3]);
    fflush(stdout);
    return fgets(line, sizeof line, stdin) != 0 && sum == 0;
}
"#;

/// A program that runs, and its output.
struct Alone(Child, BufReader<std::process::ChildStdout>);

impl Alone {
    fn start(program: &Path) -> Self {
        let mut child = Command::new(program).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let mut alone = Self(child, output);
        assert_eq!(alone.line(), "ready\n");
        alone
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.1.read_line(&mut line).unwrap();
        line
    }

    /// Lets it work. Returns the hits of its hooks, and its tally.
    fn works(&mut self) -> (u64, BTreeMap<String, u64>) {
        self.0.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
        let line = self.line();
        let (hooked, tally) = line.trim_end().split_once(' ').unwrap();
        let counts = tally.split(' ').filter_map(|it| it.split_once('='));
        (
            hooked.parse().unwrap(),
            counts.map(|(name, many)| (name.to_owned(), many.parse().unwrap())).collect(),
        )
    }
}

impl Drop for Alone {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Counts all probes from outside while a program works; `None` if nobody may trace here. Returns
/// the program's tally, which entries and exits have, and the hits of its own hooks: an entry is
/// one, an exit two.
fn counted(folder: &Folder, program: &Path, list: &[&str]) -> Option<(BTreeMap<String, u64>, u64)> {
    let mut alone = Alone::start(program);
    let pid = alone.0.id().to_string();
    let with = [&["--ptrace", "-p", &pid], list].concat();
    done(folder, &[&["enable", "--keep", "**"], &with[..]].concat())?;
    let (hooked, tally) = alone.works();
    let counted: Value =
        serde_json::from_str(&done(folder, &[&["--json", "disable"], &with[..]].concat())?).unwrap();
    let mut hits = [const { BTreeMap::new() }; 2];
    for row in counted["rows"].as_array().unwrap() {
        let of_kind = &mut hits[usize::from(row["kind"] == "exit")];
        of_kind.insert(row["probe"].as_str().unwrap().to_owned(), row["hits"].as_u64().unwrap());
    }
    assert_eq!(hits, [tally.clone(), tally.clone()], "{}", program.display());
    Some((tally, hooked))
}

fn alone(folder: &Folder, compiler: &str, flags: &[&str]) -> PathBuf {
    let source = folder.0.join("alone.c");
    fs::write(&source, ALONE).unwrap();
    let program = folder.0.join("alone");
    let flags = [&["-g", "-finstrument-functions", "-Wl,--build-id"], flags].concat();
    let said = c_library::run(compiler, &flags, &[&source], &program);
    assert!(said.is_done, "{}", said.messages);
    program
}

#[test]
fn a_program_with_own_hooks_is_counted_from_outside() {
    let musl = is_there("musl-gcc").then_some("musl-gcc");
    for compiler in compilers().into_iter().chain(musl) {
        for flags in
            [&["-O2", "-static"][..], &["-O0", "-static", "-no-pie"], &["-O2", "-static-pie"], &["-O1"]]
        {
            // Debian's specs of musl make no such program.
            if musl == Some(compiler) && flags.contains(&"-static-pie") {
                continue;
            }
            let folder = Folder::new("coldpatched-alone");
            let program = alone(&folder, compiler, flags);
            let patched = folder.0.join("patched");
            let said = coldpatch(&folder, &program, &patched, &[]);
            assert!(said.ends_with("its own hooks no longer get the calls that are sites\n"), "{said}");
            strip(&patched);
            let Some((_, hooked)) = counted(&folder, &patched, &[]) else { return };
            assert_eq!(hooked, 0, "{compiler} {flags:?}");
            // The same from outside alone. Its hooks have all calls then.
            let Some((tally, hooked)) = counted(&folder, &program, &[]) else { return };
            assert_eq!(hooked, 3 * tally.values().sum::<u64>(), "{compiler} {flags:?}");
        }
    }
}

#[test]
fn a_list_takes_the_place_of_names_and_tables() {
    let folder = Folder::new("coldpatched-list");
    let program = alone(&folder, compilers()[0], &["-O2", "-static"]);
    let (patched, list) = (folder.0.join("patched"), folder.0.join("list.json"));
    let list = list.to_str().unwrap();
    let said = coldpatch(&folder, &program, &patched, &["--list", list]);
    assert!(said.contains("a jump, whose site would need code of its own, so that only"), "{said}");
    assert_eq!(fs::metadata(&program).unwrap().len(), fs::metadata(&patched).unwrap().len());
    strip(&patched);
    let listed = out(&folder, &["list", patched.to_str().unwrap(), "--list", list]);
    assert!(listed.contains("twice") && listed.contains("alone.c:"), "{listed}");
    let has_sites = |row: &str| row.split_whitespace().nth(2) != Some("0");
    assert!(listed.lines().all(has_sites), "{listed}");
    let Some((tally, hooked)) = counted(&folder, &patched, &["--list", list]) else { return };
    // The jumps stay in the program, and lead to its hook.
    let json: Value = serde_json::from_slice(&fs::read(list).unwrap()).unwrap();
    let probes = json["probes"].as_array().unwrap().iter();
    let jumping: Vec<_> =
        probes.filter(|it| it.get("jumps").is_some()).map(|it| it["path"].as_str().unwrap()).collect();
    assert_eq!(jumping, ["ends", "passes"]);
    assert_eq!(hooked, 2 * (tally["ends"] + tally["passes"]));

    // Without the list, the hits are those of nobody.
    let mut running = Alone::start(&patched);
    let pid = running.0.id().to_string();
    done(&folder, &["enable", "--keep", "**", "--ptrace", "-p", &pid, "--list", list]).unwrap();
    let (_, tally) = running.works();
    let disabled = crate::injected_into::asked(&folder, &["disable", "--ptrace", "-p", &pid]);
    let hits = 2 * tally.values().sum::<u64>();
    let told =
        format!("with {hits} hits of no probe that is known here; `--list FILE` names those of a list");
    assert!(disabled.code == Some(0) && disabled.err.contains(&told), "{disabled:?} {told}");

    let other = alone(&folder, compilers()[0], &["-O1", "-static"]);
    let alone = Alone::start(&other);
    let pid = alone.0.id().to_string();
    let ran = crate::injected_into::asked(&folder, &["count", "--ptrace", "-p", &pid, "**", "--list", list]);
    assert!(ran.code == Some(3) && ran.err.contains("has the build id of"), "{ran:?}");
}
