//! One file for each command. Commands return their output; only
//! [`output::print`](crate::output::print) writes to the terminal.

mod audit;
mod convert;
mod diff;
mod doctor;
mod list;
mod report;
mod written;

use crate::args::{Arguments, Command};
use crate::output::{Failure, Shown};

/// Runs the command that the command line names.
///
/// # Errors
/// [`Failure`] names the problem and a remedy.
pub fn run(arguments: &Arguments) -> Result<Shown, Failure> {
    let is_json = arguments.json;
    match &arguments.command {
        Command::List(list) => list::run(list, is_json),
        Command::Audit(audit) => audit::run(audit, is_json),
        Command::Convert(convert) => convert::run(convert),
        Command::Report(report) => report::run(report, is_json),
        Command::Diff(diff) => diff::run(diff, is_json),
        Command::Doctor => doctor::run(is_json),
        Command::Completions(completions) => Ok(written::completions(completions)),
        Command::Man(man) => written::man(man),
    }
}
