//! Regular expressions, run by `regex` over a real text.
//!
//! ```text
//! cargo run --release --example patterns [-- [--profile] [READINGS [THREADS]]]
//! PROBES='probe_programs::patterns::find=latency' cargo run --release --example patterns
//! ```
//!
//! The program is in `programs/src/patterns.rs`. `--profile` samples the calls of all of its
//! functions.

use std::process::ExitCode;

fn main() -> ExitCode {
    probe_programs::main(&probe_programs::patterns::PROGRAM)
}
