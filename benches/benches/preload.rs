//! `preload`: the time that `libprobe_agent.so` adds to a program without probes, from its start to
//! its end: `/bin/true`, as shells start many.

use std::env;
use std::path::Path;
use std::process::Command;

use probe_benches::{Case, IS_PATCHED, Scale, interleave, monotonic_ns, timing};

fn main() {
    if !IS_PATCHED {
        println!("sites are not patched in this build");
        return;
    }
    // Cargo builds it for this bench.
    let library = env::current_exe().expect("this program").with_file_name("libprobe_agent.so");
    let medians = interleave(
        Scale::from_args().of(400),
        &mut [
            Case::given("plain", || run(None, &[])),
            Case::given("preloaded", || run(Some(&library), &[])),
            Case::given("asked", || run(Some(&library), &[("PROBE_AGENT", "1")])),
            Case::given("only", || run(Some(&library), &[("PROBE_AGENT", "1"), ("PROBE_PRELOAD", "only")])),
        ],
    );
    for case in medians.names() {
        timing("preload", &medians, case, "plain");
    }
}

fn run(library: Option<&Path>, variables: &[(&str, &str)]) -> u64 {
    let mut command = Command::new("/bin/true");
    command.envs(variables.iter().copied()).envs(library.map(|library| ("LD_PRELOAD", library)));
    let before = monotonic_ns();
    assert!(command.status().expect("it runs").success());
    monotonic_ns() - before
}
