//! The program and the log, as what the driver of rules acts on.

use std::fmt;
use std::path::Path;
use std::time::Duration;

use probe_lang::rules::{Answer, Event, Firing, HostError, Reading, RuleHost, Totals};
use probe_protocol::{Attach, Client, OutputFile};

use super::connection::{ANSWER_TIMEOUT, Connection, FILE_TIMEOUT};
use super::readings::reading;
use crate::live::{attachment_notes, only_flight_recorder, snapshot_format};
use crate::output::Failure;

impl RuleHost for Connection {
    /// The program's number of it.
    type Attachment = u32;
    type File = OutputFile;
    type Failure = Failure;
    const END: Event = Event::Disarmed;

    fn log(&mut self, event: Event, rule: Option<usize>, text: impl fmt::Display) -> Result<(), Failure> {
        self.keep_alive.log.event(event, rule, text)
    }

    fn log_fired(&mut self, firing: &Firing<'_>) -> Result<(), Failure> {
        self.keep_alive.log.fired(firing)
    }

    fn log_summary(&mut self, rule: usize, totals: Totals) -> Result<(), Failure> {
        self.keep_alive.log.summary(rule, totals)
    }

    fn elapsed(&self) -> Duration {
        self.keep_alive.log.elapsed()
    }

    fn is_up(&self) -> bool {
        self.client.is_some()
    }

    fn attach(&mut self, spec: &str) -> Answer<(u32, Vec<String>), Self> {
        let attached = self.ask(ANSWER_TIMEOUT, |client| client.attach(&Attach::new(spec)));
        match attached {
            Err(HostError::Malformed(problem)) if self.is_starting => {
                Err(HostError::Fatal(Failure::Usage(format!("`{spec}`: {problem}"))))
            }
            attached => attached.map(|it| (it.id, attachment_notes(&it))),
        }
    }

    fn try_arm(&mut self, spec: &str) -> Answer<(), Self> {
        let (id, _) = self.attach(spec)?;
        self.detach(id).map(drop)
    }

    /// If the program does not answer, the end of the connection detaches.
    fn detach(&mut self, id: u32) -> Answer<Vec<String>, Self> {
        self.ask(ANSWER_TIMEOUT, |client| client.detach(id))
    }

    fn read(&mut self, id: &u32) -> Answer<Reading, Self> {
        let report = self.ask(ANSWER_TIMEOUT, |client| client.document(*id, 0, &[]))?;
        reading(&report.values).map_err(HostError::Refused)
    }

    fn create(&mut self, name: &str) -> Result<OutputFile, String> {
        OutputFile::create(Path::new(""), name)
    }

    fn record(&mut self, selector: &str, file: OutputFile) -> Answer<(u32, Vec<String>), Self> {
        let attach = Attach { output: Some(file.name()), ..Attach::new(format!("{selector}=trace")) };
        let attached = self.ask(ANSWER_TIMEOUT, |client| client.record(&attach, &file.file));
        file.keep_if(attached).map(|it| (it.id, attachment_notes(&it)))
    }

    fn finish_recording(&mut self, id: u32) -> Answer<String, Self> {
        let report = self.ask(FILE_TIMEOUT, |client| {
            client.pause(id)?;
            client.report(id, 0, "txt")
        });
        // Also after a refusal. A recording is detached at the latest with the connection.
        let detached = self.ask(FILE_TIMEOUT, |client| client.detach(id));
        match (report, detached) {
            // The end of the connection concerns all attachments, so it comes first.
            (_, Err(lost @ (HostError::Lost(_) | HostError::Fatal(_)))) => Err(lost),
            (Ok(report), Ok(missing)) => {
                let lines = report.text.lines().map(str::to_owned).chain(missing);
                Ok(lines.collect::<Vec<_>>().join("; "))
            }
            (Err(error), _) | (_, Err(error)) => Err(error),
        }
    }

    fn snapshot(
        &mut self,
        recorder: Option<&u32>,
        others: &[&u32],
        name: &str,
    ) -> Answer<(String, Vec<String>), Self> {
        let refused = |problem: Failure| HostError::Refused(problem.to_string());
        let (id, consumer) = if let Some(id) = recorder {
            (*id, 0)
        } else {
            let mut all = self.ask(ANSWER_TIMEOUT, Client::status)?.attachments;
            all.retain(|it| !others.contains(&&it.id));
            only_flight_recorder(&all).map_err(refused)?
        };
        let format = snapshot_format(name).map_err(refused)?;
        let file = self.create(name).map_err(HostError::Refused)?;
        let written = self.ask(FILE_TIMEOUT, |client| client.snapshot(id, consumer, format, &file.file));
        Ok((file.to_string(), file.keep_if(written)?))
    }

    fn run(&mut self, command: &str, firing: &Firing<'_>) -> Result<(), String> {
        self.keep_alive.commands.start(command, firing, self.keep_alive.process.pid)
    }

    fn lost(&mut self, reason: &str) -> Result<bool, Failure> {
        let process = &self.keep_alive.process;
        let has_ended = process.wait_exit();
        let reason = if has_ended { process.exit_message() } else { reason.to_owned() };
        self.log(Event::Lost, None, reason)?;
        Ok(has_ended)
    }
}
