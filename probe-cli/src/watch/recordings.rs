//! Traces that are being recorded for rules, each for its time.

use std::path::Path;
use std::time::Duration;

use probe_protocol::Attach;
use probe_runtime::__tools::Output;

use super::connection::{Attached, Connection, RequestError};

/// Recordings under way.
#[derive(Default)]
pub struct Recordings(Vec<Recording>);

struct Recording {
    rule: usize,
    id: u32,
    output: Output,
    /// When it ends, since the beginning of the watch.
    due: Duration,
}

/// Why a recording can't begin.
pub enum RecordingError {
    /// The file can't be made.
    File(String),
    /// The program refuses, or the connection has ended.
    Request(RequestError),
}

impl Recordings {
    /// Begins a recording. Returns the file's path, and the program's notes. `due` is called as it
    /// begins, for its end.
    ///
    /// # Errors
    /// There is no file then, and no attachment.
    pub fn begin(
        &mut self,
        connection: &mut Connection,
        rule: usize,
        selector: &str,
        path: &Path,
        due: impl FnOnce() -> Duration,
    ) -> Result<(String, Vec<String>), RecordingError> {
        let unwritable =
            |error| RecordingError::File(format!("{} can't be written: {error}", path.display()));
        let output = Output::create(path).map_err(unwritable)?;
        let attach = Attach { output: Some(output.name()), ..Attach::new(format!("{selector}=trace")) };
        match connection.ask(|client| client.record(&attach, &output.file)) {
            Ok(attached) => {
                let Attached { id, notes } = attached.into();
                let shown = output.path.display().to_string();
                self.0.push(Recording { rule, id, output, due: due() });
                Ok((shown, notes))
            }
            Err(trouble) => {
                output.discard();
                Err(RecordingError::Request(trouble))
            }
        }
    }

    /// Finishes one that is due, or any if the time is `None`. Returns its rule, its file, and the
    /// program's words on it. It is detached in any case, at the latest with the connection.
    pub fn finish(
        &mut self,
        connection: &mut Connection,
        now: Option<Duration>,
    ) -> Option<(usize, String, Result<String, RequestError>)> {
        let due = self.0.iter().position(|it| now.is_none_or(|now| it.due <= now))?;
        let id = self.0[due].id;
        let outcome = connection.ask_for_file(|client| {
            client.pause(id)?;
            client.report(id, 0, "txt")
        });
        // Also after a refusal.
        let detached = connection.ask_for_file(|client| client.detach(id));
        let outcome = match (outcome, detached) {
            // The end of the connection is news for all that was attached.
            (_, Err(lost @ (RequestError::Lost(_) | RequestError::Log(_)))) => Err(lost),
            (Ok(report), Ok(missing)) => {
                let lines: Vec<_> = report.text.lines().map(str::to_owned).chain(missing).collect();
                Ok(lines.join("; "))
            }
            (Err(trouble), _) | (_, Err(trouble)) => Err(trouble),
        };
        let Recording { rule, output, .. } = self.0.swap_remove(due);
        Some((rule, output.path.display().to_string(), outcome))
    }

    /// Returns the time of the next one that is due.
    pub fn next_due(&self) -> Option<Duration> {
        self.0.iter().map(|it| it.due).min()
    }

    /// Gives up all, after the end of the connection. Returns their rules and files.
    pub fn give_up(&mut self) -> Vec<(usize, String)> {
        self.0.drain(..).map(|it| (it.rule, it.output.path.display().to_string())).collect()
    }
}
