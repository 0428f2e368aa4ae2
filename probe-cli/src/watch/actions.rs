//! The actions of rules that fired or ended.

use std::path::Path;
use std::time::Duration;

use probe_lang::rules::{Action, Figure, snapshot_recorder};
use probe_protocol::{Attach, Client};
use probe_runtime::__tools::Output;
use probe_trace::export::Format;

use super::connection::{ANSWER_TIMEOUT, FILE_TIMEOUT, RequestError};
use super::log::Event;
use super::rule_driver::RuleDriver;
use super::shell_commands::Firing;
use crate::live::{attachment_notes, only_flight_recorder, snapshot_format};
use crate::output::Failure;

/// A trace that is being recorded for a rule.
pub(super) struct Recording {
    pub(super) rule: usize,
    id: u32,
    pub(super) output: Output,
    /// When it ends, since the beginning of the watch.
    pub(super) due: Duration,
}

impl RuleDriver {
    /// Does the actions of a rule that fires.
    pub(super) fn fire(&mut self, rule: usize, firing: u32, values: &[(Figure, f64)]) -> Result<(), Failure> {
        let Some(text) = self.engine.rules().nth(rule).cloned() else { return Ok(()) };
        self.log.fired(rule, firing, text.at_most(), values)?;
        let pid = self.connection.keep_alive.process.pid;
        let firing = Firing { rule, text: &text, number: firing, values, pid };
        text.actions().iter().try_for_each(|action| self.act(action, &firing))
    }

    fn act(&mut self, action: &Action, firing: &Firing<'_>) -> Result<(), Failure> {
        let rule = firing.rule;
        match action {
            Action::Arm(spec) => {
                self.armed.hold(spec, rule);
                self.arm_missing()
            }
            Action::Disarm(spec) => match self.armed.disarm(spec) {
                Some(id) => self.disarm(rule, spec, id),
                None => Ok(()),
            },
            Action::Record { selector, time, file } => self.record(rule, selector, *time, file.as_deref()),
            Action::Snapshot { selector, file } => self.snapshot(rule, selector.as_deref(), file.as_deref()),
            Action::Run(command) => match self.connection.keep_alive.commands.start(command, firing) {
                Ok(()) => self.log.event(Event::Started, Some(rule), command),
                Err(problem) => self.log.event(Event::Failed, Some(rule), problem),
            },
        }
    }

    /// Attaches the texts that rules have armed and that are not attached.
    pub(super) fn arm_missing(&mut self) -> Result<(), Failure> {
        for (spec, rule) in self.armed.missing() {
            let attached = self.connection.attach(&spec);
            let Some(attached) = self.log_failure(Some(rule), format!("arm {spec}"), attached)? else {
                self.arm_pauses.fail();
                continue;
            };
            self.arm_pauses.succeed();
            if let Some(id) = self.armed.attached(&spec, attached.id) {
                self.disarm(rule, &spec, id)?;
                continue;
            }
            self.log.event(Event::Armed, Some(rule), &spec)?;
            self.notes(Some(rule), attachment_notes(&attached))?;
        }
        Ok(())
    }

    pub(super) fn disarm(&mut self, rule: usize, spec: &str, id: u32) -> Result<(), Failure> {
        let detached = self.connection.detach(id);
        if let Some(notes) = self.log_failure(Some(rule), format!("disarm {spec}"), detached)? {
            self.log.event(Event::Disarmed, Some(rule), spec)?;
            self.notes(Some(rule), notes)?;
        }
        Ok(())
    }

    fn record(
        &mut self,
        rule: usize,
        selector: &str,
        time: Duration,
        file: Option<&str>,
    ) -> Result<(), Failure> {
        let path = file.map_or_else(|| default_file(rule), str::to_owned);
        let output = match Output::create(Path::new(&path)) {
            Ok(output) => output,
            Err(error) => {
                let problem = format!("{path} can't be written: {error}");
                return self.log.event(Event::Failed, Some(rule), problem);
            }
        };
        let attach = Attach { output: Some(output.name()), ..Attach::new(format!("{selector}=trace")) };
        let attached =
            match self.connection.ask(ANSWER_TIMEOUT, |client| client.record(&attach, &output.file)) {
                Ok(attached) => attached,
                Err(error) => {
                    output.discard();
                    return self
                        .log_failure::<()>(Some(rule), format!("record {selector}"), Err(error))
                        .map(drop);
                }
            };
        let text = format!("{selector} to {}", output.path.display());
        let due = self.log.elapsed().saturating_add(time);
        self.recordings.push(Recording { rule, id: attached.id, output, due });
        self.log.event(Event::Recording, Some(rule), text)?;
        self.notes(Some(rule), attachment_notes(&attached))
    }

    /// Finishes the recordings that are due, or all of them. They are detached in any case, at the
    /// latest with the connection.
    pub(super) fn finish_recordings(&mut self, now: Option<Duration>) -> Result<(), Failure> {
        let is_due = |it: &Recording| now.is_none_or(|now| it.due <= now);
        while self.connection.is_up()
            && let Some(due) = self.recordings.iter().position(is_due)
        {
            let Recording { rule, id, output, .. } = self.recordings.swap_remove(due);
            let report = self.connection.ask(FILE_TIMEOUT, |client| {
                client.pause(id)?;
                client.report(id, 0, "txt")
            });
            // Also after a refusal.
            let detached = self.connection.ask(FILE_TIMEOUT, |client| client.detach(id));
            let lines = match (report, detached) {
                // The end of the connection concerns all attachments, so it comes first.
                (_, Err(lost @ (RequestError::Lost(_) | RequestError::Log(_)))) => Err(lost),
                (Ok(report), Ok(missing)) => {
                    Ok(report.text.lines().map(str::to_owned).chain(missing).collect::<Vec<_>>())
                }
                (Err(error), _) | (_, Err(error)) => Err(error),
            };
            let path = output.path.display();
            if let Some(lines) = self.log_failure(Some(rule), format!("{path} may lack events"), lines)? {
                self.log.event(Event::Recorded, Some(rule), format!("{path}: {}", lines.join("; ")))?;
            }
        }
        Ok(())
    }

    fn snapshot(&mut self, rule: usize, selector: Option<&str>, file: Option<&str>) -> Result<(), Failure> {
        let path = file.map_or_else(|| default_file(rule), str::to_owned);
        let found = if let Some(selector) = selector {
            let own = self.recorders.iter().find(|it| it.spec == snapshot_recorder(selector));
            own.and_then(|it| it.id)
                .map(|id| (id, 0))
                .ok_or_else(|| "its flight recorder is not attached".to_owned())
        } else {
            let status = self.connection.ask(ANSWER_TIMEOUT, Client::status);
            let Some(status) = self.log_failure(Some(rule), "snapshot", status)? else { return Ok(()) };
            let is_own = |id: u32| self.recorders.iter().any(|it| it.id == Some(id));
            let others: Vec<_> = status.attachments.into_iter().filter(|it| !is_own(it.id)).collect();
            only_flight_recorder(&others).map_err(|error| error.to_string())
        };
        let output = found.and_then(|found| {
            let format = snapshot_format(&path).map_err(|error| error.to_string())?;
            let output = Output::create(Path::new(&path));
            Ok((found, format, output.map_err(|error| format!("{path} can't be written: {error}"))?))
        });
        let ((id, consumer), format, output) = match output {
            Ok(output) => output,
            Err(problem) => return self.log.event(Event::Failed, Some(rule), format!("snapshot: {problem}")),
        };
        let written =
            self.connection.ask(FILE_TIMEOUT, |client| client.snapshot(id, consumer, format, &output.file));
        let Some(notes) = self.log_failure(Some(rule), "snapshot", written)? else {
            output.discard();
            return Ok(());
        };
        self.log.event(Event::Snapshot, Some(rule), output.path.display())?;
        self.notes(Some(rule), notes)
    }
}

fn default_file(rule: usize) -> String {
    format!("rule-{}.{}", rule.saturating_add(1), Format::Perfetto.ending())
}
