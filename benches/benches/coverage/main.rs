//! `coverage`: tests whether the sampling profiler's errors are as it claims, over many runs of
//! programs that do the same each time, and measures its cost.
//!
//! Each run is a process of its own, with the profiler at its defaults. `PROBE_BENCH_SECTIONS`
//! selects sections:
//! - `rows`: calls and times beside the truth (see `runs.rs`). A row's calls are exact, a lower
//!   bound, or estimated: of 100 estimates, 95 should have the truth within their error.
//! - `shares`: the functions with the most CPU time after a second (see `shares.rs`).
//! - `cpu`: CPU time relative to the same program with nothing attached (see `cpu.rs`).

use std::env;
use std::process::ExitCode;

use probe_benches::{IS_PATCHED, Scale};

mod clocked;
mod cpu;
mod driven;
mod executor;
mod interpreter;
mod made;
mod many;
mod nesting;
mod outline;
mod paced;
mod program;
mod rivals;
mod runs;
mod shares;
mod thousands;
mod watched;
mod workload;

const SECTIONS: &str = "PROBE_BENCH_SECTIONS";

fn main() -> ExitCode {
    if !IS_PATCHED {
        println!("sites are not patched in this build");
        return ExitCode::SUCCESS;
    }
    let Ok(by) = env::var(watched::VARIABLE) else {
        let scale = Scale::from_args();
        let workloads = workload::workloads(scale);
        let asked = env::var(SECTIONS).unwrap_or_else(|_| "rows,shares,cpu".to_owned());
        for section in asked.split(',') {
            match section.trim() {
                "rows" => runs::compare(scale, &workloads),
                "cpu" => cpu::compare(scale, &workloads),
                "shares" => shares::compare(scale, &workloads),
                other => panic!("{SECTIONS}={other}: rows, shares, cpu"),
            }
        }
        return ExitCode::SUCCESS;
    };
    if by == rivals::RIVAL {
        rivals::compete();
        return ExitCode::SUCCESS;
    }
    match program::child(&by) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
