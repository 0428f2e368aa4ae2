//! `probectl`: see the crate's documentation.

use std::process::ExitCode;

use clap::Parser;
use probe_cli::args::Arguments;
use probe_cli::{commands, output};

fn main() -> ExitCode {
    output::print(commands::run(&Arguments::parse())).into()
}
