//! One file for each command. Commands return their output; only
//! [`output::print`](crate::output::print) writes to the terminal.

#[cfg(target_os = "linux")]
mod attach;
mod audit;
mod bpftrace;
mod completions;
mod convert;
mod diff;
mod doctor;
#[cfg(target_os = "linux")]
mod enable;
#[cfg(target_os = "linux")]
mod hit_lines;
mod list;
#[cfg(target_os = "linux")]
mod measure;
mod probe_rows;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod ptrace_count;
#[cfg(target_os = "linux")]
mod record;
mod report;
#[cfg(target_os = "linux")]
mod run;
#[cfg(target_os = "linux")]
mod status;
#[cfg(target_os = "linux")]
mod top;
#[cfg(target_os = "linux")]
mod trace;
#[cfg(target_os = "linux")]
mod watch;

use crate::args::{Arguments, Command};
use crate::output::{Failure, Output};
use crate::table_width;

/// Runs the command that the command line names.
///
/// # Errors
/// [`Failure`] names the problem and a remedy.
pub fn run(arguments: &Arguments) -> Result<Output, Failure> {
    let is_json = arguments.json;
    if arguments.wide {
        table_width::keep_whole();
    }
    #[cfg(not(target_arch = "x86_64"))]
    if arguments.command.is_by_ptrace() {
        return Err(Failure::Input("--ptrace is for programs of x86-64".to_owned()));
    }
    if is_json && let Some(reason) = arguments.command.has_no_json() {
        return Err(Failure::Usage(format!("{reason}; leave `--json` out")));
    }
    match &arguments.command {
        Command::List(list) => list::run(list, is_json),
        Command::Audit(audit) => audit::run(audit, is_json),
        Command::Convert(convert) => convert::run(convert, is_json),
        Command::Report(report) => report::run(report, is_json),
        Command::Diff(diff) => diff::run(diff, is_json),
        #[cfg(all(target_os = "linux", target_arch = "x86_64"))]
        Command::Count(args) if args.ptrace => ptrace_count::run(&args.measure, is_json),
        #[cfg(target_os = "linux")]
        Command::Count(args) => measure::run(&args.measure, "count", is_json),
        #[cfg(target_os = "linux")]
        Command::Latency(args) => measure::run(args, "latency", is_json),
        #[cfg(target_os = "linux")]
        Command::Aggregate(args) => measure::run(&args.measure, &args.aggregation, is_json),
        #[cfg(target_os = "linux")]
        Command::Calls(args) => measure::run(args, "call-tree", is_json),
        #[cfg(target_os = "linux")]
        Command::Profile(args) => measure::run(args, "profile", is_json),
        #[cfg(target_os = "linux")]
        Command::Perf(args) => measure::run(args, "perf", is_json),
        #[cfg(target_os = "linux")]
        Command::Top(args) => top::run(args, is_json),
        #[cfg(target_os = "linux")]
        Command::Trace(args) => trace::run(args, is_json),
        #[cfg(target_os = "linux")]
        Command::Record(args) => record::run(args, is_json),
        #[cfg(target_os = "linux")]
        Command::Snapshot(args) => record::snapshot(args, is_json),
        #[cfg(target_os = "linux")]
        Command::Watch(args) => watch::run(args, is_json),
        #[cfg(all(target_os = "linux", target_arch = "x86_64"))]
        Command::Enable(args) if args.ptrace => ptrace_count::enable(args, is_json),
        #[cfg(target_os = "linux")]
        Command::Enable(args) => enable::run(args, is_json),
        #[cfg(all(target_os = "linux", target_arch = "x86_64"))]
        Command::Disable(args) if args.ptrace => ptrace_count::disable(args, is_json),
        #[cfg(target_os = "linux")]
        Command::Disable(args) => enable::disable(args, is_json),
        #[cfg(all(target_os = "linux", target_arch = "x86_64"))]
        Command::Status(args) if args.ptrace => ptrace_count::status(args, is_json),
        #[cfg(target_os = "linux")]
        Command::Status(args) => status::run(args, is_json),
        #[cfg(target_os = "linux")]
        Command::Attach(args) => attach::run(args, is_json),
        #[cfg(target_os = "linux")]
        Command::Detach(args) => attach::detach(args, is_json),
        #[cfg(target_os = "linux")]
        Command::Run(args) => run::run(args),
        Command::Doctor => doctor::run(is_json),
        Command::Completions(completions) => Ok(completions::completions(completions)),
        Command::Man(man) => completions::man(man),
    }
}
