//! Prices of options, after Black and Scholes.
//!
//! ```text
//! cargo run --release --example options [-- [--profile] [BATCHES [THREADS]]]
//! PROBES='probe_examples::programs::options::**=profile' cargo run --release --example options -- 20000
//! ```
//!
//! The program is in `src/programs/options.rs`; `--profile` samples the calls of all of its functions.

use std::process::ExitCode;

use probe_examples::programs;

fn main() -> ExitCode {
    programs::main(&programs::options::PROGRAM)
}
