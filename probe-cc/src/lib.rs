#![doc = include_str!("../README.md")]
//!
//! # How it works
//! ```text
//! probe-cc -O2 -c a.c -o a.o
//!    │ compiler: gcc        choice: which functions
//!    ├▶ probe_build::driver: gcc -S ▶ sites ▶ assemble ──▶ a.o; its functions ▶ log
//!    └▶ anything in the way ──▶ gcc with the same arguments, in place of this program; why ▶ log
//! ```
#![forbid(unsafe_code)]

mod check;
mod choice;
mod compile;
mod compiler;
mod log;
mod setup;
mod signals;

use std::env;
use std::process::ExitCode;

pub use compiler::Language;

/// Runs the program, as a compiler of this language.
pub fn main(language: Language) -> ExitCode {
    let mut args = env::args_os();
    let own = args.next().unwrap_or_default();
    let args: Vec<_> = args.collect();
    match compile::run(compiler::language(&own, language), &args) {
        Ok(code) => code,
        Err(mistake) => {
            eprintln!("probe-cc: {mistake}");
            ExitCode::FAILURE
        }
    }
}
