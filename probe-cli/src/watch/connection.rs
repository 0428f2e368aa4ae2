//! The connection to the program, which may be lost and come back.
//!
//! A request fails in two ways. If the program refuses it, the connection stays. If no sound answer
//! comes, the connection is ended, so that the program detaches all that it may have attached
//! meanwhile.
//!
//! A request runs on a thread of its own, and [`KeepAlive`] does the upkeep until the answer is
//! there. The time for an answer stands still while the program is stopped. If the watch ends then,
//! it ends the connection, and so the thread.

use std::io;
use std::mem;
use std::net::Shutdown;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use probe_lang::rules::{Backoff, Event, HostError};
use probe_protocol::{Client, ClientError, FailureKind, Liveness};

use super::log::Log;
use super::shell_commands::ShellCommands;
use crate::live::{POLL_INTERVAL, Process, Stop};
use crate::output::Failure;

/// The time for an answer.
pub const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);
/// The time for an answer before which the program finishes a file.
pub const FILE_TIMEOUT: Duration = Duration::from_secs(60);
/// Why the watch ends the connection to a stopped program.
pub const STOPPED: &str = "the program is stopped; it detaches all when it goes on";

/// The connection.
pub struct Connection {
    /// `None` after the end of the connection.
    pub(super) client: Option<Client>,
    pauses: Backoff,
    pub keep_alive: KeepAlive,
    /// Whether a text that the program finds malformed ends the watch.
    pub is_starting: bool,
}

/// Returns why a request failed: after a refusal the connection stays.
fn request_error(error: ClientError) -> HostError<Failure> {
    let failure = match error {
        ClientError::Failed(failure) if failure.kind != FailureKind::Protocol => failure,
        error => return HostError::Lost(error.to_string()),
    };
    match failure.kind {
        FailureKind::Malformed => HostError::Malformed(failure.to_string()),
        FailureKind::Unknown => HostError::Gone(failure.to_string()),
        _ => HostError::Refused(failure.to_string()),
    }
}

/// Returns the error of a request after the end of the connection.
fn away() -> HostError<Failure> {
    HostError::Refused("the program gives no answer".to_owned())
}

impl Connection {
    pub fn new(client: Client, keep_alive: KeepAlive) -> Self {
        let client = Some(without_timeout(client));
        Self { client, pauses: Backoff::default(), keep_alive, is_starting: true }
    }

    /// Ends the connection, so that the program detaches all.
    pub fn end(&mut self) {
        self.client = None;
    }

    /// Asks the program, and waits for its answer up to a time. Any failure but a refusal ends the
    /// connection.
    pub fn ask<T: Send>(
        &mut self,
        time: Duration,
        request: impl FnOnce(&mut Client) -> Result<T, ClientError> + Send,
    ) -> Result<T, HostError<Failure>> {
        let Some(client) = &mut self.client else { return Err(away()) };
        let answer = await_answer(client, &mut self.keep_alive, time, request);
        if matches!(answer, Err(HostError::Lost(_) | HostError::Fatal(_))) {
            self.client = None;
        }
        answer
    }

    /// Waits at most for this time, and returns early if the program ends the connection, or is
    /// about to. Returns whether it is up.
    pub fn wait(&mut self, at_most: Duration) -> bool {
        match self.client.as_mut().map(|client| client.wait_for_end(at_most)) {
            Some(Ok(Liveness::Running)) => true,
            Some(_) => {
                self.client = None;
                false
            }
            None => {
                thread::sleep(at_most);
                false
            }
        }
    }

    /// Connects anew, if the next try is due. A process that has got the program's id is left
    /// alone.
    ///
    /// # Errors
    /// The reason why there is still no connection.
    pub fn reconnect_if_due(&mut self) -> Option<Result<(), String>> {
        if self.client.is_some() || !self.pauses.is_due() {
            return None;
        }
        let process = &self.keep_alive.process;
        let connected = match Client::connect(process.pid) {
            // The process ran after the connection was made, so the connection is its own.
            Ok(client) if process.is_running() => Ok(client),
            Ok(_) => Err(format!("another program has the process id {} now", process.pid)),
            Err(error) => Err(error.to_string()),
        };
        self.pauses.note(connected.is_ok());
        Some(connected.map(|client| self.client = Some(without_timeout(client))))
    }
}

/// Lets a client wait forever, since [`await_answer`] limits the time.
fn without_timeout(mut client: Client) -> Client {
    client.set_timeout(Duration::MAX);
    client
}

/// Waits for an answer, and does the upkeep after each [`POLL_INTERVAL`].
fn await_answer<T: Send>(
    client: &mut Client,
    keep_alive: &mut KeepAlive,
    time: Duration,
    request: impl FnOnce(&mut Client) -> Result<T, ClientError> + Send,
) -> Result<T, HostError<Failure>> {
    let lost = |error: io::Error| HostError::Lost(format!("the program can't be asked: {error}"));
    let socket = UnixStream::from(client.as_fd().try_clone_to_owned().map_err(lost)?);
    let (outcome, answers) = mpsc::sync_channel(1);
    thread::scope(|scope| {
        // If the watch has given up, nothing takes the answer.
        let run = move || drop(outcome.send(request(client).map_err(request_error)));
        let thread = thread::Builder::new().name("request".to_owned());
        thread.spawn_scoped(scope, run).map_err(lost)?;
        let mut left = time;
        let trouble = loop {
            match answers.recv_timeout(POLL_INTERVAL) {
                Ok(answer) => {
                    // Any answer but a lost connection means that the program was resumed.
                    if keep_alive.is_stopped && !matches!(answer, Err(HostError::Lost(_))) {
                        keep_alive.look().map_err(HostError::Fatal)?;
                    }
                    return answer;
                }
                // The thread has panicked, and so does the scope.
                Err(RecvTimeoutError::Disconnected) => return Err(away()),
                Err(RecvTimeoutError::Timeout) => (),
            }
            if let Err(failure) = keep_alive.look() {
                break HostError::Fatal(failure);
            }
            if keep_alive.is_stopped {
                if keep_alive.is_over() {
                    break HostError::Lost(STOPPED.to_owned());
                }
                continue;
            }
            // Intervals are counted, since a clock continues while this process is stopped.
            left = left.saturating_sub(POLL_INTERVAL);
            if left.is_zero() {
                break request_error(ClientError::TimedOut);
            }
        };
        // So the thread returns, unless it has already.
        let _ = socket.shutdown(Shutdown::Both);
        Err(trouble)
    })
}

/// The upkeep of the watch, which continues while an answer is awaited: whether the program is
/// stopped, commands that end, and the end of the watch.
pub struct KeepAlive {
    pub process: Process,
    pub commands: ShellCommands,
    pub(super) log: Log,
    stop: Stop,
    /// The end of the watch, since its beginning.
    pub end: Option<Duration>,
    /// Whether the program was stopped at the last look.
    pub is_stopped: bool,
    /// Whether a look has found it stopped in this window.
    pub has_stopped: bool,
}

impl KeepAlive {
    pub fn new(process: Process, log: Log, stop: Stop) -> Self {
        let commands = ShellCommands::default();
        Self { process, commands, log, stop, end: None, is_stopped: false, has_stopped: false }
    }

    /// Returns whether the watch is to end: by a signal, or by its time.
    pub fn is_over(&self) -> bool {
        self.stop.is_set() || self.end.is_some_and(|end| self.log.elapsed() >= end)
    }

    /// Logs that the program is stopped or continues, and the commands that have ended.
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

    fn end_commands(&mut self) -> Result<(), Failure> {
        for (rule, result) in self.commands.ended() {
            match result {
                Ok(command) => self.log.event(Event::Done, Some(rule), command)?,
                Err(problem) => self.log.event(Event::Failed, Some(rule), problem)?,
            }
        }
        Ok(())
    }

    /// Logs the commands that have ended, and those that go on.
    ///
    /// # Errors
    /// If nobody reads the log any further.
    pub fn end(&mut self) -> Result<(), Failure> {
        self.end_commands()?;
        for (rule, command) in self.commands.running() {
            self.log.event(Event::Left, Some(rule), format_args!("`{command}` goes on"))?;
        }
        Ok(())
    }
}
