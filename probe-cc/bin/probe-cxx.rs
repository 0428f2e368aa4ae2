//! `probe-cxx`: see the crate's documentation.

use std::process::ExitCode;

fn main() -> ExitCode {
    probe_cc::main(probe_cc::Language::Cxx)
}
