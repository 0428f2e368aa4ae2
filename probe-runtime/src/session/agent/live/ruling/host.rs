//! This program as what its own rules act on: its consumers are read, and attached, and a line for
//! each event goes to stderr or to a file.

use std::convert::Infallible;
use std::env;
use std::fmt;
use std::fs::OpenOptions;
use std::io::{BufWriter, Write};
use std::mem;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::super::attachments::flush;
use super::AT_EXIT;
use crate::consumers::{Aggregate, Count};
#[cfg(feature = "latency")]
use crate::consumers::{FunctionLatency, Latency};
use crate::engine::os::guarded_file::GuardedFile;
use crate::engine::os::stderr::print_line;
use crate::engine::registry::ProbeCount;
use crate::session::agent::client_rules::VARIABLE;
use crate::session::spec::{ClientSpec, Format, Opened, SpecAttachment, SpecAttachments};
use probe_core::abi::Kind;
#[cfg(feature = "latency")]
use probe_lang::rules::Bucket;
use probe_lang::rules::{Answer, Event, HostError, Reading, Row, RowKind, RuleHost};
use probe_protocol::OutputFile;
use probe_report::reports::Group;

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

/// Reads the consumer of a figure, which was attached at this time.
fn reading(attached: &SpecAttachments, since: Instant) -> Reading {
    let rows = attached.iter().flat_map(rows).collect();
    Reading { time: since.elapsed(), rows }
}

fn rows(consumer: &SpecAttachment) -> Vec<Row> {
    if let Some(count) = consumer.attachment::<Count>() {
        return count.counts().iter().map(hits).collect();
    }
    if let Some(aggregate) = consumer.attachment::<Aggregate>() {
        return aggregate.groups().iter().map(group).collect();
    }
    #[cfg(feature = "latency")]
    if let Some(latency) = consumer.attachment::<Latency>() {
        return latency.latencies().iter().map(times).collect();
    }
    Vec::new()
}

fn hits(ProbeCount { probe, hits }: &ProbeCount) -> Row {
    let kind = match probe.kind() {
        Kind::Entry | Kind::Point => RowKind::Begin,
        Kind::Exit => RowKind::Exit,
        _ => RowKind::Other,
    };
    let name = format!("{} ({}:{})", probe.path(), probe.file(), probe.line());
    Row { name, kind, count: *hits, ..Row::default() }
}

fn group(group: &Group) -> Row {
    let (min, max) = (Some(group.min()), Some(group.max()));
    Row { name: group.path().to_owned(), count: group.count(), sum: group.sum(), min, max, ..Row::default() }
}

#[cfg(feature = "latency")]
#[expect(clippy::cast_precision_loss, reason = "times are compared with limits")]
fn times(it: &FunctionLatency) -> Row {
    let bucket = |(number, time, calls)| Bucket { number: number as u64, time, calls };
    let function = it.function();
    Row {
        name: format!("{} ({}:{})", function.path(), function.file(), function.line()),
        count: it.calls(),
        sum: it.sum() as f64,
        max: (it.calls() != 0).then(|| it.max() as f64),
        buckets: it.numbered_buckets().map(bucket).collect(),
        ..Row::default()
    }
}

/// The log of rules.
pub(super) struct Log {
    begin: Instant,
    /// `None` for stderr.
    file: Option<GuardedFile>,
}

impl Log {
    /// Opens the file, to add to it. If it can't be opened, lines go to stderr, and one says so.
    pub(super) fn open(path: Option<&Path>) -> Self {
        let mut options = OpenOptions::new();
        // A pipe that nobody reads must not stop the program, nor a full one its rules.
        options.append(true).create(true).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY);
        let file = path.and_then(|path| match options.open(path) {
            Ok(file) => Some(GuardedFile::stream(file).move_to_high_number()),
            Err(error) => {
                print_line(&format!("{VARIABLE}_LOG: {} can't be written: {error}", path.display()));
                None
            }
        });
        Self { begin: Instant::now(), file }
    }

    /// Returns the time since the beginning.
    fn elapsed(&self) -> Duration {
        self.begin.elapsed()
    }

    /// Writes an event, of a rule by its number from 0. Control characters become spaces.
    fn event(&mut self, event: Event, rule: Option<usize>, text: impl fmt::Display) {
        let rule = rule.map(|rule| format!("rule {} ", rule.saturating_add(1))).unwrap_or_default();
        let line = format!("{rule}{event}: {text}").replace(char::is_control, " ");
        if let Some(file) = &mut self.file {
            let seconds = self.begin.elapsed().as_secs_f64();
            match file.write_all(format!("{seconds:>10.3}  {line}\n").as_bytes()) {
                Ok(()) => return,
                Err(error) => {
                    print_line(&format!("{VARIABLE}_LOG: the file can't be written: {error}"));
                    self.file = None;
                }
            }
        }
        print_line(&format!("{VARIABLE}: {line}"));
    }
}
