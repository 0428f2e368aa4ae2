//! Counting calls of the hooks of `-finstrument-functions` in programs as their compilers made
//! them: static ones, with musl, with hooks of their own, while their threads run.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use probe_tests::c::is_there;
use probe_tests::c_library;
use probe_tests::instrumented::compilers;
use serde_json::Value;

use crate::injected_into::{Target, asked, done};
use crate::outside::{code_of_no_file, counting_until};
use crate::preloaded::{differing, output, with_agent};
use crate::program::{Folder, Ran, run};

/// A program whose threads call `busy` all the time, and which calls other functions as often as it
/// is told. It has a function that ends with a jump to the hook, and one that is inlined. No call
/// lies across two pages.
const SOURCE: &str = r#"
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>
#ifdef __clang__
#define PLAIN __attribute__((no_instrument_function, noinline))
#else
/* Callers know nothing of its registers, as of a hook in another file. */
#define PLAIN __attribute__((no_instrument_function, noipa))
#endif
#define OWN_PAGE __attribute__((noinline, aligned(4096)))
static volatile int ends_now;
static long entered, left, busy_calls;
static volatile long tally[5];
#ifdef OWN
/* Jumps within a section may be too short to be counted. */
#define HOOK PLAIN __attribute__((section(".text.hooks"))) void
HOOK __cyg_profile_func_enter(void *function, void *site)
{
    if (function != site) __atomic_fetch_add(&entered, 1, __ATOMIC_RELAXED);
}
HOOK __cyg_profile_func_exit(void *function, void *site)
{
    if (function != site) __atomic_fetch_add(&left, 1, __ATOMIC_RELAXED);
}
#endif
OWN_PAGE static long busy(long x) { return 3 * x + 1; }
#ifdef POINT
#include <probe.h>
#else
#define PROBE(name) ((void)0)
#endif
OWN_PAGE static long once(long x) { tally[0]++; PROBE("here"); return 3 * x; }
static inline __attribute__((always_inline)) long twice(long x) { tally[1]++; return once(x) + once(x + 1); }
OWN_PAGE static void ends(long *x) { tally[2]++; *x += 1; }
OWN_PAGE static void passes(long *x) { tally[3]++; ends(x); ends(x); }
OWN_PAGE static long works(long sum)
{
    tally[4]++;
    for (long i = 0; i < 50; i++) { sum += twice(i); if (i % 3) passes(&sum); else ends(&sum); }
    return sum;
}
PLAIN static void *thread(void *wrong)
{
    long calls = 0;
    for (; !ends_now; calls++) if (busy(calls) != 3 * calls + 1) *(int *)wrong = 1;
    __atomic_fetch_add(&busy_calls, calls, __ATOMIC_RELAXED);
    return 0;
}
PLAIN int main(void)
{
    pthread_t threads[3];
    int wrong = 0;
    for (int at = 0; at < 3; at++) pthread_create(&threads[at], 0, thread, &wrong);
    puts("ready");
    fflush(stdout);
    for (char byte; read(0, &byte, 1) == 1; fflush(stdout)) {
        for (int at = 0; at < 5; at++) tally[at] = 0;
        for (int at = 0; at < 10; at++) wrong |= works(at) == 0;
        printf("once=%ld twice=%ld ends=%ld passes=%ld works=%ld\n", tally[0], tally[1], tally[2], tally[3],
            tally[4]);
#ifdef OWN
        busy_calls += tally[0] + tally[1] + tally[2] + tally[3] + tally[4];
#endif
    }
    ends_now = 1;
    for (int at = 0; at < 3; at++) pthread_join(threads[at], 0);
#ifdef OWN
    /* Each hook has had each call. */
    wrong |= entered != busy_calls || left != busy_calls;
#endif
    puts(wrong ? "wrong" : "right");
    return 0;
}
"#;

fn made(folder: &Folder, compiler: &str, flags: &[&str]) -> PathBuf {
    let (source, program) = (folder.0.join("hooked.c"), folder.0.join("hooked"));
    fs::write(&source, SOURCE).unwrap();
    let flags = [&["-g", "-pthread", "-finstrument-functions", "-ffunction-sections"], flags].concat();
    let said = c_library::run(compiler, &flags, &[&source], &program);
    assert!(said.is_done, "{}", said.messages);
    program
}

/// Lets the program work. Returns its tally.
fn works(target: &mut Target) -> BTreeMap<String, u64> {
    let told = target.asked(b'w');
    let counts = told.trim_end().split(' ').filter_map(|it| it.split_once('='));
    counts.map(|(name, many)| (name.to_owned(), many.parse().unwrap())).collect()
}

/// Returns the hits of entries and of exits, but for those of `busy`, whose entries are not far
/// from its exits.
#[track_caller]
fn hits(document: &str) -> [BTreeMap<String, u64>; 2] {
    let document: Value = serde_json::from_str(document).unwrap();
    let (mut hits, mut point) = ([const { BTreeMap::new() }; 2], None);
    for row in document["rows"].as_array().unwrap() {
        assert!(row["file"].as_str().unwrap().ends_with("hooked.c") && row["line"] != 0, "{row}");
        if row["kind"] == "point" {
            point = row["hits"].as_u64();
            continue;
        }
        let of_kind = &mut hits[usize::from(row["kind"] == "exit")];
        of_kind.insert(row["probe"].as_str().unwrap().to_owned(), row["hits"].as_u64().unwrap());
    }
    let [entries, exits] = [0, 1].map(|at| hits[at].remove("busy").unwrap());
    assert!(entries != 0 && entries.abs_diff(exits) <= 3, "{entries} {exits}");
    assert!(point.is_none_or(|hits_of_point| hits_of_point == hits[0]["once"]), "{point:?}");
    hits
}

/// Counts what a program does between two commands; `None` if nobody may trace here, which is said.
fn is_counted(folder: &Folder, program: &Path, target: &mut Target) -> Option<()> {
    let pid = target.pid();
    for _ in 0..2 {
        done(folder, &["enable", "--ptrace", "--keep", "-p", &pid, "**"])?;
        let tally = works(target);
        assert_eq!(tally["once"], 1000);
        let counted = done(folder, &["--json", "disable", "--ptrace", "-p", &pid])?;
        assert_eq!(hits(&counted), [tally.clone(), tally], "{}", program.display());
        assert_eq!((code_of_no_file(target.id()), differing(target.id(), program)), (vec![], 0));
        works(target);
    }
    Some(())
}

#[test]
fn programs_are_counted_as_they_are() {
    let [gcc, other] = [0, 1].map(|at| compilers()[at.min(compilers().len() - 1)]);
    for (compiler, flags) in [
        (gcc, &["-O2", "-static", "-DOWN"][..]),
        (other, &["-O0", "-static-pie", "-DOWN"]),
        // A table of its own, and calls of hooks beside it.
        (gcc, &["-O1", "-static", "-DOWN", "-DPOINT"]),
        (other, &["-O2", "-static"]),
        (gcc, &["-O2", "-fno-plt", "-Wl,-z,now"]),
        (other, &["-O1", "-no-pie", "-Wl,-z,lazy"]),
        (gcc, &["-O1", "-fcf-protection", "-DOWN"]),
        ("musl-gcc", &["-O2", "-static", "-DOWN"]),
        ("musl-gcc", &["-O2", "-DOWN"]),
    ] {
        if !is_there(compiler) {
            println!("left out: there is no {compiler}");
            continue;
        }
        let folder = Folder::new("outside-hooks");
        let program = made(&folder, compiler, flags);
        let mut target = Target::start(&folder, &mut Command::new(&program));
        if is_counted(&folder, &program, &mut target).is_none() {
            return;
        }
        assert_eq!(target.end(), "right", "{compiler} {flags:?}");
    }
}

/// One function of many: the others' text is left alone.
#[test]
fn a_selector_chooses_calls() {
    let folder = Folder::new("outside-hooks-one");
    let program = made(&folder, compilers()[0], &["-O2", "-static", "-DOWN"]);
    let mut target = Target::start(&folder, &mut Command::new(&program));
    let pid = target.pid();
    if done(&folder, &["enable", "--ptrace", "--keep", "-p", &pid, "passes kind=exit"]).is_none() {
        return;
    }
    // The distance of one jump.
    assert!((1..=4).contains(&differing(target.id(), &program)));
    let tally = works(&mut target);
    let counted = done(&folder, &["--json", "disable", "--ptrace", "-p", &pid]).unwrap();
    let counted: Value = serde_json::from_str(&counted).unwrap();
    let rows = counted["rows"].as_array().unwrap();
    assert_eq!((rows.len(), &rows[0]["probe"], &rows[0]["kind"]), (1, &"passes".into(), &"exit".into()));
    assert_eq!((rows[0]["hits"].as_u64(), rows[0]["sites"].as_u64()), (Some(tally["passes"]), Some(1)));
    assert_eq!(differing(target.id(), &program), 0);
    assert_eq!(target.end(), "right");
}

/// A function whose first call lies across two pages, as few of a compiler's do.
const ACROSS: &str = r#"
#include <stdio.h>
#define PLAIN __attribute__((no_instrument_function))
PLAIN void __cyg_profile_func_enter(void *function, void *site) { (void)function; (void)site; }
PLAIN void __cyg_profile_func_exit(void *function, void *site) { (void)function; (void)site; }
void across(void);
__asm__(".text\n.balign 4096\n.skip 4096 - 15\n.globl across\n.type across, @function\n"
        "across: push %rbx\nlea across(%rip), %rdi\nmov 8(%rsp), %rsi\n"
        "call __cyg_profile_func_enter\nlea across(%rip), %rdi\nmov 8(%rsp), %rsi\n"
        "call __cyg_profile_func_exit\npop %rbx\nret\n.size across, . - across\n");
PLAIN int main(void)
{
    puts("ready");
    fflush(stdout);
    while (getchar() != EOF) { for (int at = 0; at < 100; at++) across(); puts("done"); fflush(stdout); }
    puts("right");
    return 0;
}
"#;

#[test]
fn a_call_across_two_pages_is_named() {
    let folder = Folder::new("outside-hooks-across");
    let (source, program) = (folder.0.join("across.c"), folder.0.join("across"));
    fs::write(&source, ACROSS).unwrap();
    let said = c_library::run(compilers()[0], &["-O1", "-static"], &[&source], &program);
    assert!(said.is_done, "{}", said.messages);
    let mut target = Target::start(&folder, &mut Command::new(&program));
    let ran = asked(&folder, &["enable", "--ptrace", "--keep", "-p", &target.pid(), "**"]);
    if ran.err.contains("can't be traced") {
        return println!("left out: {}", ran.err);
    }
    let told = "not counted: 1 site across two pages, which can't be written at once (across entry)";
    assert!(ran.err.contains(told), "{ran:?}");
    assert_eq!(target.asked(b'w'), "done");
    let counted = done(&folder, &["--json", "disable", "--ptrace", "-p", &target.pid()]).unwrap();
    let counted: Value = serde_json::from_str(&counted).unwrap();
    let rows = counted["rows"].as_array().unwrap();
    assert_eq!((rows.len(), &rows[0]["kind"], &rows[0]["hits"]), (1, &"exit".into(), &100.into()));
    assert_eq!(target.end(), "right");
}

/// A command that is killed leaves calls that count and reach their hooks. A later one restores
/// them, also if the file has gone meanwhile.
#[test]
fn a_killed_command_leaves_calls_that_work() {
    let folder = Folder::new("outside-hooks-killed");
    let program = made(&folder, compilers()[0], &["-O2", "-static", "-DOWN"]);
    let mut target = Target::start(&folder, &mut Command::new(&program));
    let pid = target.pid();
    for _ in 0..3 {
        let active = || differing(target.id(), &program) != 0;
        let count = ["count", "--ptrace", "-p", &pid, "**"];
        let Some(mut counting) = counting_until(&folder, &count, active) else { return };
        counting.kill().unwrap();
        counting.wait().unwrap();
        works(&mut target);
        assert!(done(&folder, &["disable", "--ptrace", "-p", &pid]).is_some());
        assert_eq!((code_of_no_file(target.id()), differing(target.id(), &program)), (vec![], 0));
    }
    assert!(done(&folder, &["enable", "--ptrace", "--keep", "-p", &pid, "**"]).is_some());
    let copy = folder.0.join("copy");
    fs::copy(&program, &copy).unwrap();
    fs::remove_file(&program).unwrap();
    let ran = asked(&folder, &["disable", "--ptrace", "-p", &pid]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert_eq!(code_of_no_file(target.id()), vec![]);
    works(&mut target);
    assert_eq!(target.end(), "right");
}

#[test]
fn a_stripped_program_says_what_to_do() {
    let folder = Folder::new("outside-hooks-stripped");
    // Its hooks are the C library's, whose names it keeps.
    let program = made(&folder, compilers()[0], &["-O2"]);
    assert!(Command::new("strip").arg(&program).status().unwrap().success());
    let mut target = Target::start(&folder, &mut Command::new(&program));
    let ran = asked(&folder, &["count", "--ptrace", "-p", &target.pid(), "**", "--for", "1ms"]);
    let why = "has no symbols, which tell its functions: coldpatch it before `strip`";
    assert!(ran.err.contains(why) && ran.code == Some(4) || ran.err.contains("can't be traced"), "{ran:?}");
    assert_eq!(differing(target.id(), &program), 0);
    assert_eq!(target.end(), "right");
}

/// No agent can be loaded into a program with musl. Each command that would says so, and what
/// else there is.
#[test]
fn programs_with_musl_say_what_to_do() {
    if !is_there("musl-gcc") {
        return println!("left out: there is no musl-gcc");
    }
    let counts = "`probectl count --ptrace` counts them";
    for (flags, listed, ran, attached) in [
        (
            &["-O2", "-DOWN"][..],
            "it has hooks of its own",
            " is loaded by /lib/ld-musl",
            "it has hooks of its own",
        ),
        (
            &["-O2", "-DOWN", "-static"],
            "it is linked statically",
            " is static, so",
            "it is linked statically",
        ),
    ] {
        let folder = Folder::new("outside-hooks-musl");
        let program = made(&folder, "musl-gcc", flags);
        let name = program.to_str().unwrap();
        for command in ["list", "audit"] {
            let said = run(&folder, &[command, name]);
            assert_eq!(said.code, Some(0), "{said:?}");
            assert!(said.err.contains(listed) && said.err.contains(counts), "{said:?}");
            let rows = said.out.lines().filter(|it| it.contains(" entry ") || it.contains(" exit "));
            assert!(rows.count() >= 12, "{said:?}");
        }
        let mut command = with_agent(&folder, &["run", "--", name]);
        let said = Ran::from(output(command.env("PROBES", "**=count").stdin(Stdio::null())));
        assert_eq!((said.code, said.out.as_str()), (Some(0), "ready\nright\n"), "{said:?}");
        assert!(said.err.contains(ran), "{said:?}");
        let mut target = Target::start(&folder, &mut Command::new(&program));
        let said = asked(&folder, &["attach", "-p", &target.pid()]);
        let is_told = said.err.contains(attached) && said.err.contains("--ptrace");
        assert!(is_told && said.code == Some(3) || said.err.contains("can't be traced"), "{said:?}");
        assert_eq!(target.end(), "right");
    }
}
