//! A large JSON file, read by `serde_json`, which calls back the program's own visitors.
//!
//! ```text
//! cargo run --release --example json [-- [--profile] [DOCUMENTS [THREADS]]]
//! PROBES='probe_programs::json::*Visitor::*=latency' cargo run --release --example json
//! ```
//!
//! The program is in `programs/src/json.rs`. `--profile` samples the calls of all of its functions.

use std::process::ExitCode;

fn main() -> ExitCode {
    probe_programs::main(&probe_programs::json::PROGRAM)
}
