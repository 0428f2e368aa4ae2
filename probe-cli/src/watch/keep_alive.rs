//! The upkeep of the watch: whether the program is stopped, commands that end, and the end of the
//! watch. All this goes on while an answer is awaited.

use std::mem;
use std::time::Duration;

use super::log::{Event, Log};
use super::shell_commands::ShellCommands;
use crate::live::{Process, Stop};
use crate::output::Failure;

/// The state beside the connection.
pub struct KeepAlive {
    pub process: Process,
    pub commands: ShellCommands,
    log: Log,
    stop: Stop,
    /// The end of the watch, since its beginning.
    end: Option<Duration>,
    /// Whether the program was stopped at the last look.
    is_stopped: bool,
    /// Whether it was stopped since [`KeepAlive::take_has_stopped`].
    has_stopped: bool,
}

impl KeepAlive {
    pub fn new(process: Process, log: Log, stop: Stop) -> Self {
        let commands = ShellCommands::default();
        Self { process, commands, log, stop, end: None, is_stopped: false, has_stopped: false }
    }

    /// Begins the windows: sets the end of the watch, since its beginning, and forgets stops.
    pub fn begin_windows(&mut self, end: Option<Duration>) {
        (self.end, self.has_stopped) = (end, false);
    }

    /// Returns whether the watch is to end: by a signal, or by its time.
    pub fn is_over(&self) -> bool {
        self.stop.is_set() || self.end.is_some_and(|end| self.log.elapsed() >= end)
    }

    /// Returns whether the program was stopped at the last look.
    pub fn is_stopped(&self) -> bool {
        self.is_stopped
    }

    /// Returns whether a look has found the program stopped since the last call.
    pub fn take_has_stopped(&mut self) -> bool {
        mem::take(&mut self.has_stopped)
    }

    /// Logs that the program is stopped or goes on, and the commands that have ended.
    ///
    /// # Errors
    /// If nobody reads the log any further.
    pub fn look(&mut self) -> Result<(), Failure> {
        let was_stopped = mem::replace(&mut self.is_stopped, self.process.is_stopped());
        match (was_stopped, self.is_stopped) {
            (false, true) => {
                self.has_stopped = true;
                let text = "the program is stopped; its rules wait until it goes on";
                self.log.event(Event::Stopped, None, text)?;
            }
            (true, false) if self.process.is_running() => {
                self.log.event(Event::Back, None, "the program goes on")?;
            }
            _ => (),
        }
        self.end_commands()
    }

    /// Logs the commands that have ended.
    ///
    /// # Errors
    /// If nobody reads the log any further.
    pub fn end_commands(&mut self) -> Result<(), Failure> {
        for (rule, result) in self.commands.ended() {
            match result {
                Ok(command) => self.log.event(Event::Done, Some(rule), command)?,
                Err(problem) => self.log.event(Event::Failed, Some(rule), problem)?,
            }
        }
        Ok(())
    }
}
