//! The connection to the program, which may be lost and come back.
//!
//! A request fails in two ways. The program refuses it: then the connection is as before. Or no
//! sound answer comes: then the connection is ended, so that the program detaches all that it may
//! have attached meanwhile. No part of an answer is awaited for longer than the client's patience.

use std::fmt;
use std::time::Duration;

use probe_protocol::{Attach, Client, ClientError, Failure, FailureKind};
use probe_runtime::__tools::rules::Patience;

use crate::live::Process;

/// The time for an answer after a file is finished.
const OF_FILES: Duration = Duration::from_secs(60);

/// The connection.
pub struct Link {
    client: Option<Client>,
    patience: Patience,
}

/// Why a request failed.
#[derive(Debug)]
pub enum Trouble {
    /// The program refuses.
    Refused(Failure),
    /// The connection has ended just now.
    Lost(String),
    /// The connection had ended before.
    Away,
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(failure) => fmt::Display::fmt(failure, f),
            Self::Lost(reason) => f.write_str(reason),
            Self::Away => f.write_str("the program gives no answer"),
        }
    }
}

/// An attachment, and the program's notes on it.
pub struct Attached {
    pub id: u32,
    pub notes: Vec<String>,
}

impl From<probe_protocol::Attached> for Attached {
    fn from(attached: probe_protocol::Attached) -> Self {
        let notes = attached.consumers.into_iter().flat_map(|it| it.notes).collect();
        Self { id: attached.id, notes }
    }
}

impl Link {
    pub fn new(client: Client) -> Self {
        Self { client: Some(client), patience: Patience::default() }
    }

    pub fn is_up(&self) -> bool {
        self.client.is_some()
    }

    /// Ends the connection, so that the program detaches all.
    pub fn end(&mut self) {
        self.client = None;
    }

    /// Asks the program. After a failure that is no refusal, the connection is ended.
    pub fn ask<T>(
        &mut self,
        request: impl FnOnce(&mut Client) -> Result<T, ClientError>,
    ) -> Result<T, Trouble> {
        let Some(client) = &mut self.client else { return Err(Trouble::Away) };
        match request(client) {
            Ok(answer) => Ok(answer),
            Err(ClientError::Failed(failure)) if failure.kind != FailureKind::Protocol => {
                Err(Trouble::Refused(failure))
            }
            Err(error) => {
                self.client = None;
                Err(Trouble::Lost(error.to_string()))
            }
        }
    }

    /// Asks for something that takes the program longer: it finishes a file before it answers.
    pub fn ask_for_file<T>(
        &mut self,
        request: impl FnOnce(&mut Client) -> Result<T, ClientError>,
    ) -> Result<T, Trouble> {
        self.ask(|client| {
            let patience = client.set_patience(OF_FILES);
            let answer = request(client);
            client.set_patience(patience);
            answer
        })
    }

    /// Attaches consumers.
    pub fn attach(&mut self, spec: &str) -> Result<Attached, Trouble> {
        self.ask(|client| client.attach(&Attach::new(spec))).map(Attached::from)
    }

    /// Detaches. If the program does not answer, the end of the connection detaches.
    pub fn detach(&mut self, id: u32) -> Result<Vec<String>, Trouble> {
        self.ask(|client| client.detach(id))
    }

    /// Waits at most for this time, and returns early if the program ends the connection. Returns
    /// whether it is up.
    pub fn wait(&mut self, at_most: Duration) -> bool {
        match self.client.as_ref().map(|client| client.wait_for_end(at_most)) {
            Some(Ok(false)) => true,
            Some(_) => {
                self.client = None;
                false
            }
            None => {
                std::thread::sleep(at_most);
                false
            }
        }
    }

    /// Connects anew, if the next try is due. A process that has got the program's id is left
    /// alone.
    ///
    /// # Errors
    /// The reason why there is still no connection.
    pub fn try_again(&mut self, process: &Process) -> Option<Result<(), String>> {
        if self.client.is_some() || !self.patience.is_due() {
            return None;
        }
        Some(match Client::connect(process.pid) {
            // It ran after the connection was made, so the connection is its own.
            Ok(client) if process.is_running() => {
                self.client = Some(client);
                self.patience.succeed();
                Ok(())
            }
            Ok(_) => {
                self.patience.fail();
                Err(format!("another program has the process id {} now", process.pid))
            }
            Err(error) => {
                self.patience.fail();
                Err(error.to_string())
            }
        })
    }
}
