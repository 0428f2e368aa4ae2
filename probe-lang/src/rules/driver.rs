//! The driver of rules: attaches their consumers, reads these once a window, and runs the actions.
//!
//! ```text
//! engine ◀── readings ◀─┐
//!    └──▶ steps ▶ driver ┴▶ host: attachments, recordings, snapshots, commands, the log
//! ```
//! Life cycle: [`start`](RuleDriver::start) attaches the consumers of the figures, and reads them:
//! the baseline ▸ at the end of each window, [`read`](RuleDriver::read) and
//! [`step`](RuleDriver::step) ▸ [`finish_recordings`](RuleDriver::finish_recordings), when one is
//! [due](RuleDriver::next_due) ▸ [`finish`](RuleDriver::finish) detaches everything. Each failure
//! is logged, and followed by a new try after a pause that grows.
//!
//! The driver is pure: a [`RuleHost`] attaches, reads and writes. All times are since the beginning
//! of the log.

use std::fmt;
use std::time::Duration;

use super::engine::{Engine, Step};
use super::figure::TIMES;
use super::host::{Answer, Event, Firing, HostError, RuleHost};
use super::ref_counted::RefCountedSpecs;
use super::rule::{Action, snapshot_recorder};
use super::window::Reading;
use crate::format::Format;

/// The driver.
#[derive(Debug)]
pub struct RuleDriver<H: RuleHost> {
    /// The program, and the log.
    pub host: H,
    engine: Engine,
    /// The consumers of figures, by the engine's numbers, and then the flight recorders.
    sources: Vec<Source<H::Attachment>>,
    armed: RefCountedSpecs<H::Attachment>,
    /// Pauses after texts that could not be armed.
    arm_pauses: Backoff,
    recordings: Vec<Recording<H::Attachment>>,
}

/// A consumer that is attached all the time.
#[derive(Debug)]
struct Source<A> {
    spec: String,
    attached: Option<A>,
    attach_pauses: Backoff,
    /// Pauses after readings that failed. A new attachment does not end them, or a reading that
    /// ends the connection would be asked for in each window.
    read_pauses: Backoff,
}

/// A trace that is being recorded.
#[derive(Debug)]
struct Recording<A> {
    rule: usize,
    attachment: A,
    path: String,
    /// When it ends.
    due: Duration,
}

impl<H: RuleHost> RuleDriver<H> {
    /// Takes the rules. Nothing is attached yet.
    pub fn new(engine: Engine, host: H) -> Self {
        let specs = engine.sources().map(str::to_owned).chain(engine.recorders());
        let pauses = Backoff::default();
        let source = |spec| Source { spec, attached: None, attach_pauses: pauses, read_pauses: pauses };
        Self {
            host,
            sources: specs.map(source).collect(),
            engine,
            armed: RefCountedSpecs::default(),
            arm_pauses: pauses,
            recordings: Vec::new(),
        }
    }

    /// Returns the rules, and their state.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Attaches what the rules of this process need, and takes the baseline.
    ///
    /// # Errors
    /// If no rule can be followed. Anything else is logged.
    pub fn start(&mut self, pid: u32) -> Result<(), H::Failure> {
        let rules: Vec<_> = self.engine.rules().cloned().collect();
        let noun = if rules.len() == 1 { "rule" } else { "rules" };
        self.host.log(Event::Watching, None, format!("process {pid}, {} {noun}", rules.len()))?;
        for (rule, text) in rules.iter().enumerate() {
            self.host.log(Event::Waiting, Some(rule), text)?;
        }
        for (rule, text) in rules.iter().enumerate() {
            for action in text.actions() {
                if let Action::Arm(spec) = action {
                    let tried = self.host.try_arm(spec);
                    self.log_failure(Some(rule), spec, tried)?;
                }
            }
        }
        let figures = self.engine.sources().count();
        for at in (figures..self.sources.len()).chain(0..figures) {
            self.attach(at)?;
        }
        Ok(())
    }

    /// Logs a failure. After a lost connection, forgets the attachments.
    fn log_failure<T>(
        &mut self,
        rule: Option<usize>,
        what: impl fmt::Display,
        answer: Answer<T, H>,
    ) -> Result<Option<T>, H::Failure> {
        let (problem, is_lost) = match answer {
            Ok(it) => return Ok(Some(it)),
            Err(HostError::Fatal(failure)) => return Err(failure),
            Err(HostError::Lost(reason)) => (reason, true),
            Err(HostError::Refused(it) | HostError::Malformed(it) | HostError::Gone(it)) => (it, false),
        };
        self.host.log(Event::Failed, rule, format!("{what}: {problem}"))?;
        if is_lost { self.forget(&problem).map(|()| None) } else { Ok(None) }
    }

    fn log_notes(&mut self, rule: Option<usize>, notes: Vec<String>) -> Result<(), H::Failure> {
        notes.into_iter().try_for_each(|note| self.host.log(Event::Note, rule, note))
    }

    /// Reads the sources at the end of a window, and attaches all that is missing. Returns the
    /// readings, each with its source.
    ///
    /// # Errors
    /// If no rule can be followed any further.
    pub fn read(&mut self) -> Result<Vec<(usize, Reading)>, H::Failure> {
        let mut readings = Vec::new();
        for at in 0..self.sources.len() {
            readings.extend(self.read_or_attach(at)?.map(|reading| (at, reading)));
        }
        if self.host.is_up() && !self.armed.missing().is_empty() && self.arm_pauses.is_due() {
            self.arm_missing()?;
        }
        Ok(readings)
    }

    fn read_or_attach(&mut self, at: usize) -> Result<Option<Reading>, H::Failure> {
        let is_renewed = self.engine.is_renewed(at);
        let source = &mut self.sources[at];
        if !self.host.is_up() {
            Ok(None)
        } else if !source.read_pauses.is_due() {
            if is_renewed { self.detach_source(at).map(|()| None) } else { Ok(None) }
        } else if source.attached.is_some() && !is_renewed {
            self.read_source(at, None)
        } else if source.attach_pauses.is_due() {
            self.attach(at)
        } else {
            Ok(None)
        }
    }

    /// Attaches a source. If that ends its last window, returns the reading.
    fn attach(&mut self, at: usize) -> Result<Option<Reading>, H::Failure> {
        let spec = self.sources[at].spec.clone();
        let attached = self.host.attach(&spec);
        let attached = self.log_failure(None, &spec, attached)?;
        let source = &mut self.sources[at];
        source.attach_pauses.note(attached.is_some());
        let Some((attachment, notes)) = attached else {
            // The next window must not begin before this one's end, so it is unknown.
            self.detach_source(at)?;
            return Ok(None);
        };
        if let Some(old) = source.attached.replace(attachment) {
            let reading = self.read_source(at, Some(&old))?;
            // Also if it could not be read.
            let detached = self.host.detach(old);
            self.log_failure(None, spec, detached)?;
            return Ok(reading);
        }
        let is_explained = !notes.is_empty();
        self.log_notes(None, notes)?;
        if !self.engine.is_renewed(at)
            && let Some(baseline) = self.read_source(at, None)?
        {
            if baseline.rows.is_empty() && spec.ends_with(TIMES) && !is_explained {
                let note = format!("{spec}: points have no calls; name functions, or take their `rate`");
                self.log_notes(None, vec![note])?;
            }
            self.engine.begin(at, baseline);
        }
        Ok(None)
    }

    /// Reads the attachment of a source, or the one before. A flight recorder is not read.
    fn read_source(&mut self, at: usize, old: Option<&H::Attachment>) -> Result<Option<Reading>, H::Failure> {
        let is_figure = self.engine.sources().nth(at).is_some();
        let source = &mut self.sources[at];
        let Some(attachment) = old.or(source.attached.as_ref()).filter(|_| is_figure) else {
            return Ok(None);
        };
        let reading = self.host.read(attachment);
        if old.is_none() && matches!(reading, Err(HostError::Gone(_))) {
            source.attached = None;
            self.engine.forget(at);
        }
        let spec = source.spec.clone();
        let reading = self.log_failure(None, spec, reading)?;
        self.sources[at].read_pauses.note(reading.is_some());
        Ok(reading)
    }

    fn detach_source(&mut self, at: usize) -> Result<(), H::Failure> {
        let source = &mut self.sources[at];
        let Some(attachment) = source.attached.take() else { return Ok(()) };
        let (spec, detached) = (source.spec.clone(), self.host.detach(attachment));
        self.log_failure(None, spec, detached).map(drop)
    }

    /// Ends a window, which lies between two times, and does what the rules say. Readings that were
    /// taken before the connection was lost are nothing worth.
    ///
    /// # Errors
    /// If no rule can be followed any further.
    pub fn step(
        &mut self,
        readings: Vec<(usize, Reading)>,
        from: Duration,
        to: Duration,
    ) -> Result<(), H::Failure> {
        if self.host.is_up() {
            readings.into_iter().for_each(|(source, reading)| self.engine.read(source, reading));
        }
        for step in self.engine.step(from, to) {
            match step {
                Step::Fired { rule, firing: number, values } => {
                    let text = self.engine.rules().nth(rule).cloned();
                    let Some(text) = &text else { continue };
                    self.fire(&Firing { rule, text, number, values: &values })?;
                }
                Step::Ended { rule, lasted, .. } => {
                    for (spec, attachment) in self.armed.release(rule) {
                        self.disarm(rule, &spec, attachment)?;
                    }
                    let text = format!("after {:.3} s", lasted.as_secs_f64());
                    self.host.log(Event::Ended, Some(rule), text)?;
                }
            }
        }
        Ok(())
    }

    fn fire(&mut self, firing: &Firing<'_>) -> Result<(), H::Failure> {
        self.host.log_fired(firing)?;
        let rule = firing.rule;
        for action in firing.text.actions() {
            match action {
                Action::Arm(spec) => {
                    self.armed.hold(spec, rule);
                    self.arm_missing()?;
                }
                Action::Disarm(spec) => {
                    let armed = self.armed.disarm(spec);
                    armed.map_or(Ok(()), |attachment| self.disarm(rule, spec, attachment))?;
                }
                Action::Record { selector, time, file } => {
                    self.record(rule, selector, *time, &file_name(rule, file.as_deref()))?;
                }
                Action::Snapshot { selector, file } => {
                    self.snapshot(rule, selector.as_deref(), &file_name(rule, file.as_deref()))?;
                }
                Action::Run(command) => match self.host.run(command, firing) {
                    Ok(()) => self.host.log(Event::Started, Some(rule), command)?,
                    Err(problem) => self.host.log(Event::Failed, Some(rule), problem)?,
                },
            }
        }
        Ok(())
    }

    /// Attaches the texts that rules have armed and that are not attached.
    fn arm_missing(&mut self) -> Result<(), H::Failure> {
        for (spec, rule) in self.armed.missing() {
            let attached = self.host.attach(&spec);
            let attached = self.log_failure(Some(rule), format!("arm {spec}"), attached)?;
            self.arm_pauses.note(attached.is_some());
            let Some((attachment, notes)) = attached else { continue };
            if let Some(attachment) = self.armed.attached(&spec, attachment) {
                self.disarm(rule, &spec, attachment)?;
                continue;
            }
            self.host.log(Event::Armed, Some(rule), &spec)?;
            self.log_notes(Some(rule), notes)?;
        }
        Ok(())
    }

    fn disarm(&mut self, rule: usize, spec: &str, attachment: H::Attachment) -> Result<(), H::Failure> {
        let detached = self.host.detach(attachment);
        if let Some(notes) = self.log_failure(Some(rule), format!("disarm {spec}"), detached)? {
            self.host.log(Event::Disarmed, Some(rule), spec)?;
            self.log_notes(Some(rule), notes)?;
        }
        Ok(())
    }

    fn record(&mut self, rule: usize, selector: &str, time: Duration, name: &str) -> Result<(), H::Failure> {
        let file = match self.host.create(name) {
            Ok(file) => file,
            Err(problem) => return self.host.log(Event::Failed, Some(rule), problem),
        };
        let path = file.to_string();
        let recorded = self.host.record(selector, file);
        let recorded = self.log_failure(Some(rule), format!("record {selector}"), recorded)?;
        let Some((attachment, notes)) = recorded else { return Ok(()) };
        let (text, due) = (format!("{selector} to {path}"), self.host.elapsed().saturating_add(time));
        self.recordings.push(Recording { rule, attachment, path, due });
        self.host.log(Event::Recording, Some(rule), text)?;
        self.log_notes(Some(rule), notes)
    }

    fn snapshot(&mut self, rule: usize, selector: Option<&str>, name: &str) -> Result<(), H::Failure> {
        let recorders = &self.sources[self.engine.sources().count()..];
        let all: Vec<_> = recorders.iter().filter_map(|it| it.attached.as_ref()).collect();
        let of = |selector| recorders.iter().find(|it| it.spec == snapshot_recorder(selector));
        let own = selector.map(|selector| of(selector).and_then(|it| it.attached.as_ref()));
        let written = match own {
            Some(None) => Err(HostError::Refused("its flight recorder is not attached".to_owned())),
            own => self.host.snapshot(own.flatten(), &all, name),
        };
        if let Some((text, notes)) = self.log_failure(Some(rule), "snapshot", written)? {
            self.host.log(Event::Snapshot, Some(rule), text)?;
            self.log_notes(Some(rule), notes)?;
        }
        Ok(())
    }

    /// Returns when the next recording is due.
    pub fn next_due(&self) -> Option<Duration> {
        self.recordings.iter().map(|it| it.due).min()
    }

    /// Finishes the recordings that are due, or all of them.
    ///
    /// # Errors
    /// If no rule can be followed any further.
    pub fn finish_recordings(&mut self, now: Option<Duration>) -> Result<(), H::Failure> {
        while self.host.is_up()
            && let Some(due) = self.recordings.iter().position(|it| now.is_none_or(|now| it.due <= now))
        {
            let Recording { rule, attachment, path, .. } = self.recordings.remove(due);
            let finished = self.host.finish_recording(attachment);
            if let Some(report) = self.log_failure(Some(rule), format!("{path} may lack events"), finished)? {
                self.host.log(Event::Recorded, Some(rule), format!("{path}: {report}"))?;
            }
        }
        Ok(())
    }

    /// Forgets all attachments, which have ended with the connection. Texts stay armed as long as
    /// the program runs.
    ///
    /// # Errors
    /// If no rule can be followed any further.
    pub fn forget(&mut self, reason: &str) -> Result<(), H::Failure> {
        let has_ended = self.host.lost(reason)?;
        for Recording { rule, path, .. } in self.recordings.drain(..) {
            let event = if has_ended { Event::Left } else { Event::Failed };
            self.host.log(event, Some(rule), format!("{path} has the events until about now"))?;
        }
        if has_ended {
            for (spec, _) in self.armed.clear() {
                self.host.log(Event::Left, None, format!("{spec} was armed"))?;
            }
        }
        self.armed.lose();
        self.sources.iter_mut().for_each(|it| it.attached = None);
        (0..self.sources.len()).for_each(|source| self.engine.forget(source));
        Ok(())
    }

    /// Finishes all recordings, and lets go of all attachments.
    ///
    /// # Errors
    /// If the log can't be written any further.
    pub fn finish(&mut self) -> Result<(), H::Failure> {
        self.finish_recordings(None)?;
        for (spec, attachment) in self.armed.clear() {
            let detached = self.host.detach(attachment);
            if self.log_failure(None, format!("disarm {spec}"), detached)?.is_some() {
                self.host.log(H::END, None, spec)?;
            }
        }
        for attachment in self.sources.iter_mut().filter_map(|it| it.attached.take()) {
            let _ = self.host.detach(attachment);
        }
        Ok(())
    }

    /// Logs the numbers of each rule. Active rules end with the program, or with the watch.
    ///
    /// # Errors
    /// If the log can't be written any further.
    pub fn summarize(&mut self, end: &str) -> Result<(), H::Failure> {
        for (rule, totals) in self.engine.totals().enumerate() {
            if self.engine.is_active(rule) {
                self.host.log(Event::Ended, Some(rule), format_args!("with the {end}"))?;
            }
            self.host.log_summary(rule, totals)?;
        }
        Ok(())
    }
}

/// Returns the name that a rule gives to a file, or one with the rule's number.
fn file_name(rule: usize, name: Option<&str>) -> String {
    let own = || format!("rule-{}.{}", rule.saturating_add(1), Format::Perfetto.ending());
    name.map_or_else(own, str::to_owned)
}

/// The most windows between two tries.
const MOST_PAUSE: u32 = 64;

/// The windows between two tries of one thing: each pause is twice as long as the one before, up to
/// a limit, and success ends them.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Backoff {
    pause: u32,
    left: u32,
}

impl Backoff {
    /// Counts a window. Returns whether the next try is due.
    pub fn is_due(&mut self) -> bool {
        let is_due = self.left == 0;
        self.left = self.left.saturating_sub(1);
        is_due
    }

    /// Notes whether a try has succeeded.
    pub fn note(&mut self, has_succeeded: bool) {
        self.pause = if has_succeeded { 0 } else { (2 * self.pause).clamp(1, MOST_PAUSE) };
        self.left = self.pause.saturating_sub(1);
    }
}

#[cfg(test)]
mod tests;
