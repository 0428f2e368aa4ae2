//! `modules`: a pair of `malloc` and `free` in a C program that nobody prepared, and a round of a
//! server's work (read, lock, write), with the agent: latent, and counted. The figures are those of
//! a thousand. Each sample is a process.

use std::env;
use std::path::Path;
use std::process::Command;

use probe_benches::{Case, IS_PATCHED, Scale, interleave, timing};
use probe_tests::c_library::compile;
use probe_tests::folder::Folder;
use probe_tests::instrumented;

const LATENT: &[(&str, &str)] = &[("PROBE_AGENT", "1"), ("PROBES_MODULES", "memory")];
const COUNTED: &[(&str, &str)] = &[("PROBES", "memory::**, io::**, lock::** = count")];
const ENTRIES: &[(&str, &str)] = &[("PROBES", "memory::** kind=entry = count")];
const SUMS: &[(&str, &str)] = &[("PROBES", "memory::malloc kind=entry = sum(size)")];

fn main() {
    if !IS_PATCHED {
        println!("sites are not patched in this build");
        return;
    }
    let folder = Folder::new("modules");
    let program = folder.join("pairs");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("c/pairs.c");
    compile(instrumented::compilers()[0], &["-O2", "-pthread"], &[&source], &program);
    let of = |what: &'static str, variables: &'static [(&str, &str)]| {
        let program = program.clone();
        move || run(&program, what, variables)
    };
    let medians = interleave(
        Scale::from_args().of(40),
        &mut [
            Case::given("plain", of("pairs", &[])),
            Case::given("latent", of("pairs", LATENT)),
            Case::given("counted", of("pairs", COUNTED)),
            Case::given("entries-counted", of("pairs", ENTRIES)),
            Case::given("sizes-summed", of("pairs", SUMS)),
        ],
    );
    for case in medians.names() {
        timing("modules", &medians, case, "plain");
    }
    let medians = interleave(
        Scale::from_args().of(40),
        &mut [
            Case::given("round", of("rounds", &[])),
            Case::given("round-latent", of("rounds", LATENT)),
            Case::given("round-counted", of("rounds", COUNTED)),
        ],
    );
    for case in medians.names() {
        timing("modules", &medians, case, "round");
    }
}

/// Returns the nanoseconds of a thousand pairs or rounds.
fn run(program: &Path, what: &str, variables: &[(&str, &str)]) -> u64 {
    // Cargo builds it for this bench.
    let library = env::current_exe().expect("this program").with_file_name("libprobe_agent.so");
    let mut command = Command::new(program);
    command.arg(what).envs(variables.iter().copied());
    command.envs((!variables.is_empty()).then_some(("LD_PRELOAD", library)));
    let output = command.output().expect("it runs");
    assert!(output.status.success());
    String::from_utf8_lossy(&output.stdout).trim().parse().expect("a number")
}
