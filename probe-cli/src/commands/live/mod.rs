//! The commands on running programs.

mod agent;
mod attachments;
mod measure;
#[cfg(target_arch = "x86_64")]
mod ptrace_count;
mod record;
mod top;
mod trace;
mod watch;

pub(super) use attachments::unreadable_notes;

use crate::args::LiveCommand;
use crate::output::{Failure, Output};

pub(super) fn run(command: &LiveCommand, is_json: bool) -> Result<Output, Failure> {
    match command {
        #[cfg(target_arch = "x86_64")]
        LiveCommand::Count(args) if args.ptrace => {
            ptrace_count::run(&args.measure, args.list.as_ref(), is_json)
        }
        LiveCommand::Count(args) => measure::run(&args.measure, "count", is_json),
        LiveCommand::Latency(args) => {
            measure::run(&args.measure, if args.cpu { "latency(cpu)" } else { "latency" }, is_json)
        }
        LiveCommand::Aggregate(args) => measure::run(&args.measure, &args.aggregation, is_json),
        LiveCommand::Calls(args) => {
            measure::run(&args.measure, if args.cpu { "call-tree(cpu)" } else { "call-tree" }, is_json)
        }
        LiveCommand::Profile(args) => measure::run(args, "profile", is_json),
        LiveCommand::Perf(args) => measure::run(args, "perf", is_json),
        LiveCommand::Top(args) => top::run(args, is_json),
        LiveCommand::Trace(args) => trace::run(args, is_json),
        LiveCommand::Record(args) => record::run(args, is_json),
        LiveCommand::Snapshot(args) => record::snapshot(args, is_json),
        LiveCommand::Watch(args) => watch::run(args, is_json),
        #[cfg(target_arch = "x86_64")]
        LiveCommand::Enable(args) if args.ptrace => ptrace_count::enable(args, is_json),
        LiveCommand::Enable(args) => attachments::enable(args, is_json),
        #[cfg(target_arch = "x86_64")]
        LiveCommand::Disable(args) if args.ptrace => ptrace_count::disable(args, is_json),
        LiveCommand::Disable(args) => attachments::disable(args, is_json),
        #[cfg(target_arch = "x86_64")]
        LiveCommand::Status(args) if args.ptrace => ptrace_count::status(args, is_json),
        LiveCommand::Status(args) => attachments::status(args, is_json),
        LiveCommand::Attach(args) => agent::attach(args, is_json),
        LiveCommand::Detach(args) => agent::detach(args, is_json),
        LiveCommand::Run(args) => agent::run(args),
    }
}
