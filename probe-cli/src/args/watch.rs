//! The arguments of `watch`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueHint};
use probe_lang::units::time;

use super::program::Target;
use super::values::window;

/// The arguments of `watch`.
#[derive(Clone, PartialEq, Eq, Debug, Args)]
pub struct Watch {
    /// Rules: `when rate(net::handle) > 1K then arm db::*=latency`
    #[arg(required_unless_present = "files", value_name = "RULE")]
    pub rules: Vec<String>,
    /// A file of rules, one on each line; lines that begin with `#` are comments
    #[arg(short = 'f', long = "file", value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub files: Vec<PathBuf>,
    /// The program.
    #[command(flatten)]
    pub target: Target,
    /// The time of a window, at least 10ms
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = window)]
    pub every: Duration,
    /// Ends after this time [default: at Ctrl-C, or with the program]
    #[arg(long = "for", value_name = "TIME", value_parser = time)]
    pub time: Option<Duration>,
}
