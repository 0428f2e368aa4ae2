//! Commands that rules run.
//!
//! A shell runs each command, in a process group of its own: Ctrl-C at the terminal of `probectl`
//! does not reach it, and it outlives the watch. It has no input. Its output is discarded, so that
//! it can't disturb the log; a command may redirect it. `PROBE_RULE` has the rule,
//! `PROBE_RULE_NUMBER` its number, `PROBE_FIRING` the number of the firing, `PROBE_VALUES` the
//! figures, and `PROBE_PID` the program's process. A rule runs one command at a time.

use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use probe_lang::rules::Firing;

/// Most bytes of a variable. The system allows twice as many.
const MAX_VARIABLE_LEN: usize = 64 << 10;

/// Commands that have been started.
#[derive(Default)]
pub struct ShellCommands(Vec<Running>);

struct Running {
    rule: usize,
    command: String,
    child: Child,
}

impl ShellCommands {
    /// Starts a command about a program's process.
    ///
    /// # Errors
    /// The reason why it can't be started.
    pub fn start(&mut self, command: &str, firing: &Firing<'_>, pid: u32) -> Result<(), String> {
        if self.0.iter().any(|it| it.rule == firing.rule && it.command == command) {
            return Err(format!("`{command}` still runs since an earlier firing"));
        }
        let values = firing.values.iter().map(|(figure, value)| format!("{figure}={}", figure.shown(*value)));
        let child = Command::new("/bin/sh")
            .args(["-c", command])
            .env("PROBE_RULE", variable(&firing.text.to_string()))
            .env("PROBE_RULE_NUMBER", (firing.rule + 1).to_string())
            .env("PROBE_FIRING", firing.number.to_string())
            .env("PROBE_VALUES", variable(&values.collect::<Vec<_>>().join(", ")))
            .env("PROBE_PID", pid.to_string())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .map_err(|error| format!("`{command}` can't be started: {error}"))?;
        self.0.push(Running { rule: firing.rule, command: command.to_owned(), child });
        Ok(())
    }

    /// Returns the commands that have ended, each with its rule; an error is the reason why one has
    /// failed.
    pub fn ended(&mut self) -> Vec<(usize, Result<String, String>)> {
        let mut ended = Vec::new();
        self.0.retain_mut(|it| {
            let result = match it.child.try_wait() {
                Ok(None) => return true,
                Ok(Some(status)) if status.success() => Ok(it.command.clone()),
                Ok(Some(status)) => Err(format!("`{}` has failed: {status}", it.command)),
                Err(error) => Err(format!("the end of `{}` can't be awaited: {error}", it.command)),
            };
            ended.push((it.rule, result));
            false
        });
        ended
    }

    /// Returns the commands that run, each with its rule.
    pub fn running(&self) -> impl Iterator<Item = (usize, &str)> {
        self.0.iter().map(|it| (it.rule, it.command.as_str()))
    }
}

/// Cuts a variable to its greatest length, and replaces control characters by spaces.
fn variable(text: &str) -> String {
    let mut variable = String::new();
    for c in text.chars().map(|c| if c.is_control() { ' ' } else { c }) {
        if variable.len() + c.len_utf8() > MAX_VARIABLE_LEN {
            break;
        }
        variable.push(c);
    }
    variable
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_cut_and_free_of_control_characters() {
        assert_eq!(variable("a\nb\0\u{9b}é"), "a b  é");
        assert_eq!(variable(&"é".repeat(MAX_VARIABLE_LEN)).len(), MAX_VARIABLE_LEN);
        assert_eq!(variable(&format!("a{}", "é".repeat(MAX_VARIABLE_LEN))).len(), MAX_VARIABLE_LEN - 1);
    }
}
