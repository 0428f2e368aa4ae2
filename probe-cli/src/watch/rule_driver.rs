//! The loop that reads the program's figures once a window, and does what the rules say.

use std::time::Duration;
use std::{fmt, mem};

use probe_lang::rules::{Action, Backoff, Engine, Reading, RefCountedSpecs, Step};
use probe_protocol::{Attached, FailureKind};

use super::actions::Recording;
use super::connection::{ANSWER_TIMEOUT, Connection, KeepAlive, RequestError, STOPPED};
use super::log::{Event, Log};
use super::readings::reading;
use crate::live::{POLL_INTERVAL, Process, Program, Stop, attachment_notes};
use crate::output::Failure;

/// The state of the watch.
pub struct RuleDriver {
    pub(super) connection: Connection,
    pub(super) engine: Engine,
    pub(super) log: Log,
    /// The consumers of figures, by the engine's numbers.
    sources: Vec<Source>,
    /// The flight recorders of the rules' own.
    pub(super) recorders: Vec<Source>,
    pub(super) armed: RefCountedSpecs<u32>,
    /// Pauses after texts that could not be armed.
    pub(super) arm_pauses: Backoff,
    pub(super) recordings: Vec<Recording>,
}

/// A consumer that is attached all the time.
#[derive(Default)]
pub(super) struct Source {
    pub(super) spec: String,
    pub(super) id: Option<u32>,
    attach_pauses: Backoff,
    /// Pauses after reports that failed. A new attachment does not end them, or a report that ends
    /// the connection would be asked for in each window.
    report_pauses: Backoff,
}

/// Makes a failure of the refusal of a malformed text, which ends the watch.
fn check_text<T>(spec: &str, result: Result<T, RequestError>) -> Result<Result<T, RequestError>, Failure> {
    match result {
        Err(RequestError::Refused(failure)) if failure.kind == FailureKind::Malformed => {
            Err(Failure::Usage(format!("`{spec}`: {failure}")))
        }
        other => Ok(other),
    }
}

impl RuleDriver {
    /// Takes a connection, and the rules.
    pub fn new(program: Program, engine: Engine, log: Log, stop: Stop) -> Self {
        let Program { client, process } = program;
        let source = |spec: String| Source { spec, ..Source::default() };
        Self {
            connection: Connection::new(client, KeepAlive::new(process, log, stop)),
            sources: engine.sources().map(|spec| source(spec.to_owned())).collect(),
            recorders: engine.recorders().into_iter().map(source).collect(),
            engine,
            log,
            armed: RefCountedSpecs::default(),
            arm_pauses: Backoff::default(),
            recordings: Vec::new(),
        }
    }

    /// Attaches the consumers that the rules need, and takes the baseline. The texts to arm are
    /// attached for a moment, so that a mistake shows now and not when a rule fires.
    ///
    /// # Errors
    /// A text that the program finds malformed. Any other refusal is logged.
    pub fn start(&mut self) -> Result<(), Failure> {
        let count = self.engine.rules().count();
        let pid = self.connection.keep_alive.process.pid;
        let rules = if count == 1 { "rule" } else { "rules" };
        self.log.event(Event::Watching, None, format!("process {pid}, {count} {rules}"))?;
        let mut specs = Vec::new();
        for (rule, text) in self.engine.rules().enumerate() {
            self.log.event(Event::Waiting, Some(rule), text)?;
            for action in text.actions() {
                if let Action::Arm(spec) = action {
                    specs.push((rule, spec.clone()));
                }
            }
        }
        for (rule, spec) in specs {
            let attached = check_text(&spec, self.connection.attach(&spec))?;
            if let Some(Attached { id, .. }) = self.log_failure(Some(rule), &spec, attached)? {
                let detached = check_text(&spec, self.connection.detach(id))?;
                self.log_failure(Some(rule), &spec, detached)?;
            }
        }
        for recorder in 0..self.recorders.len() {
            self.attach_source(|all| &mut all.recorders[recorder], true)?;
        }
        for source in 0..self.sources.len() {
            self.attach_source(|all| &mut all.sources[source], true)?;
            self.take_baseline(source)?;
        }
        Ok(())
    }

    /// Logs a failure. After a lost connection, forgets the attachments.
    pub(super) fn log_failure<T>(
        &mut self,
        rule: Option<usize>,
        what: impl fmt::Display,
        result: Result<T, RequestError>,
    ) -> Result<Option<T>, Failure> {
        match result {
            Ok(it) => Ok(Some(it)),
            Err(RequestError::Log(failure)) => Err(failure),
            Err(error) => {
                self.log.event(Event::Failed, rule, format!("{what}: {error}"))?;
                if let RequestError::Lost(reason) = error {
                    self.forget_attachments(&reason)?;
                }
                Ok(None)
            }
        }
    }

    /// Attaches a source. Returns whether it could be attached. A text that is malformed at the
    /// start ends the watch.
    fn attach_source(
        &mut self,
        of: impl Fn(&mut Self) -> &mut Source,
        is_start: bool,
    ) -> Result<bool, Failure> {
        let spec = of(self).spec.clone();
        let attached = self.connection.attach(&spec);
        let attached = if is_start { check_text(&spec, attached)? } else { attached };
        let attached = self.log_failure(None, spec, attached)?;
        let source = of(self);
        let Some(attached) = attached else {
            source.attach_pauses.fail();
            return Ok(false);
        };
        source.attach_pauses.succeed();
        let is_renewed = source.id.replace(attached.id).is_some();
        self.notes(None, if is_renewed { Vec::new() } else { attachment_notes(&attached) })?;
        Ok(true)
    }

    pub(super) fn notes(&self, rule: Option<usize>, notes: Vec<String>) -> Result<(), Failure> {
        notes.into_iter().try_for_each(|note| self.log.event(Event::Note, rule, note))
    }

    /// Takes the baseline of a source that has just been attached.
    fn take_baseline(&mut self, source: usize) -> Result<(), Failure> {
        if let Some(id) = self.sources[source].id
            && !self.engine.is_renewed(source)
            && let Some(reading) = self.read(source, id)?
        {
            self.engine.begin(source, reading);
        }
        Ok(())
    }

    /// Reads an attachment of a source.
    fn read(&mut self, source: usize, id: u32) -> Result<Option<Reading>, Failure> {
        let report = self.connection.ask(ANSWER_TIMEOUT, |client| client.document(id, 0, &[]));
        let is_gone =
            matches!(&report, Err(RequestError::Refused(failure)) if failure.kind == FailureKind::Unknown);
        if is_gone && self.sources[source].id == Some(id) {
            // Another client has detached it.
            self.sources[source].id = None;
            self.engine.forget(source);
        }
        let spec = self.sources[source].spec.clone();
        let report = self.log_failure(None, &spec, report)?;
        match report.map(|report| reading(&report.document)) {
            Some(Ok(reading)) => {
                self.sources[source].report_pauses.succeed();
                return Ok(Some(reading));
            }
            Some(Err(problem)) => self.log.event(Event::Failed, None, format!("{spec}: {problem}"))?,
            None => (),
        }
        self.sources[source].report_pauses.fail();
        Ok(None)
    }

    /// Runs windows until the time is over, a signal comes, or the program ends.
    ///
    /// # Errors
    /// If nobody reads the log any further.
    pub fn run(&mut self, every: Duration, time: Option<Duration>) -> Result<(), Failure> {
        let mut from = self.log.elapsed();
        let end = time.map(|time| time.saturating_add(from));
        let keep_alive = &mut self.connection.keep_alive;
        (keep_alive.end, keep_alive.has_stopped) = (end, false);
        let mut next = from.saturating_add(every);
        loop {
            let now = self.log.elapsed();
            let (is_up, keep_alive) = (self.connection.is_up(), &mut self.connection.keep_alive);
            if keep_alive.is_over() || !is_up && !keep_alive.process.is_running() {
                return Ok(());
            }
            keep_alive.look()?;
            if !self.is_stopped() {
                self.finish_recordings(Some(now))?;
            }
            if now >= next {
                from = self.end_window(from, now)?;
                // A late window skips those that it missed.
                next = self.log.elapsed().saturating_add(every);
            }
            let due = self.recordings.iter().map(|it| it.due).min().filter(|_| !self.is_stopped());
            let until = [end, Some(next), due].into_iter().flatten().min();
            let left = until.map_or(POLL_INTERVAL, |at| at.saturating_sub(self.log.elapsed()));
            let was_up = self.connection.is_up();
            if !self.connection.wait(left.min(POLL_INTERVAL)) && was_up {
                self.forget_attachments("the program has ended the connection")?;
            }
        }
    }

    fn is_stopped(&self) -> bool {
        self.connection.keep_alive.is_stopped
    }

    /// Ends a window, and returns its end. The window of a stopped program is unknown. If the
    /// program was stopped in between, there is an unknown window before the readings, so that no
    /// condition holds for the time of the stop.
    fn end_window(&mut self, mut from: Duration, mut to: Duration) -> Result<Duration, Failure> {
        let readings = if self.is_stopped() { Vec::new() } else { self.take_readings()? };
        if mem::take(&mut self.connection.keep_alive.has_stopped) && !readings.is_empty() {
            to = self.log.elapsed();
            self.step(from, to)?;
            from = to;
        }
        if self.connection.is_up() {
            readings.into_iter().for_each(|(source, reading)| self.engine.read(source, reading));
        }
        self.step(from, to)?;
        Ok(to)
    }

    /// Does what the rules say at the end of a window.
    fn step(&mut self, from: Duration, to: Duration) -> Result<(), Failure> {
        for step in self.engine.step(from, to) {
            match step {
                Step::Fired { rule, firing, values } => self.fire(rule, firing, &values)?,
                Step::Ended { rule, lasted, .. } => {
                    for (spec, id) in self.armed.release(rule) {
                        self.disarm(rule, &spec, id)?;
                    }
                    let text = format!("after {:.3} s", lasted.as_secs_f64());
                    self.log.event(Event::Ended, Some(rule), text)?;
                }
            }
        }
        Ok(())
    }

    /// Reads the sources at the end of their window, and attaches all that is missing. Returns the
    /// readings of the window, each with its source.
    fn take_readings(&mut self) -> Result<Vec<(usize, Reading)>, Failure> {
        match self.connection.reconnect_if_due() {
            Some(Ok(())) => self.log.event(Event::Back, None, "the program answers again")?,
            Some(Err(reason)) => self.log.event(Event::Failed, None, reason)?,
            None => (),
        }
        let mut readings = Vec::new();
        for source in 0..self.sources.len() {
            readings.extend(self.read_or_attach(source)?.map(|reading| (source, reading)));
        }
        for at in 0..self.recorders.len() {
            let recorder = &mut self.recorders[at];
            if self.connection.is_up() && recorder.id.is_none() && recorder.attach_pauses.is_due() {
                self.attach_source(|all| &mut all.recorders[at], false)?;
            }
        }
        if self.connection.is_up() && !self.armed.missing().is_empty() && self.arm_pauses.is_due() {
            self.arm_missing()?;
        }
        Ok(readings)
    }

    /// Reads a source at the end of its window, or attaches it.
    fn read_or_attach(&mut self, source: usize) -> Result<Option<Reading>, Failure> {
        let is_renewed = self.engine.is_renewed(source);
        if !self.connection.is_up() {
            return Ok(None);
        }
        let it = &mut self.sources[source];
        if !it.report_pauses.is_due() {
            if is_renewed {
                self.detach_source(source)?;
            }
            return Ok(None);
        }
        let old = it.id;
        if let Some(id) = old.filter(|_| !is_renewed) {
            return self.read(source, id);
        }
        if !it.attach_pauses.is_due() {
            return Ok(None);
        }
        let is_attached = self.attach_source(|all| &mut all.sources[source], false)?;
        let mut read = None;
        match old {
            None => self.take_baseline(source)?,
            Some(_) if !is_attached => self.detach_source(source)?,
            Some(old) => {
                read = self.read(source, old)?;
                // Also if it could not be read.
                let detached = self.connection.detach(old);
                self.log_failure(None, self.sources[source].spec.clone(), detached)?;
            }
        }
        Ok(read)
    }

    /// Detaches a source that can't be renewed. Its next window must not begin before this one's
    /// end, so it is unknown.
    fn detach_source(&mut self, source: usize) -> Result<(), Failure> {
        let it = &mut self.sources[source];
        let Some(id) = it.id.take() else { return Ok(()) };
        let (spec, detached) = (it.spec.clone(), self.connection.detach(id));
        self.log_failure(None, spec, detached).map(drop)
    }

    /// Forgets all attachments, after the end of the connection. The program detaches them.
    pub(super) fn forget_attachments(&mut self, reason: &str) -> Result<(), Failure> {
        let process = &self.connection.keep_alive.process;
        let has_ended = process.wait_exit();
        let reason = if has_ended { process.exit_message() } else { reason.to_owned() };
        self.log.event(Event::Lost, None, reason)?;
        for Recording { rule, output, .. } in self.recordings.drain(..) {
            let event = if has_ended { Event::Left } else { Event::Failed };
            let text = format!("{} has the events until about now", output.path.display());
            self.log.event(event, Some(rule), text)?;
        }
        if has_ended {
            for (spec, _) in self.armed.clear() {
                self.log.event(Event::Left, None, format!("{spec} was armed"))?;
            }
        }
        self.armed.lose();
        self.sources.iter_mut().chain(&mut self.recorders).for_each(|it| it.id = None);
        (0..self.sources.len()).for_each(|source| self.engine.forget(source));
        Ok(())
    }

    /// Detaches all, and logs the numbers of each rule. Returns the program's process.
    ///
    /// # Errors
    /// If nobody reads the log any further.
    pub fn finish(mut self) -> Result<Process, Failure> {
        self.connection.keep_alive.look()?;
        if self.connection.is_up() && self.is_stopped() {
            self.connection.end();
            self.forget_attachments(STOPPED)?;
        }
        self.finish_recordings(None)?;
        for (spec, id) in self.armed.clear() {
            let detached = self.connection.detach(id);
            if self.log_failure(None, format!("disarm {spec}"), detached)?.is_some() {
                self.log.event(Event::Disarmed, None, spec)?;
            }
        }
        // The end of the connection detaches the rest, too. It is orderly this way.
        for id in self.sources.iter().chain(&self.recorders).filter_map(|it| it.id) {
            let _ = self.connection.detach(id);
        }
        self.connection.keep_alive.end_commands()?;
        for (rule, command) in self.connection.keep_alive.commands.running() {
            self.log.event(Event::Left, Some(rule), format!("`{command}` goes on"))?;
        }
        for (rule, totals) in self.engine.totals().enumerate() {
            if self.engine.is_active(rule) {
                self.log.event(Event::Ended, Some(rule), "with the watch")?;
            }
            self.log.summary(rule, totals)?;
        }
        Ok(self.connection.keep_alive.process)
    }
}
