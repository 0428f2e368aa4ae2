//! A large JSON file, read by `serde_json`, which calls back the program's own visitors.
//!
//! ```text
//! cargo run --release --example json [-- [--profile] [DOCUMENTS [THREADS]]]
//! PROBES='probe_examples::programs::json::*Visitor::*=latency' cargo run --release --example json
//! ```
//!
//! The program is in `src/programs/json.rs`; `--profile` samples the calls of all of its functions.

use std::process::ExitCode;

use probe_examples::programs;

fn main() -> ExitCode {
    programs::main(&programs::json::PROGRAM)
}
