//! The command line: our own options, which may stand anywhere before `--`, and cargo's.

use std::ffi::OsString;

use clap::{Args, Parser, Subcommand};

/// Builds a Rust program with a latent probe in each of its functions, and measures it.
///
/// Nothing of yours is written but `target/probe`. All arguments that are not listed are cargo's:
/// `cargo probe profile --release --bin server -- --port 80`, and `cargo probe latency test --lib`.
#[derive(Clone, PartialEq, Eq, Debug, Parser)]
#[command(name = "cargo probe", bin_name = "cargo probe", version)]
pub struct Arguments {
    /// The command.
    #[command(subcommand)]
    pub command: Command,
}

/// A command.
#[derive(Clone, PartialEq, Eq, Debug, Subcommand)]
pub enum Command {
    /// Builds and runs a program, with an agent that `probectl` and PROBES reach
    Run(Build),
    /// Builds and runs the tests
    Test(Build),
    /// Builds and runs the benchmarks
    Bench(Build),
    /// Builds without running
    Build(Build),
    /// Estimates calls and times of all functions, for 1 % of the CPU time
    Profile(Measure),
    /// Measures how long each call takes: mean, percentiles, maximum
    Latency(Measure),
    /// Counts all calls, exactly
    Count(Measure),
    /// Draws the tree of all calls, with times
    Calls(Measure),
    /// Counts cycles, cache misses and page faults of functions
    Perf(Measure),
    /// Counts what functions allocate and free
    Memory(Measure),
    /// Writes what happened when, call by call, into a file: trace.probetrace
    Record(Measure),
    /// Shows each call as it ends, with its time
    Trace(Measure),
    /// Shows the functions of the running program on the whole terminal
    Top(Measure),
    /// Lists the functions with a probe
    List(Build),
    /// Lists the functions without a probe, and says why
    Explain(Build),
}

impl Command {
    /// Returns the selector of the probes that it measures.
    pub fn select(&self) -> Option<&str> {
        match self {
            Self::Profile(it)
            | Self::Latency(it)
            | Self::Count(it)
            | Self::Calls(it)
            | Self::Perf(it)
            | Self::Memory(it)
            | Self::Record(it)
            | Self::Trace(it)
            | Self::Top(it) => Some(&it.select),
            Self::Run(_)
            | Self::Test(_)
            | Self::Bench(_)
            | Self::Build(_)
            | Self::List(_)
            | Self::Explain(_) => None,
        }
    }
}

/// The part of the command line about the build.
#[derive(Clone, PartialEq, Eq, Debug, Args)]
pub struct Build {
    /// Which functions get a probe, by a selector: `net::**, !**::fmt`
    /// [default: all of the workspace]
    #[arg(long, value_name = "SELECTOR")]
    pub only: Option<String>,
    /// Which functions of dependencies get one, too: `tokio::**, hyper::**`
    #[arg(long, value_name = "SELECTOR")]
    pub deps: Option<String>,
    /// The program's allocator gets probes, too, for `memory` in PROBES
    #[arg(long)]
    pub memory: bool,
    /// Small functions get one, too: those marked #[inline], and those of one short expression
    #[arg(long)]
    pub all: bool,
    /// Cargo's own arguments, and behind `--` those of the program
    #[arg(value_name = "CARGO'S", trailing_var_arg = true, allow_hyphen_values = true)]
    pub cargo: Vec<OsString>,
}

impl Build {
    /// Returns the command of cargo's that the arguments begin with: `cargo probe latency test`.
    pub fn command(&self) -> Option<&'static str> {
        let first = self.cargo.first()?;
        ["run", "test", "bench"].into_iter().find(|command| first == command)
    }
}

/// A build, and the selector of a measurement.
#[derive(Clone, PartialEq, Eq, Debug, Args)]
pub struct Measure {
    /// Which of the probes are measured, by a selector
    #[arg(long, value_name = "SELECTOR", default_value = "**")]
    pub select: String,
    /// The build.
    #[command(flatten)]
    pub build: Build,
}

/// Our options that take a value.
const WITH_VALUE: [&str; 3] = ["--only", "--deps", "--select"];

/// Brings our own options to the front: those that follow one of cargo's would be taken for
/// cargo's.
pub fn sorted(arguments: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let mut arguments = arguments.into_iter();
    // This program, and as cargo calls it, the word `probe`.
    let mut first: Vec<_> = arguments.by_ref().take(1).collect();
    let mut arguments = arguments.peekable();
    arguments.next_if(|word| word == "probe");
    first.extend(arguments.next());
    let (mut own, mut rest) = (Vec::new(), Vec::new());
    while let Some(argument) = arguments.next() {
        let text = argument.to_string_lossy().into_owned();
        if text == "--" {
            rest.push(argument);
            rest.extend(arguments.by_ref());
        } else if WITH_VALUE.contains(&text.as_str()) {
            own.push(argument);
            own.extend(arguments.next());
        } else if ["--all", "--memory"].contains(&text.as_str())
            || WITH_VALUE.iter().any(|it| text.starts_with(&format!("{it}=")))
        {
            own.push(argument);
        } else {
            rest.push(argument);
        }
    }
    first.extend(own);
    if !rest.is_empty() && rest[0] != "--help" && rest[0] != "-h" {
        first.push("--".into());
    }
    first.extend(rest);
    first
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Arguments {
        Arguments::try_parse_from(sorted(line.split_whitespace().map(OsString::from))).unwrap()
    }

    #[test]
    fn own_options_stand_anywhere_before_those_of_the_program() {
        for line in [
            "cargo-probe probe latency --release --select a::** --bin x --all -- --all --only y",
            "cargo-probe latency --all --select=a::** --release --bin x -- --all --only y",
        ] {
            let Command::Latency(measure) = parsed(line).command else { panic!("{line}") };
            assert_eq!(
                (measure.select.as_str(), measure.build.all, measure.build.only),
                ("a::**", true, None)
            );
            assert_eq!(measure.build.cargo, ["--release", "--bin", "x", "--", "--all", "--only", "y"]);
        }
        let Command::Run(build) = parsed("cargo-probe probe run").command else { panic!() };
        assert_eq!((build.all, build.cargo.len()), (false, 0));
    }
}
