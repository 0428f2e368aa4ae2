//! `cargo probe`: see the crate's documentation.

use std::process::ExitCode;

fn main() -> ExitCode {
    cargo_probe::main()
}
