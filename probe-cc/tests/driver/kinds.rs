//! Kinds of builds, by their flags. The program works as it does without probes. Either each hit is
//! counted, or the log says why there are no sites.

use std::fs;
use std::path::Path;
use std::process::Command;

use probe_tests::whole;

use crate::objects::sites;
use crate::place::{Compiler, clean, compilers, counted, folder, text};

const FILES: &[(&str, &str)] = &[
    (
        "a.c",
        "#include <stdio.h>\n#include <stdlib.h>\n#define OUT __attribute__((noinline))\n\
         volatile int rounds = 7;\n\
         OUT int leaf(int x) { return x * 3 + rounds; }\n\
         OUT double wide(double x, float y) { return x * y + rounds; }\n\
         OUT int chosen(int x) { switch (x) { case 0: return leaf(1); case 1: return 5; case 2: return x + rounds;\n\
           case 3: return 11; case 4: return leaf(x) + 1; case 5: return 2 * rounds; default: return leaf(x); } }\n\
         OUT int *made(int n) { int *all = malloc(n * sizeof *all); for (int i = 0; i < n; i++) all[i] = leaf(i);\n\
           return all; }\n\
         int (*volatile through)(int) = chosen;\n\
         OUT int tail(int x) { return through(x); }\n\
         int main(void) {\n  long sum = 0;\n  int *all = made(rounds);\n\
           for (int i = 0; i < rounds; i++) sum += tail(i) + all[i] + (int)wide(i, 2.5f);\n\
           free(all);\n  printf(\"%ld\\n\", sum);\n  return 0;\n}\n",
    ),
    (
        "b.cpp",
        "#include <cstdio>\n#include <string>\n#include <vector>\n#define OUT __attribute__((noinline))\n\
         volatile int rounds = 6;\n\
         namespace geo { struct Guard { int &at; ~Guard(); };\n\
         OUT Guard::~Guard() { at += 1; }\n\
         OUT int risky(int x, int &at) { Guard guard{at}; if (x % 3 == 2) throw std::string(\"no\"); return x; } }\n\
         int main() {\n  int at = 0, sum = 0, caught = 0;\n\
           for (int i = 0; i < rounds; i++) try { sum += geo::risky(i, at); } catch (std::string &) { caught++; }\n\
           std::printf(\"%d %d %d\\n\", at, sum, caught);\n  return 0;\n}\n",
    ),
    (
        "co.cpp",
        "#include <coroutine>\n#include <cstdio>\n\
         struct Task { struct promise_type { int value = 0; Task get_return_object() { return {this}; }\n\
           std::suspend_never initial_suspend() { return {}; } std::suspend_always final_suspend() noexcept { return {}; }\n\
           std::suspend_always yield_value(int v) { value = v; return {}; } void return_void() {}\n\
           void unhandled_exception() {} };\n  promise_type *promise; };\n\
         __attribute__((noinline)) Task numbers(int n) { for (int i = 0; i < n; i++) co_yield i; }\n\
         int main() {\n  volatile int n = 5;\n  Task task = numbers(n);\n  int sum = 0;\n\
           auto handle = std::coroutine_handle<Task::promise_type>::from_promise(*task.promise);\n\
           while (!handle.done()) { sum += task.promise->value; handle.resume(); }\n\
           handle.destroy();\n  std::printf(\"%d\\n\", sum);\n  return 0;\n}\n",
    ),
];

/// Hits that do not depend on what a compiler inlines: with the entries, the exits.
const ROWS: &[(&str, u64, u64)] =
    &[("leaf", 10, 10), ("wide", 7, 7), ("chosen", 7, 7), ("made", 1, 1), ("tail", 7, 7), ("main", 1, 1)];
const ROWS_OF_CXX: &[(&str, u64, u64)] = &[("geo::risky", 6, 4), ("main", 1, 1)];

/// Flags, and for code without sites the reason in the log.
const KINDS: &[(&str, Option<&str>)] = &[
    ("-O0", None),
    ("-O1", None),
    ("-O2", None),
    ("-O3 -march=native", None),
    ("-Os", None),
    ("-Ofast -g3 -gdwarf-4", None),
    ("-O2 -fPIC -shared-libgcc", None),
    ("-O2 -fPIE -pie -g -gz", None),
    ("-O2 -fno-pic -no-pie", None),
    ("-O2 -static", None),
    ("-O2 -fcf-protection=full", None),
    ("-O2 -fcf-protection=branch", None),
    ("-O2 -fcf-protection=return", None),
    ("-O2 -fcf-protection=none", None),
    ("-O2 -fno-plt", None),
    ("-O2 -mcmodel=medium", Some("-mcmodel=medium")),
    ("-O2 -mcmodel=large", Some("-mcmodel=large")),
    ("-O2 -m32", Some("x86 Linux")),
    ("-O2 -flto", None),
    ("-O1 -fsanitize=address", None),
    ("-O1 -fsanitize=undefined", None),
    ("-O1 -fsanitize=thread", None),
    ("-O2 -ffunction-sections -fdata-sections -Wl,--gc-sections", None),
    ("-O2 -fno-asynchronous-unwind-tables -fno-exceptions", None),
    ("-O2 -fstack-protector-all -fstack-clash-protection -D_FORTIFY_SOURCE=2", None),
    ("-O2 -fpatchable-function-entry=5,2", None),
    ("-O2 -pg", None),
    ("-O2 -fopenmp", None),
    ("-O2 -fprofile-generate", Some("-fprofile-generate")),
    ("-O2 -fsplit-stack", Some("-fsplit-stack")),
    ("-O2 -masm=intel", Some("-masm=intel")),
    ("-O2 -mretpoline", None),
    ("-O2 -mindirect-branch=thunk", None),
    ("-O2 -fno-integrated-as", None),
    ("-O2 -fuse-ld=lld", None),
    ("-O2 -fuse-ld=gold", None),
];

struct Kind<'a> {
    compiler: Compiler,
    source: &'a str,
    flags: &'a str,
    reason: Option<&'a str>,
    rows: &'a [(&'a str, u64, u64)],
}

impl Kind<'_> {
    /// Builds a program, by an object or in one command.
    fn built(&self, folder: &Path, is_probed: bool, in_one: bool) -> bool {
        let is_cxx = self.source.ends_with("cpp");
        let done = |words: &[&str]| {
            let mut command =
                if is_probed { self.compiler.probed(is_cxx) } else { self.compiler.plain(is_cxx) };
            command.env("PROBE_CC_LOG", folder.join("log"));
            command.current_dir(folder).args(self.flags.split(' ')).args(words);
            let output = command.output().unwrap();
            if is_probed {
                assert!(output.status.success(), "{command:?}: {}", text(&output.stderr));
            }
            output.status.success()
        };
        if in_one {
            done(&[self.source, "-o", "program"])
        } else {
            done(&["-c", self.source, "-o", "a.o"]) && done(&["a.o", "-o", "program"])
        }
    }

    fn check(&self) {
        let folder = folder(&format!("kinds-{}", self.source), FILES);
        let program = folder.join("program");
        let said = format!("{:?} {} {}", self.compiler, self.source, self.flags);
        let output = || {
            let mut command = Command::new(&program);
            clean(&mut command);
            command.current_dir(&*folder).output()
        };
        if !self.built(&folder, false, true) || !output().is_ok_and(|it| it.status.success()) {
            println!("skipped: {said} makes no program here");
            return;
        }
        let plain = text(&output().unwrap().stdout);
        // An object and a link, and for some flags both in one command.
        let ways: &[bool] =
            if self.flags.contains("-flto") || self.reason.is_some() { &[false, true] } else { &[false] };
        for &in_one in ways {
            fs::remove_file(&program).unwrap();
            assert!(self.built(&folder, true, in_one));
            assert_eq!(text(&output().unwrap().stdout), plain, "{said}");
            let log = fs::read_to_string(folder.join("log")).unwrap();
            let found = sites(&fs::read(&program).unwrap());
            if let Some(reason) = self.reason {
                assert!(log.contains(reason), "{said}: {log}");
                assert_eq!(found, 0, "{said}");
            } else {
                assert!(self.may_leave_out() || !log.contains("left out "), "{said}: {log}");
                let named = |name: &str| log.contains(&format!("left out {name}: "));
                let all_named = self.rows.iter().all(|(name, ..)| named(name));
                assert!(found > 0 || all_named, "{said}: {log}");
                self.count(&program, &plain, &said, &named);
            }
            fs::remove_file(folder.join("log")).unwrap();
        }
    }

    /// Returns whether compilers do not tell all that is needed: which jumps through a thunk are
    /// calls, and whether clang itself wrote a function.
    fn may_leave_out(&self) -> bool {
        ["-mindirect-branch", "-mretpoline", "-fpatchable"].iter().any(|flag| self.flags.contains(flag))
    }

    fn count(&self, program: &Path, plain: &str, said: &str, is_left_out: &dyn Fn(&str) -> bool) {
        if self.flags.contains("-static") {
            // No library can be preloaded.
            return;
        }
        if self.flags.contains("=address") && self.compiler.c == "gcc" {
            // Its library refuses to be second.
            return;
        }
        let (output, rows) = counted(program);
        assert_eq!(text(&output.stdout), plain, "{said}");
        for (name, entries, exits) in self.rows {
            if is_left_out(name) {
                assert!(!rows.iter().any(|row| row.starts_with(&format!("{name} "))), "{said}: {rows:#?}");
                continue;
            }
            for (kind, expected) in [("entry", entries), ("exit", exits)] {
                let hits: u64 = rows
                    .iter()
                    .filter_map(|row| row.strip_prefix(&format!("{name} {kind} ")))
                    .map(|row| row.split(' ').next_back().unwrap().parse::<u64>().unwrap())
                    .sum();
                assert_eq!(hits, *expected, "{said}: {name} {kind} in {rows:#?}");
            }
        }
    }
}

#[test]
fn c() {
    for (at, compiler) in compilers().into_iter().enumerate() {
        for (number, &(flags, reason)) in KINDS.iter().enumerate() {
            // A slice has each kind by one compiler.
            if whole::is_asked_for() || (at + number) % 2 == 0 {
                Kind { compiler, source: "a.c", flags, reason, rows: ROWS }.check();
            }
        }
    }
}

#[test]
fn cxx() {
    for compiler in compilers() {
        for (flags, reason) in [
            ("-O0", None),
            ("-O2", None),
            ("-O2 -fPIC -fno-plt", None),
            ("-O2 -flto", None),
            ("-O1 -fsanitize=undefined", None),
            ("-O2 -fmodules-ts", Some("-fmodules-ts")),
        ] {
            Kind { compiler, source: "b.cpp", flags, reason, rows: ROWS_OF_CXX }.check();
        }
        let coroutines = [("numbers", 1, 1), ("main", 1, 1)];
        for flags in ["-O0 -std=c++20", "-O2 -std=c++20"] {
            Kind { compiler, source: "co.cpp", flags, reason: None, rows: &coroutines }.check();
        }
    }
}
