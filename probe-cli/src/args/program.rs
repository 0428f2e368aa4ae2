//! The program that a command is about.

use clap::{Args, ValueHint};

/// A running program.
#[derive(Clone, PartialEq, Eq, Debug, Args)]
#[group(required = true, multiple = false)]
pub struct Running {
    /// A process
    #[arg(short, long, value_name = "PID")]
    pub pid: Option<u32>,
    /// The only process of this name that can be asked
    #[arg(short, long, value_name = "NAME")]
    pub name: Option<String>,
}

/// A running program, or one to start.
#[derive(Clone, PartialEq, Eq, Debug, Args)]
#[group(required = true, multiple = false)]
pub struct Target {
    /// A process
    #[arg(short, long, value_name = "PID")]
    pub pid: Option<u32>,
    /// The only process of this name that can be asked
    #[arg(short, long, value_name = "NAME")]
    pub name: Option<String>,
    /// A program to start
    #[arg(last = true, value_name = "CMD", value_hint = ValueHint::CommandWithArguments)]
    pub command: Vec<String>,
}
