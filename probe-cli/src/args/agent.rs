//! The commands that bring an agent, or take it away.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, ValueHint};

use super::RunningProgram;

/// The arguments of `attach`.
#[derive(Clone, PartialEq, Eq, Debug, Args)]
pub struct AttachTo {
    /// A process
    #[arg(short, long, value_name = "PID")]
    pub pid: u32,
    /// The library [default: `libprobe_agent.so`, beside `probectl` or in ../lib]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub agent: Option<PathBuf>,
    /// Serves a program without probes, too: its plugins may bring some
    #[arg(long)]
    pub plugins: bool,
}

/// The arguments of `detach`.
#[derive(Clone, PartialEq, Eq, Debug, Args)]
pub struct Detach {
    /// The program.
    #[command(flatten)]
    pub which: RunningProgram,
}

/// The arguments of `run`.
#[derive(Clone, PartialEq, Eq, Debug, Args)]
pub struct Run {
    /// Refused; see [`has_no_json`](super::Command::has_no_json).
    #[arg(long, hide = true)]
    pub json: bool,
    /// The library [default: `libprobe_agent.so`, beside `probectl` or in ../lib]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub agent: Option<PathBuf>,
    /// Leaves the program's children alone: they don't inherit the library
    #[arg(long)]
    pub only: bool,
    /// Serves a program without probes, too: its plugins may bring some
    #[arg(long)]
    pub plugins: bool,
    /// The program and its arguments
    #[arg(
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "CMD",
        value_hint = ValueHint::CommandWithArguments
    )]
    pub command: Vec<OsString>,
}
