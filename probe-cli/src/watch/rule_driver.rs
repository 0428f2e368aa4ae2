//! The loop: a window after the other.

use std::fmt;
use std::time::Duration;

use probe_lang::rules::{Action, Backoff, Engine, Reading, RefCountedSpecs, Step};
use probe_protocol::FailureKind;

use super::connection::{Attached, Connection, RequestError, STOPPED};
use super::keep_alive::KeepAlive;
use super::log::{Event, Log};
use super::readings::reading;
use super::recordings::Recordings;
use crate::live::{POLL_INTERVAL, Process, Program, Stop};
use crate::output::Failure;

/// The state of the watch.
pub struct RuleDriver {
    pub(super) connection: Connection,
    pub(super) engine: Engine,
    pub(super) log: Log,
    /// The consumers of figures, and flight recorders of the rules' own.
    sources: Vec<Source>,
    pub(super) recorders: Vec<Source>,
    pub(super) armed: RefCountedSpecs<u32>,
    pub(super) arm_pauses: Backoff,
    pub(super) recordings: Recordings,
}

/// A consumer that is attached all the time.
pub(super) struct Source {
    pub(super) spec: String,
    pub(super) id: Option<u32>,
    pauses: Backoff,
    /// Pauses after reports that failed. An attachment does not end them, or a report that ends the
    /// connection would be asked for in each window.
    report_pauses: Backoff,
}

impl Source {
    fn of(spec: impl Into<String>) -> Self {
        let (pauses, report_pauses) = (Backoff::default(), Backoff::default());
        Self { spec: spec.into(), id: None, pauses, report_pauses }
    }
}

impl RuleDriver {
    pub fn new(program: Program, engine: Engine, log: Log, stop: Stop) -> Self {
        let Program { client, process } = program;
        let sources = engine.sources().map(Source::of).collect();
        let recorders = engine.recorders().into_iter().map(Source::of).collect();
        Self {
            connection: Connection::new(client, KeepAlive::new(process, log, stop)),
            engine,
            log,
            sources,
            recorders,
            armed: RefCountedSpecs::default(),
            arm_pauses: Backoff::default(),
            recordings: Recordings::default(),
        }
    }

    /// Attaches what the rules need, and takes the baseline. The texts to arm are attached for a
    /// moment, so that a mistake shows now and not when a rule fires.
    ///
    /// # Errors
    /// A text that the program finds malformed. Any other refusal is logged.
    pub fn start(&mut self) -> Result<(), Failure> {
        let count = self.engine.rules().count();
        let pid = self.connection.keep_alive.process.pid;
        let rules = if count == 1 { "rule" } else { "rules" };
        self.log.event(Event::Watching, None, format!("process {pid}, {count} {rules}"))?;
        for (rule, text) in self.engine.rules().enumerate() {
            self.log.event(Event::Waiting, Some(rule), text)?;
        }
        let actions: Vec<_> = self.engine.rules().map(|rule| rule.actions().to_vec()).collect();
        for (rule, action) in
            actions.iter().enumerate().flat_map(|(rule, all)| all.iter().map(move |it| (rule, it)))
        {
            let Action::Arm(spec) = action else { continue };
            let tried = self.connection.attach(spec);
            if let Some(Attached { id, .. }) = self.fail_if_malformed(Some(rule), spec, tried)? {
                let detached = self.connection.detach(id);
                self.fail_if_malformed(Some(rule), spec, detached)?;
            }
        }
        for place in 0..self.recorders.len() {
            let attached = self.connection.attach(&self.recorders[place].spec);
            let spec = self.recorders[place].spec.clone();
            let attached = self.fail_if_malformed(None, &spec, attached)?;
            self.note_attached(attached, |all| &mut all.recorders[place])?;
        }
        for source in 0..self.sources.len() {
            let attached = self.connection.attach(&self.sources[source].spec);
            let spec = self.sources[source].spec.clone();
            let attached = self.fail_if_malformed(None, &spec, attached)?;
            self.note_attached(attached, |all| &mut all.sources[source])?;
            self.take_baseline(source)?;
        }
        Ok(())
    }

    /// Ends the watch if the program finds a text malformed.
    fn fail_if_malformed<T>(
        &mut self,
        rule: Option<usize>,
        spec: &str,
        result: Result<T, RequestError>,
    ) -> Result<Option<T>, Failure> {
        match result {
            Err(RequestError::Refused(failure)) if failure.kind == FailureKind::Malformed => {
                Err(Failure::Usage(format!("`{spec}`: {failure}")))
            }
            other => self.log_failure(rule, spec, other),
        }
    }

    /// Logs a failure. After a lost connection, it forgets the attachments.
    pub(super) fn log_failure<T>(
        &mut self,
        rule: Option<usize>,
        what: impl fmt::Display,
        result: Result<T, RequestError>,
    ) -> Result<Option<T>, Failure> {
        match result {
            Ok(it) => Ok(Some(it)),
            Err(RequestError::Log(failure)) => Err(failure),
            Err(trouble) => {
                self.log.event(Event::Failed, rule, format!("{what}: {trouble}"))?;
                if let RequestError::Lost(reason) = trouble {
                    self.forget_attachments(&reason)?;
                }
                Ok(None)
            }
        }
    }

    /// Notes the attachment of a source, or that there is none.
    fn note_attached(
        &mut self,
        attached: Option<Attached>,
        of: impl FnOnce(&mut Self) -> &mut Source,
    ) -> Result<(), Failure> {
        let source = of(self);
        let Some(Attached { id, notes }) = attached else {
            source.pauses.fail();
            return Ok(());
        };
        source.pauses.succeed();
        source.id = Some(id);
        self.notes(None, notes)
    }

    pub(super) fn notes(&self, rule: Option<usize>, notes: Vec<String>) -> Result<(), Failure> {
        notes.into_iter().try_for_each(|note| self.log.event(Event::Note, rule, note))
    }

    /// Takes the baseline of a source that has just been attached.
    fn take_baseline(&mut self, source: usize) -> Result<(), Failure> {
        let Some(id) = self.sources[source].id.filter(|_| !self.engine.is_renewed(source)) else {
            return Ok(());
        };
        if let Some(reading) = self.read(source, id)? {
            self.engine.begin(source, reading);
        }
        Ok(())
    }

    /// Reads an attachment of a source.
    fn read(&mut self, source: usize, id: u32) -> Result<Option<Reading>, Failure> {
        let report = self.connection.ask(|client| client.report(id, 0, "json"));
        let is_gone =
            matches!(&report, Err(RequestError::Refused(failure)) if failure.kind == FailureKind::Unknown);
        if is_gone && self.sources[source].id == Some(id) {
            // Another client has detached it.
            self.sources[source].id = None;
            self.engine.forget(source);
        }
        let spec = self.sources[source].spec.clone();
        let report = self.log_failure(None, &spec, report)?;
        match report.map(|report| reading(&report.text)) {
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

    /// Runs windows until the time is over, the signal comes, or the program ends.
    pub fn run(&mut self, every: Duration, time: Option<Duration>) -> Result<(), Failure> {
        let mut from = self.log.elapsed();
        let end = time.map(|time| time.saturating_add(from));
        self.connection.keep_alive.begin_windows(end);
        let mut next = from.saturating_add(every);
        loop {
            let now = self.log.elapsed();
            if self.connection.keep_alive.is_over() {
                return Ok(());
            }
            if !self.connection.is_up() && !self.connection.keep_alive.process.is_running() {
                return Ok(());
            }
            self.connection.keep_alive.look()?;
            if !self.is_stopped() {
                self.finish_recordings(Some(now))?;
            }
            if now >= next {
                from = self.end_window(from, now)?;
                // A late window skips those that it missed.
                next = self.log.elapsed().saturating_add(every);
            }
            let due = self.recordings.next_due().filter(|_| !self.is_stopped());
            let until = [end, Some(next), due].into_iter().flatten().min();
            let left = until.map_or(POLL_INTERVAL, |at| at.saturating_sub(self.log.elapsed()));
            let was_up = self.connection.is_up();
            if !self.connection.wait(left.min(POLL_INTERVAL)) && was_up {
                self.forget_attachments("the program has ended the connection")?;
            }
        }
    }

    fn is_stopped(&self) -> bool {
        self.connection.keep_alive.is_stopped()
    }

    /// Ends a window, and returns its end. That of a stopped program is unknown. If it was stopped
    /// in between, there is an unknown window before the readings, so that no condition holds for
    /// the time of the stop.
    fn end_window(&mut self, mut from: Duration, mut to: Duration) -> Result<Duration, Failure> {
        let readings = if self.is_stopped() { Vec::new() } else { self.take_readings()? };
        if self.connection.keep_alive.take_has_stopped() && !readings.is_empty() {
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
                    self.log.event(
                        Event::Ended,
                        Some(rule),
                        format!("after {:.3} s", lasted.as_secs_f64()),
                    )?;
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
        for place in 0..self.recorders.len() {
            let recorder = &mut self.recorders[place];
            if self.connection.is_up() && recorder.id.is_none() && recorder.pauses.is_due() {
                let spec = recorder.spec.clone();
                let attached = self.connection.attach(&spec);
                let attached = self.log_failure(None, spec, attached)?;
                self.note_attached(attached, |all| &mut all.recorders[place])?;
            }
        }
        if self.connection.is_up() && !self.armed.missing().is_empty() && self.arm_pauses.is_due() {
            self.arm_missing()?;
        }
        Ok(readings)
    }

    /// Reads a source at the end of its window, or attaches it.
    fn read_or_attach(&mut self, source: usize) -> Result<Option<Reading>, Failure> {
        let it = &mut self.sources[source];
        let is_renewed = self.engine.is_renewed(source);
        if !self.connection.is_up() {
            return Ok(None);
        }
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
        if !it.pauses.is_due() {
            return Ok(None);
        }
        let spec = it.spec.clone();
        let attached = self.connection.attach(&spec);
        let attached = self.log_failure(None, &spec, attached)?;
        let is_there = attached.is_some();
        let attached =
            attached.map(|it| Attached { notes: if old.is_none() { it.notes } else { Vec::new() }, ..it });
        self.note_attached(attached, |all| &mut all.sources[source])?;
        let Some(old) = old else {
            self.take_baseline(source)?;
            return Ok(None);
        };
        if !is_there {
            self.detach_source(source)?;
            return Ok(None);
        }
        let read = self.read(source, old)?;
        // Also if it could not be read.
        let detached = self.connection.detach(old);
        self.log_failure(None, spec, detached)?;
        Ok(read)
    }

    /// Detaches a source that can't be renewed. Its next window must not begin before this one's
    /// end, so it is unknown.
    fn detach_source(&mut self, source: usize) -> Result<(), Failure> {
        let it = &mut self.sources[source];
        let Some(id) = it.id.take() else { return Ok(()) };
        let spec = it.spec.clone();
        let detached = self.connection.detach(id);
        self.log_failure(None, spec, detached).map(drop)
    }

    /// Forgets all that was attached, after the end of the connection. The program detaches it.
    pub(super) fn forget_attachments(&mut self, reason: &str) -> Result<(), Failure> {
        let process = &self.connection.keep_alive.process;
        let has_ended = process.wait_exit();
        let reason = if has_ended { process.exit_message() } else { reason.to_owned() };
        self.log.event(Event::Lost, None, reason)?;
        for (rule, path) in self.recordings.give_up() {
            let event = if has_ended { Event::Left } else { Event::Failed };
            self.log.event(event, Some(rule), format!("{path} has the events until about now"))?;
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
        for id in self.sources.iter().chain(&self.recorders).filter_map(|it| it.id).collect::<Vec<_>>() {
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
