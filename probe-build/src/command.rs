//! Commands made from a command.

use std::ffi::{OsStr, OsString};
use std::process::Command;

/// Returns the same program in the same environment, with these arguments.
pub(crate) fn with_arguments(command: &Command, arguments: &[OsString]) -> Command {
    let mut new = Command::new(command.get_program());
    new.args(arguments);
    for (key, value) in command.get_envs() {
        match value {
            Some(value) => new.env(key, value),
            None => new.env_remove(key),
        };
    }
    new
}

pub(crate) fn again(command: &Command) -> Command {
    let arguments: Vec<_> = command.get_args().map(OsStr::to_owned).collect();
    with_arguments(command, &arguments)
}

/// Returns the first line of a command's error output that names a problem, for one line of a
/// message.
pub(crate) fn complaint(stderr: &[u8]) -> String {
    let text = String::from_utf8_lossy(stderr);
    let lines = || text.lines().map(str::trim).filter(|line| !line.is_empty());
    lines()
        .find(|line| line.to_ascii_lowercase().contains("error"))
        .or_else(|| lines().next())
        .unwrap_or("it fails without a word")
        .to_owned()
}
