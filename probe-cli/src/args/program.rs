//! The program that a command is about.

use clap::{Args, ValueHint};

/// A running program.
#[derive(Clone, PartialEq, Eq, Debug, Args)]
pub struct Running {
    /// Its name.
    #[command(flatten)]
    pub which: RunningProgram,
    /// Asks an agent that is there, and brings none
    #[arg(long)]
    pub no_inject: bool,
}

/// A running program, by one of its names.
#[derive(Clone, PartialEq, Eq, Debug, Args)]
#[group(required = true, multiple = false)]
pub struct RunningProgram {
    /// A process
    #[arg(short, long, value_name = "PID")]
    pub pid: Option<u32>,
    /// The only process of this name that can be asked
    #[arg(short, long, value_name = "NAME")]
    pub name: Option<String>,
}

/// A running program, or one to start.
#[derive(Clone, PartialEq, Eq, Debug, Args)]
pub struct Target {
    /// Its name, or its command.
    #[command(flatten)]
    pub which: AnyProgram,
    /// Asks an agent that is there, and brings none
    #[arg(long)]
    pub no_inject: bool,
}

/// A running program by one of its names, or one to start.
#[derive(Clone, PartialEq, Eq, Debug, Args)]
#[group(required = true, multiple = false)]
pub struct AnyProgram {
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
