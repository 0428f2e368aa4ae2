//! Convex hulls of millions of points, by quickhull.
//!
//! ```text
//! cargo run --release --example hull [-- [--profile] [BATCHES [THREADS]]]
//! PROBES='probe_examples::programs::hull::**=call-tree' cargo run --release --example hull
//! ```
//!
//! The program is in `src/programs/hull.rs`; `--profile` samples the calls of all of its functions. With `call-tree`, one sees how
//! deep it recurses.

use std::process::ExitCode;

use probe_examples::programs;

fn main() -> ExitCode {
    programs::main(&programs::hull::PROGRAM)
}
