//! Attachments that stay for a while.

use clap::Args;

use super::program::Running;

/// The arguments of `enable`.
#[derive(Clone, PartialEq, Eq, Debug, Args)]
pub struct Enable {
    /// Selectors and consumers: `net::**=latency, db::**=count`
    pub spec: String,
    /// The program.
    #[command(flatten)]
    pub running: Running,
    /// Leaves them attached
    #[arg(long)]
    pub keep: bool,
    /// Counts from outside, without any agent, as `count --ptrace` does
    #[arg(long, conflicts_with = "no_inject")]
    pub ptrace: bool,
}

/// The arguments of `disable`.
#[derive(Clone, PartialEq, Eq, Debug, Args)]
pub struct Disable {
    /// Numbers of attachments, as `status` shows them [default: all that were kept]
    pub attachments: Vec<u32>,
    /// The program.
    #[command(flatten)]
    pub running: Running,
    /// Ends what `--ptrace` has begun, also if its `probectl` was killed
    #[arg(long, conflicts_with = "no_inject")]
    pub ptrace: bool,
}

/// The arguments of `status`.
#[derive(Clone, PartialEq, Eq, Debug, Args)]
pub struct Status {
    /// The program.
    #[command(flatten)]
    pub running: Running,
    /// Shows what `--ptrace` counts
    #[arg(long, conflicts_with = "no_inject")]
    pub ptrace: bool,
}
