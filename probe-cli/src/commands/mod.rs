//! The commands: here those on files, in `live` those on running programs. Commands return their
//! output, and [`output::print`](crate::output::print) writes it. Commands that show reports or
//! lines as they come write these themselves.

mod audit;
mod bpftrace;
#[cfg(target_os = "linux")]
mod cc;
mod coldpatch;
mod doctor;
mod list;
#[cfg(target_os = "linux")]
mod live;
mod traces;

use crate::args::{Arguments, Command};
use crate::output::{Failure, Output};
use crate::terminal_width;

/// Runs the command that the command line names.
///
/// # Errors
/// [`Failure`] names the problem and a remedy.
pub fn run(arguments: &Arguments) -> Result<Output, Failure> {
    let is_json = arguments.json;
    if arguments.wide {
        terminal_width::keep_whole();
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
        Command::Coldpatch(coldpatch) => coldpatch::run(coldpatch, is_json),
        Command::Convert(convert) => traces::convert(convert, is_json),
        Command::Report(report) => traces::report(report, is_json),
        Command::Diff(diff) => traces::diff(diff, is_json),
        #[cfg(target_os = "linux")]
        Command::Live(command) => live::run(command, is_json),
        #[cfg(target_os = "linux")]
        Command::Cc(command) => cc::run(command),
        Command::Doctor => doctor::run(is_json),
        Command::Completions(completions) => Ok(Output::text(completions.script())),
        Command::Man(man) => man.page().map(Output::text),
    }
}
