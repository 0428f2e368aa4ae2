//! Libraries of thousands of small C functions with ten sites each, generated while the bench runs.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use probe_tests::real::{CodeBase, Way};

/// The number of inlined copies in each function, and of functions that have those of the same
/// functions.
const INLINED: u64 = 4;
const GROUP: u64 = 100;

/// Returns the code of this many functions. One in 50 takes about a microsecond, one in 1,000 ten.
/// Two in three call another function outside their own computation. Four inlined copies of small
/// functions are in each: an entry and an exit each, like its own. For each `k`, the workload
/// calls the functions of rank `2^k` to `2^(k+1)` equally often, in a pseudo-random order.
fn code(functions: u64) -> String {
    let mut code = String::from("#include <stdint.h>\n");
    for number in 0..functions {
        if number % GROUP == 0 {
            for part in 0..INLINED {
                writeln!(
                    code,
                    "static inline __attribute__((always_inline)) uint64_t g{group}_{part}(uint64_t x) {{\n    \
                     return x * {odd} ^ x >> {part};\n}}",
                    group = number / GROUP,
                    odd = 2 * number + 3,
                )
                .expect("memory");
            }
        }
        let group = number / GROUP;
        let inlined: Vec<_> = (0..INLINED).map(|part| format!("x = g{group}_{part}(x); ")).collect();
        let inlined = inlined.concat();
        let steps = match number {
            _ if number % 1_000 == 7 => 10_000,
            _ if number % 50 == 3 => 1_000,
            _ => 1 + number % 16,
        };
        // Half the number, so that chains of calls are short.
        let inner = if number % 3 == 0 { String::new() } else { format!(" + f{}(x)", number / 2) };
        // All functions differ, or the compiler would merge equal ones.
        writeln!(
            code,
            "__attribute__((noinline)) static uint64_t f{number}(uint64_t x) {{\n    \
             for (uint64_t n = {steps}; n; n--) x = (x ^ x >> 29) * 0x5bd1e995u + {number};\n    \
             {inlined}\n    return x{inner};\n}}"
        )
        .expect("memory");
    }
    code.push_str("static uint64_t (*const all[])(uint64_t) = {");
    (0..functions).for_each(|number| write!(code, "f{number},").expect("memory"));
    write!(
        code,
        "}};\n__attribute__((visibility(\"default\"))) uint64_t workload(uint64_t calls) {{\n    \
         uint64_t state = 0x9e3779b97f4a7c15u, sum = 1;\n    for (; calls; calls--) {{\n        \
         state ^= state << 13; state ^= state >> 7; state ^= state << 17;\n        \
         uint64_t rank = 1ull << (state >> 32) % {bits};\n        rank += (state >> 8) % rank - 1;\n        \
         sum += all[rank % {functions} * 7919 % {functions}](state);\n    }}\n    return sum | 1;\n}}\n",
        bits = functions.ilog2() + 1,
    )
    .expect("memory");
    code
}

/// Builds the library below `root`, and returns its file.
pub fn build(root: &Path, functions: u64) -> PathBuf {
    let source = root.join(format!("thousands-{functions}.c"));
    let code = code(functions);
    if fs::read_to_string(&source).ok().as_ref() != Some(&code) {
        fs::write(&source, code).expect("a file for the source");
    }
    let path = String::leak(source.to_str().expect("a path that is text").to_owned());
    let base = CodeBase::of_file("thousands", path);
    base.build(root.to_str().expect("a path that is text"), Way::InstrumentFunctions).library
}
