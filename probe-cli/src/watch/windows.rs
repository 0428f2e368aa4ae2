//! The loop that lets the rules' driver read the program once a window.

use std::mem;
use std::time::Duration;

use probe_lang::rules::{Engine, Event, RuleDriver, RuleHost};

use super::connection::{Connection, KeepAlive, STOPPED};
use super::log::Log;
use crate::live::{POLL_INTERVAL, Process, Program, Stop};
use crate::output::Failure;

/// The rules that a program is watched by.
pub struct Watch(RuleDriver<Connection>);

impl Watch {
    /// Takes a connection, and the rules.
    pub fn new(program: Program, engine: Engine, log: Log, stop: Stop) -> Self {
        let Program { client, process } = program;
        Self(RuleDriver::new(engine, Connection::new(client, KeepAlive::new(process, log, stop))))
    }

    /// Attaches the consumers that the rules need, and takes the baseline. The texts to arm are
    /// attached for a moment, so that a mistake shows now and not when a rule fires.
    ///
    /// # Errors
    /// A text that the program finds malformed. Any other refusal is logged.
    pub fn start(&mut self) -> Result<(), Failure> {
        let pid = self.keep_alive().process.pid;
        self.0.start(pid)?;
        self.0.host.is_starting = false;
        Ok(())
    }

    fn keep_alive(&mut self) -> &mut KeepAlive {
        &mut self.0.host.keep_alive
    }

    /// Runs windows until the time is over, a signal comes, or the program ends.
    ///
    /// # Errors
    /// If nobody reads the log any further.
    pub fn run(&mut self, every: Duration, time: Option<Duration>) -> Result<(), Failure> {
        let mut from = self.0.host.elapsed();
        let end = time.map(|time| time.saturating_add(from));
        let keep_alive = self.keep_alive();
        (keep_alive.end, keep_alive.has_stopped) = (end, false);
        let mut next = from.saturating_add(every);
        loop {
            let now = self.0.host.elapsed();
            let (is_up, keep_alive) = (self.0.host.is_up(), self.keep_alive());
            if keep_alive.is_over() || !is_up && !keep_alive.process.is_running() {
                return Ok(());
            }
            keep_alive.look()?;
            if !keep_alive.is_stopped {
                self.0.finish_recordings(Some(now))?;
            }
            if now >= next {
                from = self.end_window(from, now)?;
                // A late window skips those that it missed.
                next = self.0.host.elapsed().saturating_add(every);
            }
            let is_stopped = self.keep_alive().is_stopped;
            let due = self.0.next_due().filter(|_| !is_stopped);
            let until = [end, Some(next), due].into_iter().flatten().min();
            let left = until.map_or(POLL_INTERVAL, |at| at.saturating_sub(self.0.host.elapsed()));
            let was_up = self.0.host.is_up();
            if !self.0.host.wait(left.min(POLL_INTERVAL)) && was_up {
                self.0.forget("the program has ended the connection")?;
            }
        }
    }

    /// Ends a window, and returns its end. The window of a stopped program is unknown. If the
    /// program was stopped in between, there is an unknown window before the readings, so that no
    /// condition holds for the time of the stop.
    fn end_window(&mut self, mut from: Duration, mut to: Duration) -> Result<Duration, Failure> {
        let mut readings = Vec::new();
        if !self.keep_alive().is_stopped {
            match self.0.host.reconnect_if_due() {
                Some(Ok(())) => self.0.host.log(Event::Back, None, "the program answers again")?,
                Some(Err(reason)) => self.0.host.log(Event::Failed, None, reason)?,
                None => (),
            }
            readings = self.0.read()?;
        }
        if mem::take(&mut self.keep_alive().has_stopped) && !readings.is_empty() {
            to = self.0.host.elapsed();
            self.0.step(Vec::new(), from, to)?;
            from = to;
        }
        self.0.step(readings, from, to)?;
        Ok(to)
    }

    /// Detaches all, and logs the numbers of each rule. Returns the program's process.
    ///
    /// # Errors
    /// If nobody reads the log any further.
    pub fn finish(mut self) -> Result<Process, Failure> {
        self.keep_alive().look()?;
        if self.0.host.is_up() && self.keep_alive().is_stopped {
            self.0.host.end();
            self.0.forget(STOPPED)?;
        }
        // The end of the connection detaches, too. It is orderly this way.
        self.0.finish()?;
        self.keep_alive().end()?;
        self.0.summarize("watch")?;
        Ok(self.0.host.keep_alive.process)
    }
}
