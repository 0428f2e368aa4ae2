#![doc = include_str!("../README.md")]
//!
//! # How it works
//! ```text
//! cargo probe profile ──▶ args ▶ cargo ─┬▶ runtime: built once          ▶ choice
//!                                       ├▶ cargo run, with a wrapper of the compiler and a runner
//!                                       │    compiler: invocation ▶ sources ▶ insert ▶ mirror ▶ rustc
//!                                       │    probectl run: the program, with the agent ▶ a report
//!                                       └▶ listing: which functions have none, and why
//! ```
#![forbid(unsafe_code)]

mod args;
mod cargo;
mod choice;
mod compiler;
mod insert;
mod invocation;
mod listing;
mod lock;
mod mirror;
mod runtime;
mod sources;

use std::env;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Parser;
use probe_cli::output::Failure;
use probe_cli::{commands, output};

use crate::args::{Arguments, Build, Command, Measure, sorted};
use crate::cargo::{
    COMPILER, DOCUMENTER, KEEPER, Measured, PROBECTL, Workspace, document, exit_code, selector,
};

/// Runs the program under the name that it was started with: `cargo-probe`, or one of those under
/// which cargo calls it back.
pub fn main() -> ExitCode {
    let mut arguments = env::args_os();
    let own = arguments.next().map(PathBuf::from).unwrap_or_default();
    let folder = own.parent().unwrap_or(Path::new("."));
    let done = match own.file_name().and_then(|name| name.to_str()) {
        Some(COMPILER) => compiler::run(folder, &arguments.collect::<Vec<_>>())
            .map_err(|error| Failure::Input(format!("{}: {error}", own.display()))),
        Some(KEEPER) => return lock::keep(&arguments.collect::<Vec<_>>()),
        Some(DOCUMENTER) => document(folder, &arguments.collect::<Vec<_>>()),
        Some(PROBECTL) => {
            let done = commands::run(&probe_cli::args::Arguments::parse());
            let ended = done.as_ref().ok().and_then(|it| it.ended);
            let exit = output::print(done);
            return ended.map_or(exit.into(), exit_code);
        }
        _ => run(&Arguments::parse_from(sorted(env::args_os())).command),
    };
    done.unwrap_or_else(|failure| output::print(Err(failure)).into())
}

fn run(command: &Command) -> Result<ExitCode, Failure> {
    if let Some(select) = command.select() {
        selector(select)?;
    }
    let (build, name, measured) = match command {
        Command::Run(build) => (build, "run", Measured::Nothing),
        Command::Test(build) => (build, "test", Measured::Nothing),
        Command::Bench(build) => (build, "bench", Measured::Nothing),
        Command::Build(build) => (build, "build", Measured::Nothing),
        Command::Profile(measure) => measuring(measure, "profile"),
        Command::Latency(measure) => measuring(measure, "latency"),
        Command::Count(measure) => measuring(measure, "count"),
        Command::Calls(measure) => measuring(measure, "call-tree"),
        Command::Perf(measure) => measuring(measure, "perf"),
        Command::Memory(measure) => measuring(measure, "memory"),
        Command::Record(measure) => {
            // Tests and benchmarks are several processes, in the same folder.
            let number = if measure.build.command().is_some() { "-%p" } else { "" };
            measuring(measure, &format!("trace(file=trace{number}.probetrace)"))
        }
        Command::Trace(measure) => measuring(measure, &format!("slow(over=1ns, at_most={})", u32::MAX)),
        Command::Top(measure) => {
            let words = vec!["top".into(), measure.select.clone().into()];
            (&measure.build, measure.build.command().unwrap_or("run"), Measured::Probectl(words))
        }
        Command::List(build) | Command::Explain(build) => {
            let workspace = Workspace::new(build)?;
            let ended = workspace.run("build", &Measured::Nothing)?;
            if ended == ExitCode::SUCCESS {
                workspace.print(matches!(command, Command::List(_)));
            }
            return Ok(ended);
        }
    };
    let build = Build { memory: build.memory || matches!(command, Command::Memory(_)), ..build.clone() };
    Workspace::new(&build)?.run(name, &measured)
}

/// Returns the measurement of a command, from the program's start to its end. It is one of
/// `cargo run`, unless cargo's first argument is `test` or `bench`.
fn measuring<'a>(measure: &'a Measure, consumer: &str) -> (&'a Build, &'static str, Measured) {
    let command = measure.build.command().unwrap_or("run");
    (&measure.build, command, Measured::Probes(format!("{}={consumer}", measure.select)))
}
