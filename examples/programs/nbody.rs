//! Bodies that attract each other: the function that is called most takes a few nanoseconds.
//!
//! ```text
//! cargo run --release --example nbody [-- [--profile] [STEPS [THREADS]]]
//! PROBES='probe_programs::nbody::**=profile(budget=0.5%)' cargo run --release --example nbody -- 2000
//! ```
//!
//! The program is in `programs/src/nbody.rs`. `--profile` samples the calls of all of its functions
//! while it runs, and prints a table: the calls and time of each function, estimated with an error.

use std::process::ExitCode;

fn main() -> ExitCode {
    probe_programs::main(&probe_programs::nbody::PROGRAM)
}
