//! This program as what its own rules act on.

use std::convert::Infallible;
use std::env;
use std::fmt;
use std::io::{BufWriter, Write};
use std::mem;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::super::attachments::flush;
use super::AT_EXIT;
use super::log::Log;
use super::readings::reading;
use crate::session::spec::{ClientSpec, Format, Opened, SpecAttachment, SpecAttachments};
use probe_lang::rules::{Answer, Event, HostError, Reading, RuleHost};
use probe_protocol::OutputFile;

/// The program. A forked child leaves its attachments behind.
pub(super) struct Host {
    log: Log,
    /// The working directory at the start, in which relative paths begin.
    folder: PathBuf,
    /// Whether the process ends, so nothing needs to be detached. That would wait for hits, and the
    /// thread that exits may be in one.
    pub(super) is_exiting: bool,
}

impl Host {
    /// Takes the program's working directory, so it is made at the start.
    pub(super) fn new(log: Log) -> Self {
        Self { log, folder: env::current_dir().unwrap_or_default(), is_exiting: false }
    }
}

impl RuleHost for Host {
    /// With the time at which they were attached.
    type Attachment = (SpecAttachments, Instant);
    type File = OutputFile;
    type Failure = Infallible;
    const END: Event = Event::Left;

    fn log(&mut self, event: Event, rule: Option<usize>, text: impl fmt::Display) -> Result<(), Infallible> {
        self.log.event(event, rule, text);
        Ok(())
    }

    fn elapsed(&self) -> Duration {
        self.log.elapsed()
    }

    fn attach(&mut self, spec: &str) -> Answer<(Self::Attachment, Vec<String>), Self> {
        let attached = attach(spec, None)?;
        let notes = attached.0.iter().flat_map(SpecAttachment::notes).collect();
        Ok((attached, notes))
    }

    fn detach(&mut self, attachment: Self::Attachment) -> Answer<Vec<String>, Self> {
        if self.is_exiting {
            mem::forget(attachment);
        }
        Ok(Vec::new())
    }

    fn read(&mut self, (attached, since): &Self::Attachment) -> Answer<Reading, Self> {
        Ok(reading(attached, *since))
    }

    fn create(&mut self, name: &str) -> Result<OutputFile, String> {
        OutputFile::create(&self.folder, name)
    }

    fn record(&mut self, selector: &str, file: OutputFile) -> Answer<(Self::Attachment, Vec<String>), Self> {
        let opened = file.file.try_clone().map_err(refused).and_then(|opened| {
            let opened = Opened { file: Arc::new(opened), name: file.name().into() };
            attach(&format!("{selector}=trace"), Some(&opened))
        });
        Ok((file.keep_if(opened)?, Vec::new()))
    }

    fn finish_recording(&mut self, attachment: Self::Attachment) -> Answer<String, Self> {
        let attached = &attachment.0;
        attached.iter().for_each(|it| it.reported().pause());
        let missing: Vec<_> = attached.iter().filter_map(|it| flush(it, AT_EXIT)).collect();
        let report = attached.to_string();
        self.detach(attachment)?;
        if missing.is_empty() { Ok(report) } else { Err(refused(missing.join("; "))) }
    }

    fn snapshot(
        &mut self,
        recorder: Option<&Self::Attachment>,
        _: &[&Self::Attachment],
        name: &str,
    ) -> Answer<(String, Vec<String>), Self> {
        let one = recorder.and_then(|(it, _)| it.iter().next());
        // Each snapshot of a program's own rules names its probes.
        let one = one.ok_or_else(|| refused("a snapshot names its probes"))?;
        let file = self.create(name).map_err(HostError::Refused)?;
        let written = write_snapshot(one, &file);
        let path = file.to_string();
        let missing = file.keep_if(written)?;
        let text = if missing.is_empty() { path } else { format!("{path}: {}", missing.join("; ")) };
        Ok((text, Vec::new()))
    }
}

fn attach(spec: &str, file: Option<&Opened>) -> Answer<(SpecAttachments, Instant), Host> {
    let attached = ClientSpec::parse(spec).and_then(|spec| spec.attach(file));
    attached.map(|it| (it, Instant::now())).map_err(refused)
}

/// Returns a line for each part that the file lacks.
fn write_snapshot(recorder: &SpecAttachment, file: &OutputFile) -> Answer<Vec<String>, Host> {
    let events = recorder.reported();
    let name = file.name();
    let formats = recorder.formats().iter().copied().filter(|it| events.is_streamed(*it));
    let format = Format::of_name(&name, formats);
    let format = format.ok_or_else(|| refused(format_args!("{name} tells no format")))?;
    let mut writer = BufWriter::new(&file.file);
    let written = events.write(format, &mut writer);
    let written = written.and_then(|missing| writer.flush().map(|()| missing));
    written.map_err(|error| refused(format_args!("{file} can't be written: {error}")))
}

fn refused(problem: impl fmt::Display) -> HostError<Infallible> {
    HostError::Refused(problem.to_string())
}
