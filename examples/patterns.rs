//! Regular expressions, run by `regex` over a real text.
//!
//! ```text
//! cargo run --release --example patterns [-- [--profile] [READINGS [THREADS]]]
//! PROBES='probe_examples::programs::patterns::find=latency' cargo run --release --example patterns
//! ```
//!
//! The program is in `src/programs/patterns.rs`; `--profile` samples the calls of all of its functions.

use std::process::ExitCode;

use probe_examples::programs;

fn main() -> ExitCode {
    programs::main(&programs::patterns::PROGRAM)
}
