//! Programs that are built with `-finstrument-functions` somewhere else: each consumer sees what
//! they do from their first call on, as their own tally says, and they continue under their filters
//! of system calls.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use probe_cli::output::Exit;
use probe_tests::c_library;
use probe_tests::instrumented::{compilers, without_sections};
use serde_json::Value;

use crate::preloaded::{output, with_agent};
use crate::program::{Folder, Ran, run};

/// A program that counts its own calls, and prints the counts. It has a constructor, a table of
/// jumps, a function that ends in the exit hook alone, and one that is never called. It calls a
/// library, and a plugin as soon as that is loaded.
const MAIN: &str = r#"
#include <dlfcn.h>
#include <stdio.h>
#define NOTED(name) tally[name]++
enum { EARLY, ONCE, ENDS, SERVE, MAIN, SHARED, PLUGGED, INNER, NEVER, ALL };
static const char *names[ALL] = { "early", "once", "ends", "serve", "main", "shared", "plugged", "inner", "never" };
long tally[ALL];
long shared(long x);
__attribute__((constructor, noinline)) static void early(void) { NOTED(EARLY); }
__attribute__((noinline)) long once(long x) { NOTED(ONCE); return x * 3; }
__attribute__((noinline)) static void ends(long *x) { NOTED(ENDS); *x += 2; }
__attribute__((noinline)) long serve(long x)
{
    NOTED(SERVE);
    switch (x % 6) {
    case 0: return once(x);
    case 1: ends(&x); break;
    case 2: x = once(x) + once(2); break;
    case 3: x ^= 3; ends(&x); return x;
    case 4: return shared(x);
    default: x = 1; break;
    }
    return x + shared(2);
}
long never(long x) { NOTED(NEVER); return x; }
__attribute__((no_instrument_function)) static void told(long sum)
{
    printf("%ld\n", sum);
    for (int i = 0; i < ALL; i++) printf("%s %ld\n", names[i], tally[i]);
}
int main(int argc, char **argv)
{
    long sum = 0;
    NOTED(MAIN);
    for (long i = 0; i < 300; i++) sum += serve(i);
    if (argc > 1) {
        void *plugin = dlopen(argv[1], RTLD_NOW);
        long (*plugged)(long, long *) = plugin ? (long (*)(long, long *))dlsym(plugin, "plugged") : 0;
        if (!plugged) return 9;
        for (long i = 0; i < 20; i++) sum += plugged(i, &tally[PLUGGED]);
    }
    told(sum);
    return 0;
}
"#;

const SHARED: &str = "extern long tally[]; long shared(long x) { tally[5]++; return x + 1; }";

const PLUGIN: &str = "\
__attribute__((noinline)) static long inner(long x, long *tally) { tally[1]++; return x; }
long plugged(long x, long *tally) { tally[0]++; return inner(x, tally) + x; }
";

/// Makes the program, its library and its plugin in a folder.
pub fn made(folder: &Folder, compiler: &str, flags: &[&str], of_program: &[&str]) -> (PathBuf, PathBuf) {
    let compile = |name: &str, text: &str, flags: &[&str], others: &[&Path]| {
        let source = folder.0.join(name).with_extension("c");
        fs::write(&source, text).unwrap();
        let out = folder.0.join(name);
        let files: Vec<&Path> = [&[source.as_path()], others].concat();
        let said = c_library::run(compiler, &[&["-finstrument-functions"], flags].concat(), &files, &out);
        assert!(said.is_done, "{}", said.messages);
        out
    };
    let library = [flags, &["-shared", "-fPIC"]].concat();
    let shared = compile("libshared.so", SHARED, &library, &[]);
    let plugin = compile("plugin.so", PLUGIN, &library, &[]);
    let program = [flags, of_program, &["-rdynamic"]].concat();
    (compile("program", MAIN, &program, &[&shared]), plugin)
}

/// Returns the calls of each function in the rows of a report's file.
pub fn rows(report: &Path, name: &str, calls: &str) -> BTreeMap<String, u64> {
    of_report(&serde_json::from_slice(&fs::read(report).unwrap()).unwrap(), name, calls)
}

/// Returns the calls of each function in the rows of a report. All have returned.
fn of_report(report: &Value, name: &str, calls: &str) -> BTreeMap<String, u64> {
    let [mut all, mut exits] = [const { BTreeMap::new() }; 2];
    for row in report["rows"].as_array().unwrap() {
        let of_kind = if row["kind"] == "exit" { &mut exits } else { &mut all };
        *of_kind.entry(row[name].as_str().unwrap().to_owned()).or_insert(0) += row[calls].as_u64().unwrap();
        let unpaired = |name| row.get(name).is_some_and(|it| *it != 0);
        assert!(!unpaired("without_entry") && !unpaired("without_exit"), "{row}");
    }
    assert!(exits.is_empty() || exits == all, "{exits:?} {all:?}");
    all
}

/// Runs the program under a consumer; returns its own tally.
pub fn ran(
    folder: &Folder,
    program: &Path,
    arguments: &[&Path],
    spec: &str,
    out: &Path,
) -> BTreeMap<String, u64> {
    let mut command = with_agent(folder, &["run", "--"]);
    command.arg(program).args(arguments).env("PROBES", spec).env("PROBES_OUT", out);
    let ran = Ran::from(output(&mut command));
    assert!(ran.code == Some(0) && !ran.err.contains("could join"), "{spec}: {ran:?}");
    let words = ran.out.lines().filter_map(|line| line.split_once(' '));
    words.map(|(name, calls)| (name.to_owned(), calls.parse().unwrap())).collect()
}

#[test]
fn each_consumer_has_all_calls_from_the_first_one_on() {
    let folder = Folder::new("hooks");
    let (program, plugin) = made(&folder, compilers()[0], &["-O2"], &[]);
    let report = folder.0.join("report.json");
    for (spec, name, calls) in [
        ("**=count", "probe", "hits"),
        ("**=latency", "function", "calls"),
        ("**=call-tree", "function", "calls"),
        ("**=profile", "function", "calls"),
        ("**=trace", "", ""),
    ] {
        let is_trace = spec.ends_with("trace");
        let out = if is_trace { folder.0.join("trace.probetrace") } else { report.clone() };
        let mut tally = ran(&folder, &program, &[], spec, &out);
        if spec.ends_with("call-tree") || is_trace {
            tally.retain(|_, calls| *calls != 0);
        } else {
            // The plugin was not loaded.
            tally.retain(|name, _| name != "plugged" && name != "inner");
        }
        let found = if is_trace { traced(&out) } else { rows(&report, name, calls) };
        assert_eq!(found, tally, "{spec}");
    }
    // A thread that calls into a plugin waits until the plugin's functions have joined.
    let tally = ran(&folder, &program, &[&plugin], "**=count", &report);
    assert_eq!((tally["plugged"], tally["inner"]), (20, 20));
    assert_eq!(rows(&report, "probe", "hits"), tally);
}

/// A program that is started by a measurement waits for it at its start and at its end, so that
/// the report has each call, however short the program is.
#[test]
fn measurements_of_a_short_program_have_all_calls() {
    let folder = Folder::new("hooks-short");
    let (program, _) = made(&folder, compilers()[0], &["-O2"], &[]);
    let program = program.to_str().unwrap();
    let trace = folder.0.join("short.probetrace");
    let record = ["record", "**", "-o", trace.to_str().unwrap()];
    for (measure, name, calls) in [
        (&["count", "**"][..], "probe", "hits"),
        (&["latency", "**"], "function", "calls"),
        (&["calls", "**"], "function", "calls"),
        (&record, "", ""),
    ] {
        let mut command = with_agent(&folder, &[&["--json"], measure, &["--", program]].concat());
        let ran = Ran::from(output(&mut command));
        assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""), "{measure:?}");
        let document = ran.out.find('{').unwrap();
        let mut documents = serde_json::Deserializer::from_str(&ran.out[document..]).into_iter::<Value>();
        let report = documents.next().unwrap().unwrap();
        let after = &ran.out[document + documents.byte_offset()..];
        // The program's output is its own, before the report or after it.
        let lines = ran.out[..document].lines().chain(after.lines());
        let words = lines.filter_map(|line| line.split_once(' '));
        let mut tally: BTreeMap<String, u64> =
            words.map(|(name, calls)| (name.to_owned(), calls.parse().unwrap())).collect();
        if name == "probe" {
            tally.retain(|name, _| name != "plugged" && name != "inner");
        } else {
            tally.retain(|_, calls| *calls != 0);
        }
        let found = if name.is_empty() {
            traced(&trace)
        } else {
            let mut found = of_report(&report, name, calls);
            found.retain(|_, calls| name == "probe" || *calls != 0);
            found
        };
        assert_eq!(found, tally, "{measure:?}");
    }
}

/// Returns the entries of each function in a trace.
fn traced(file: &Path) -> BTreeMap<String, u64> {
    let mut trace = probe_trace::Trace::open(&[file]).unwrap();
    let mut all = BTreeMap::new();
    for item in trace.items() {
        if let probe_trace::Item::Event(event) = item.unwrap()
            && event.definition.kind == Some(probe_trace::Kind::Entry)
        {
            *all.entry(event.definition.path.clone()).or_insert(0) += 1;
        }
    }
    all
}

#[test]
fn each_way_to_link_and_call_is_known() {
    for compiler in compilers() {
        for (flags, of_program) in [
            (&["-O2", "-fno-plt"][..], &["-Wl,-z,now"][..]),
            (&["-O1"], &["-no-pie", "-fno-pie"]),
            (&["-O0"], &["-Wl,-z,lazy"]),
        ] {
            let folder = Folder::new("hooks-linked");
            let (program, _) = made(&folder, compiler, flags, of_program);
            let report = folder.0.join("report.json");
            let mut tally = ran(&folder, &program, &[], "**=count", &report);
            tally.retain(|name, _| name != "plugged" && name != "inner");
            assert_eq!(rows(&report, "probe", "hits"), tally, "{compiler} {flags:?} {of_program:?}");
        }
    }
}

/// Functions that are left by one call: the ends of `one` and `two` alike, as compilers make them
/// of inlined functions; and `spilled`, whose address is kept in memory.
const SHARING: &str = r#"
#include <stdio.h>
long one(long), two(long), spilled(long), both(long);
__asm__(".text\n"
    "both: .type both, @function\n"
    "pushq %rbx\n" "subq $16, %rsp\n" "movq %rdi, %rbx\n"
    "leaq both(%rip), %rdi\n" "call __cyg_profile_func_enter@PLT\n"
    "testq $1, %rbx\n" "jz 1f\n"
    "leaq one(%rip), %rdi\n" "call __cyg_profile_func_enter@PLT\n"
    "leaq one(%rip), %rdi\n" "jmp 2f\n"
    "1: leaq two(%rip), %rdi\n" "call __cyg_profile_func_enter@PLT\n"
    "leaq two(%rip), %rdi\n"
    "2: call __cyg_profile_func_exit@PLT\n"
    "leaq both(%rip), %rdi\n" "call __cyg_profile_func_exit@PLT\n"
    "movq %rbx, %rax\n" "addq $16, %rsp\n" "popq %rbx\n" "ret\n" ".size both, . - both\n"
    "spilled: .type spilled, @function\n"
    "subq $24, %rsp\n" "leaq spilled(%rip), %rax\n" "movq %rax, 8(%rsp)\n"
    "movq %rax, %rdi\n" "call __cyg_profile_func_enter@PLT\n"
    "movq 8(%rsp), %rdi\n" "call __cyg_profile_func_exit@PLT\n"
    "xorl %eax, %eax\n" "addq $24, %rsp\n" "ret\n" ".size spilled, . - spilled\n");
long one(long x) { return x * 3; }
long two(long x) { return x * 5; }
int main(void)
{
    long sum = 0;
    for (long i = 0; i < 30; i++) sum += both(i % 3) + spilled(i);
    printf("%ld\nboth 30\none 11\ntwo 21\nspilled 30\nmain 1\n", sum + one(1) + two(1));
    return 0;
}
"#;

#[test]
fn functions_that_share_a_call_are_all_left() {
    for compiler in compilers() {
        let folder = Folder::new("hooks-sharing");
        let (source, program) = (folder.0.join("sharing.c"), folder.0.join("sharing"));
        fs::write(&source, SHARING).unwrap();
        let flags = ["-O1", "-finstrument-functions"];
        let said = c_library::run(compiler, &flags, &[&source], &program);
        assert!(said.is_done, "{}", said.messages);
        let report = folder.0.join("report.json");
        for (spec, name, calls) in [("**=count", "probe", "hits"), ("**=latency", "function", "calls")] {
            let tally = ran(&folder, &program, &[], spec, &report);
            assert_eq!(rows(&report, name, calls), tally, "{compiler} {spec}");
        }
    }
}

/// Functions of the C++ library that are inlined, and whose addresses are those in its object. With
/// like ends, too.
const INLINING: &str = r#"
#include <iostream>
#include <map>
#include <sstream>
#include <string>
int main()
{
    std::map<std::string, std::string> all;
    for (int i = 0; i < 40; i++) {
        std::ostringstream text;
        text << i << "th of some texts, " << std::string(i, '.');
        try { all[text.str().substr(i)] += text.str(); } catch (const std::exception &) { return 9; }
    }
    std::cout << all.size() << '\n';
}
"#;

#[test]
fn inlined_functions_of_a_library_are_entered_and_left() {
    let folder = Folder::new("hooks-inlining");
    let (source, program) = (folder.0.join("inlining.cpp"), folder.0.join("inlining"));
    fs::write(&source, INLINING).unwrap();
    let report = folder.0.join("report.json");
    for flags in [&["-O2", "-g", "-finstrument-functions"], &["-O3", "-g0", "-finstrument-functions"]] {
        let said = c_library::run("g++", flags, &[&source], &program);
        assert!(said.is_done, "{}", said.messages);
        let mut calls = [("**=count", "probe", "hits"), ("**=latency", "function", "calls")].map(
            |(spec, name, calls)| {
                ran(&folder, &program, &[], spec, &report);
                let said: Value = serde_json::from_slice(&fs::read(&report).unwrap()).unwrap();
                assert!(said["left_out"].as_array().is_none_or(Vec::is_empty), "{flags:?}: {said}");
                rows(&report, name, calls)
            },
        );
        calls[0].retain(|_, calls| *calls != 0);
        calls[1].retain(|_, calls| *calls != 0);
        assert_eq!(calls[0], calls[1], "{flags:?}");
        assert!(calls[0].len() > 50, "{flags:?}: {calls:?}");
    }
}

/// A program that allows itself next to nothing, and ends at anything else.
const SANDBOX: &str = r"
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>
#define ALLOW(number) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)
__attribute__((noinline)) static int step(int n) { return n * 3 + 1; }
__attribute__((noinline)) int outer(int n) { int sum = 0; for (int i = 0; i < 10; i++) sum += step(n + i); return sum; }
int main(void)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        ALLOW(SYS_write), ALLOW(SYS_read), ALLOW(SYS_exit_group),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
    };
    struct sock_fprog program = { sizeof code / sizeof *code, code };
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, 2, &program)) return 9;
    int sum = 0;
    char byte = '\n';
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 100; i++) sum += outer(i);
        if (write(1, &byte, 1) != 1 || read(0, &byte, 1) != 1) break;
    }
    _exit(sum == 3 * 163000 ? 7 : 8);
}
";

#[test]
fn a_filter_of_system_calls_ends_no_program_that_was_given_an_agent() {
    use std::io::{Read, Write};
    use std::process::Stdio;

    let folder = Folder::new("sandbox");
    let source = folder.0.join("sandbox.c");
    fs::write(&source, SANDBOX).unwrap();
    let program = folder.0.join("sandbox");
    let said = c_library::run(compilers()[0], &["-O2", "-finstrument-functions"], &[&source], &program);
    assert!(said.is_done, "{}", said.messages);
    let mut command = with_agent(&folder, &["run", "--"]);
    command.arg(&program).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let (mut stdin, mut stdout) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    let mut byte = [0];
    stdout.read_exact(&mut byte).unwrap();
    // The filter is there by now, and its functions have been called.
    let pid = child.id().to_string();
    let listed = run(&folder, &["list", &pid]);
    assert!(listed.code == Some(0) && listed.out.contains("outer"), "{listed:?}");
    let refused = run(&folder, &["count", "-p", &pid, "**", "--for", "10ms"]);
    assert_eq!(refused.code, Some(Exit::Input as i32), "{refused:?}");
    assert!(refused.err.contains("has set a filter of system calls (seccomp) on thread"), "{refused:?}");
    stdin.write_all(b"...").unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(7));
}

#[test]
fn a_file_says_what_its_calls_of_hooks_can_become() {
    let folder = Folder::new("hooks-of-file");
    let source = folder.0.join("code.c");
    let hooks = "#define NO __attribute__((no_instrument_function, noinline))\n\
                 NO void __cyg_profile_func_enter(void *f, void *s) { __asm__ volatile(\"\" :: \"r\"(f), \"r\"(s)); }\n\
                 NO void __cyg_profile_func_exit(void *f, void *s) { __asm__ volatile(\"\" :: \"r\"(f), \"r\"(s)); }\n";
    let code = "__attribute__((noinline)) int work(int n) { return n * 3; }\n\
                int main(int argc, char **argv) { (void)argv; return work(argc) == 3 ? 7 : 8; }\n";
    let made = |name: &str, text: &str, flags: &[&str]| {
        fs::write(&source, text).unwrap();
        let out = folder.0.join(name);
        let flags = [&["-O1", "-finstrument-functions"], flags].concat();
        let said = c_library::run(compilers()[0], &flags, &[&source], &out);
        assert!(said.is_done, "{}", said.messages);
        out
    };
    let own = format!("{hooks}{code}");
    for (name, text, flags, can) in [
        ("plain", code, &[][..], "`probectl run` or `attach` makes them probes"),
        ("fixed", code, &["-no-pie"], "`probectl run` or `attach` makes them probes"),
        ("no-plt", code, &["-fno-plt", "-O2"], "`probectl run` or `attach` makes them probes"),
        ("own", &own, &[], "it has hooks of its own, which get these calls"),
        ("static", code, &["-static"], "it is linked statically, so no agent can be loaded"),
    ] {
        let file = made(name, text, flags);
        for command in ["list", "audit"] {
            let said = run(&folder, &[command, file.to_str().unwrap()]);
            let expected = format!("4 calls of the hooks of -finstrument-functions; {can}");
            assert!(said.err.contains(&expected), "{name}: {said:?}");
        }
    }
    let without =
        run(&folder, &["list", made("without", code, &["-fno-instrument-functions"]).to_str().unwrap()]);
    assert!(!without.err.contains("hooks"), "{without:?}");
}

/// The program headers alone lead to its code and its unwind table.
#[test]
fn a_program_without_section_headers_has_all_calls() {
    for compiler in compilers() {
        let folder = Folder::new("hooks-headers");
        let (program, _) = made(&folder, compiler, &["-O2"], &[]);
        let report = folder.0.join("report.json");
        assert!(Command::new("strip").arg(&program).status().unwrap().success());
        let tally = ran(&folder, &program, &[], "**=count", &report);
        let hits = || {
            let mut hits: Vec<_> = rows(&report, "probe", "hits").into_values().collect();
            hits.sort_unstable();
            hits
        };
        let mut expected: Vec<_> = tally
            .iter()
            .filter(|it| !["plugged", "inner"].contains(&it.0.as_str()))
            .map(|it| *it.1)
            .collect();
        expected.sort_unstable();
        assert_eq!(hits(), expected, "{compiler}");
        without_sections(&program);
        assert_eq!(ran(&folder, &program, &[], "**=count", &report), tally, "{compiler}");
        assert_eq!(hits(), expected, "{compiler}");
    }
}
