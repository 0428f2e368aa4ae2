//! Convex hulls of millions of points, by quickhull.
//!
//! ```text
//! cargo run --release --example hull [-- [--profile] [BATCHES [THREADS]]]
//! PROBES='probe_programs::hull::**=call-tree' cargo run --release --example hull
//! ```
//!
//! The program is in `programs/src/hull.rs`. `--profile` samples the calls of all of its functions.
//! `call-tree` shows the depth of its recursion.

use std::process::ExitCode;

fn main() -> ExitCode {
    probe_programs::main(&probe_programs::hull::PROGRAM)
}
