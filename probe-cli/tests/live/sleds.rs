//! Programs that are built with `-fpatchable-function-entry` or for XRay: their calls are counted
//! from the first one on, and in a program that runs, as their own tally says.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use probe_cli::output::Exit;
use probe_tests::c::is_there;
use probe_tests::c_library;
use probe_tests::whole;
use serde_json::Value;

use crate::injected_into::{Target, asked, done};
use crate::preloaded::{differing, output, with_agent};
use crate::program::{Folder, Ran, run};

/// Four threads call `spin` all the time, and each line of the input has `work` called a hundred
/// times. It tells its own tally at the end.
pub const SOURCE: &str = r#"
#include <pthread.h>
#include <stdio.h>
#define TALLY(name) __atomic_fetch_add(&name##s, 1, __ATOMIC_RELAXED)
static volatile int ends;
static long mains, begins, spins, works, halves, wrong;
__attribute__((constructor, noinline)) static void begin(void) { TALLY(begin); }
__attribute__((noinline)) static double half(double x) { TALLY(halve); return x / 2; }
__attribute__((noinline)) long work(long x) { TALLY(work); return x & 1 ? (long)half(x) + 1 : x; }
__attribute__((noinline)) long spin(long x) { TALLY(spin); return 3 * x + 1; }
__attribute__((noinline)) static void *turn(void *unused)
{
    for (long x = 0; !ends; x++) if (spin(x) != 3 * x + 1) wrong++;
    return unused;
}
int main(void)
{
    char line[99];
    pthread_t threads[4];
    TALLY(main);
    for (int at = 0; at < 4; at++) pthread_create(&threads[at], 0, turn, 0);
    puts("ready");
    fflush(stdout);
    while (fgets(line, sizeof line, stdin)) {
        long sum = 0;
        for (long x = 0; x < 100; x++) sum += work(x);
        printf("%ld\n", sum);
        fflush(stdout);
    }
    ends = 1;
    for (int at = 0; at < 4; at++) pthread_join(threads[at], 0);
    printf("main %ld\nbegin %ld\nspin %ld\nwork %ld\nhalf %ld\nturn 4\n", mains, begins, spins, works, halves);
    return wrong != 0;
}
"#;

/// The sum that each line of input gives: of even numbers, and of halves of odd ones.
pub const SUM: &str = "3725";

pub const PATCHABLE: &str = "-fpatchable-function-entry=5";
pub const XRAY: [&str; 3] = ["-fxray-instrument", "-fxray-instruction-threshold=1", "-fnoxray-link-deps"];

/// Compilers and flags: a slice has the first three.
fn builds() -> Vec<(&'static str, Vec<&'static str>)> {
    let xray = |more: &[&'static str]| ("clang", [&XRAY, more].concat());
    let mut all = vec![
        ("gcc", vec!["-O2", PATCHABLE]),
        xray(&["-O2"]),
        ("gcc", vec!["-O1", "-no-pie", "-fno-pie", "-fcf-protection", PATCHABLE]),
    ];
    if whole::is_asked_for() {
        for level in ["-O0", "-O1", "-O2", "-O3", "-Os"] {
            all.extend([("gcc", vec![level, PATCHABLE]), ("clang", vec![level, PATCHABLE]), xray(&[level])]);
            all.push(xray(&[level, "-no-pie", "-fno-pie"]));
        }
        for linker in ["bfd", "gold", "lld", "mold"] {
            let linker: &'static str = format!("-fuse-ld={linker}").leak();
            all.push(("gcc", vec!["-O2", PATCHABLE, linker]));
            all.extend([("clang", vec!["-O2", PATCHABLE, linker]), xray(&["-O2", linker])]);
            all.push(("gcc", vec!["-O2", "-no-pie", "-fno-pie", PATCHABLE, linker]));
        }
        for entries in ["=8", "=16,4", "=7,2"] {
            let entries: &'static str = format!("-fpatchable-function-entry{entries}").leak();
            all.extend([("gcc", vec!["-O2", entries]), ("clang", vec!["-O2", entries])]);
        }
        all.extend([("gcc", vec!["-O2", "-s", PATCHABLE]), xray(&["-O2", "-s"])]);
        // With XRay's own runtime in the program.
        all.push(("clang++", vec!["-xc", "-O2", XRAY[0], XRAY[1]]));
    }
    all.into_iter().filter(|(compiler, _)| is_there(compiler)).collect()
}

pub fn compiled(folder: &Folder, compiler: &str, flags: &[&str]) -> PathBuf {
    let source = folder.0.join("program.c");
    fs::write(&source, SOURCE).unwrap();
    let out = folder.0.join("program");
    let _ = fs::remove_file(&out);
    let said = c_library::run(compiler, &[flags, &["-g", "-pthread"]].concat(), &[&source], &out);
    assert!(said.is_done, "{}", said.messages);
    out
}

pub fn tally(lines: &str) -> BTreeMap<String, u64> {
    let words = lines.lines().filter_map(|line| line.split_once(' '));
    words.map(|(name, calls)| (name.to_owned(), calls.parse().unwrap())).collect()
}

/// Returns the hits of each function's entry and exit.
pub fn hits(rows: &Value) -> [BTreeMap<String, u64>; 2] {
    let [mut entries, mut exits] = [const { BTreeMap::new() }; 2];
    for row in rows.as_array().unwrap() {
        let of_kind = if row["kind"] == "exit" { &mut exits } else { &mut entries };
        *of_kind.entry(row["probe"].as_str().unwrap().to_owned()).or_insert(0) +=
            row["hits"].as_u64().unwrap();
    }
    [entries, exits]
}

#[test]
fn sleds_of_a_static_program_are_named() {
    let folder = Folder::new("sleds-static");
    let program = compiled(&folder, "gcc", &["-O2", "-static", PATCHABLE]);
    let mut target = Target::start(&folder, &mut Command::new(program));
    let ran = asked(&folder, &["count", "--ptrace", "-p", &target.pid(), "work", "--for", "1ms"]);
    let told = "program: 6 sleds of patchable functions or XRay can't be counted from outside";
    let is_told = ran.err.contains(told) && ran.code == Some(4);
    assert!(is_told || ran.err.contains("can't be traced"), "{ran:?}");
    target.end();
}

#[test]
fn calls_are_counted_from_the_first_one_on() {
    let folder = Folder::new("sleds");
    let report = folder.0.join("report.json");
    for (compiler, flags) in builds() {
        let program = compiled(&folder, compiler, &flags);
        let mut command = with_agent(&folder, &["run", "--"]);
        command.arg(&program).env("PROBES", "**=count").env("PROBES_OUT", &report);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut input = child.stdin.take().unwrap();
        input.write_all(b"\n\n\n").unwrap();
        drop(input);
        let ran = child.wait_with_output().unwrap();
        let said = String::from_utf8(ran.stdout).unwrap();
        assert!(ran.status.success() && said.starts_with(&format!("ready\n{SUM}\n")), "{flags:?}: {said}");
        let tally = tally(&said);
        assert_eq!((tally["work"], tally["half"]), (300, 150));
        let report: Value = serde_json::from_slice(&fs::read(&report).unwrap()).unwrap();
        let [mut entries, mut exits] = hits(&report["rows"]);
        if flags.contains(&"-s") {
            let counts = |it: &BTreeMap<String, u64>| {
                let mut counts: Vec<_> = it.values().copied().collect();
                counts.sort_unstable();
                counts
            };
            assert_eq!(counts(&entries), counts(&tally), "{compiler} {flags:?}");
            continue;
        }
        let of_tally = |it: &mut BTreeMap<String, u64>| it.retain(|name, _| tally.contains_key(name));
        of_tally(&mut entries);
        of_tally(&mut exits);
        assert_eq!(entries, tally, "{compiler} {flags:?}");
        assert!(exits.is_empty() || exits == tally, "{compiler} {flags:?}: {exits:?}");
        assert_eq!(exits.is_empty(), !flags.contains(&XRAY[0]));
    }
}

#[test]
fn an_agent_arms_them_in_a_program_that_runs() {
    let folder = Folder::new("sleds-injected");
    for (compiler, flags) in builds().into_iter().take(2) {
        let program = compiled(&folder, compiler, &flags);
        let mut command = Command::new(&program);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut input = child.stdin.take().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
        assert_eq!(lines.next().as_deref(), Some("ready"));
        let mut work = || {
            input.write_all(b"\n").unwrap();
            assert_eq!(lines.next().as_deref(), Some(SUM));
        };
        work();
        let pid = child.id().to_string();
        if done(&folder, &["attach", "-p", &pid]).is_none() {
            child.kill().unwrap();
            child.wait().unwrap();
            return;
        }
        for round in 1..=5 {
            assert!(done(&folder, &["enable", "-p", &pid, "--keep", "work, half=count"]).is_some());
            assert!(done(&folder, &["enable", "-p", &pid, "--keep", "spin, turn=count"]).is_some());
            (0..round).for_each(|_| work());
            let told = done(&folder, &["disable", "-p", &pid, "--json"]).unwrap();
            let rows: Vec<Value> = told
                .lines()
                .filter_map(|line| {
                    let line = line.trim_end_matches(',');
                    serde_json::from_str(line).ok().filter(|row: &Value| row.get("hits").is_some())
                })
                .collect();
            let [entries, exits] = hits(&Value::from(rows));
            assert_eq!((entries["work"], entries["half"]), (100 * round, 50 * round), "{told}");
            assert!(entries["spin"] > 0);
            assert_eq!(exits.get("work").copied(), (compiler == "clang").then_some(100 * round));
        }
        assert!(done(&folder, &["detach", "-p", &pid]).is_some());
        if compiler == "gcc" {
            assert_eq!(differing(child.id(), &program), 0);
        }
        drop(input);
        let rest: Vec<_> = lines.collect();
        assert!(child.wait().unwrap().success());
        assert_eq!(tally(&rest.join("\n"))["work"], 1600);
    }
}

/// Several threads may be between the NOPs, and no call from there leads anywhere.
#[test]
fn what_can_not_be_armed_is_named() {
    let folder = Folder::new("sleds-named");
    if !is_there("gcc") {
        return;
    }
    let program = compiled(&folder, "gcc", &["-O2", "-no-pie", "-fno-pie", PATCHABLE]);
    let mut command = Command::new(&program);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert_eq!(lines.next().as_deref(), Some("ready"));
    let pid = child.id().to_string();
    if done(&folder, &["attach", "-p", &pid]).is_some() {
        let ran = asked(&folder, &["count", "-p", &pid, "spin", "--for", "10ms"]);
        assert!(ran.code != Some(0) && ran.err.contains("start the program with probectl run"), "{ran:?}");
        assert_eq!(differing(child.id(), &program), 0);
    }
    drop(child.stdin.take());
    assert!(child.wait().unwrap().success());
}

#[test]
fn files_are_listed_without_being_run() {
    let folder = Folder::new("sleds-listed");
    for (compiler, flags) in builds() {
        if flags.contains(&"-s") {
            continue;
        }
        let program = compiled(&folder, compiler, &flags);
        let ran = run(&folder, &["list", program.to_str().unwrap(), "work, half"]);
        let place = format!("{}/program.c:", folder.0.display());
        assert_eq!(ran.code, Some(0), "{ran:?}");
        let found = ran.out.lines().filter(|line| line.contains(&place) && line.contains("sled")).count();
        assert_eq!(found, if flags.contains(&XRAY[0]) { 4 } else { 2 }, "{ran:?}");
        assert!(ran.err.contains("`probectl run` or `attach` makes them probes"), "{ran:?}");
    }
    let program = compiled(&folder, "gcc", &["-O2", "-static", "-fpatchable-function-entry=3"]);
    let ran = run(&folder, &["audit", program.to_str().unwrap()]);
    assert_eq!(ran.code, Some(Exit::NoMatch as i32), "{ran:?}");
    assert!(ran.err.contains("`work` can't be used: 3 bytes of NOPs"), "{ran:?}");
    assert!(ran.err.contains("linked statically"), "{ran:?}");
}

/// rustc's own flag, which LLVM carries out. It is not stable.
#[test]
fn functions_of_rust_have_their_names() {
    let folder = Folder::new("sleds-rust");
    let source = folder.0.join("program.rs");
    fs::write(
        &source,
        "#[inline(never)] fn three(x: u64) -> u64 { std::hint::black_box(x) * 3 }\n\
         fn main() { println!(\"{}\", (0..9).map(three).sum::<u64>()); }\n",
    )
    .unwrap();
    let program = folder.0.join("program");
    let mut rustc = Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()));
    rustc.env("RUSTC_BOOTSTRAP", "1").args(["-O", "-g", "-Zpatchable-function-entry=5", "-o"]);
    let built = rustc.arg(&program).arg(&source).output().unwrap();
    if !built.status.success() {
        println!("skipped: {}", String::from_utf8_lossy(&built.stderr));
        return;
    }
    let mut command = with_agent(&folder, &["run", "--"]);
    let ran = Ran::from(output(command.arg(&program).env("PROBES", "program::three=count")));
    assert_eq!((ran.code, ran.out.as_str()), (Some(0), "108\n"), "{ran:?}");
    let row: Vec<_> = ran.err.lines().nth(1).unwrap().split_whitespace().collect();
    assert_eq!(row, ["program::three", "entry", "1", "9"], "{ran:?}");
}
