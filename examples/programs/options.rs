//! Prices of options, after Black and Scholes.
//!
//! ```text
//! cargo run --release --example options [-- [--profile] [BATCHES [THREADS]]]
//! PROBES='probe_programs::options::**=profile' cargo run --release --example options -- 20000
//! ```
//!
//! The program is in `programs/src/options.rs`. `--profile` samples the calls of all of its
//! functions.

use std::process::ExitCode;

fn main() -> ExitCode {
    probe_programs::main(&probe_programs::options::PROGRAM)
}
