//! The actions of a program's own rules.

use std::io::{self, BufWriter, Write};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::super::attachments::flush;
use super::AT_EXIT;
use super::windows::{Ruling, attach};
use crate::engine::error::Error;
use crate::report::Output;
use crate::session::spec::{ClientSpec, Format, Opened, SpecAttachments};
use probe_lang::rules::{Action, Figure, reasons, snapshot_recorder};

/// A trace that is being recorded.
pub(super) struct Recording {
    rule: usize,
    attachments: SpecAttachments,
    output: Output,
    /// When it ends.
    pub(super) due: Instant,
}

impl Ruling {
    /// Does what a rule says, as it fires.
    pub(super) fn fire(&mut self, rule: usize, firing: u32, values: &[(Figure, f64)]) {
        let Some(text) = self.engine.rules().nth(rule).cloned() else { return };
        self.log.event("fired", Some(rule), format!("{firing} of {}: {}", text.at_most(), reasons(values)));
        for action in text.actions() {
            match action {
                Action::Arm(spec) => {
                    self.armed.hold(spec, rule);
                    self.arm_missing();
                }
                Action::Disarm(spec) => {
                    if let Some(attachments) = self.armed.disarm(spec) {
                        drop(attachments);
                        self.log.event("disarmed", Some(rule), spec);
                    }
                }
                Action::Record { selector, time, file } => {
                    match self.record(rule, selector, *time, file.as_deref()) {
                        Ok(path) => self.log.event("recording", Some(rule), format!("{selector} to {path}")),
                        Err(problem) => self.log.event("failed", Some(rule), problem),
                    }
                }
                Action::Snapshot { selector, file } => {
                    match self.snapshot(rule, selector.as_deref().unwrap_or_default(), file.as_deref()) {
                        Ok(path) => self.log.event("snapshot", Some(rule), path),
                        Err(problem) => self.log.event("failed", Some(rule), format!("snapshot: {problem}")),
                    }
                }
                // A program's rules have none.
                Action::Run(_) => (),
            }
        }
    }

    /// Attaches the texts that rules hold and that are not attached.
    pub(super) fn arm_missing(&mut self) {
        for (spec, rule) in self.armed.missing() {
            match attach(&spec) {
                Ok(attachments) => {
                    self.arming.succeed();
                    self.log.event("armed", Some(rule), &spec);
                    self.log.notes(Some(rule), &attachments);
                    drop(self.armed.attached(&spec, attachments));
                }
                Err(error) => {
                    self.arming.fail();
                    self.log.event("failed", Some(rule), format!("arm {spec}: {error}"));
                }
            }
        }
    }

    fn record(
        &mut self,
        rule: usize,
        selector: &str,
        time: Duration,
        file: Option<&str>,
    ) -> Result<String, String> {
        let (output, path) = self.create(rule, file)?;
        let opened = output.file.try_clone().map_err(|error| error.to_string()).and_then(|file| {
            let opened = Opened { file: Arc::new(file), name: output.name().into() };
            let spec = format!("{selector}=trace");
            let attached = ClientSpec::parse(&spec).and_then(|spec| spec.attach(Some(&opened)));
            attached.map_err(|error: Error| error.to_string())
        });
        match opened {
            Ok(attachments) => {
                let now = Instant::now();
                let due = now.checked_add(time).unwrap_or(now);
                self.recordings.push(Recording { rule, attachments, output, due });
                Ok(path)
            }
            Err(problem) => {
                output.discard();
                Err(format!("record {selector}: {problem}"))
            }
        }
    }

    /// Finishes the recordings that are due, or all of them. Returns their attachments.
    pub(super) fn finish_recordings(&mut self, now: Option<Instant>) -> Vec<SpecAttachments> {
        let is_due = |it: &mut Recording| now.is_none_or(|now| it.due <= now);
        let due: Vec<_> = self.recordings.extract_if(.., is_due).collect();
        for Recording { rule, attachments, output, .. } in &due {
            attachments.iter().for_each(|it| it.reported().pause());
            let missing: Vec<_> = attachments.iter().filter_map(|it| flush(it, AT_EXIT)).collect();
            let path = output.path.display();
            if missing.is_empty() {
                self.log.event("recorded", Some(*rule), format!("{path}: {attachments}"));
            } else {
                self.log.event(
                    "failed",
                    Some(*rule),
                    format!("{path} may lack events: {}", missing.join("; ")),
                );
            }
        }
        due.into_iter().map(|it| it.attachments).collect()
    }

    fn snapshot(&mut self, rule: usize, selector: &str, file: Option<&str>) -> Result<String, String> {
        let recorder = self.recorders.iter().find(|it| it.spec == snapshot_recorder(selector));
        let attached = recorder.and_then(|it| it.attached.as_ref()).and_then(|(it, _)| it.iter().next());
        let Some(one) = attached else { return Err("its flight recorder is not attached".to_owned()) };
        let (output, path) = self.create(rule, file)?;
        let name = output.name();
        let formats = one.formats().iter().copied().filter(|it| one.reported().is_streamed(*it));
        let Some(format) = Format::of_name(&name, formats) else {
            output.discard();
            return Err(format!("{name} tells no format"));
        };
        let mut writer = BufWriter::new(&output.file);
        let written = one.reported().write(format, &mut writer);
        let written = written.and_then(|missing| writer.flush().map(|()| missing));
        drop(writer);
        match written {
            Ok(missing) if missing.is_empty() => Ok(path),
            Ok(missing) => Ok(format!("{path}: {}", missing.join("; "))),
            Err(error) => {
                output.discard();
                Err(unwritable(&path, &error))
            }
        }
    }

    /// Creates a new file: the one that a rule names, or one with its number.
    fn create(&self, rule: usize, file: Option<&str>) -> Result<(Output, String), String> {
        let own = || format!("rule-{}.{}", rule.saturating_add(1), Format::Perfetto.ending());
        let name = file.map_or_else(own, str::to_owned);
        let output = Output::create(&self.folder.join(&name)).map_err(|error| unwritable(&name, &error))?;
        let shown = output.path.display().to_string();
        Ok((output, shown))
    }
}

fn unwritable(path: &str, error: &io::Error) -> String {
    format!("{path} can't be written: {error}")
}
