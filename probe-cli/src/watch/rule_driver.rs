//! The loop: a window after the other.

use std::fmt;
use std::time::Duration;

use probe_lang::rules::{Action, Backoff, Engine, Reading, RefCountedSpecs, Step};
use probe_protocol::FailureKind;

use super::connection::{Attached, Link, STOPPED, Trouble};
use super::keep_alive::Upkeep;
use super::log::{Event, Log};
use super::readings::reading;
use super::recordings::Recordings;
use crate::live::{POLL_INTERVAL, Process, Program, Stop};
use crate::output::Failure;

/// The state of the watch.
pub struct Watching {
    pub(super) link: Link,
    pub(super) engine: Engine,
    pub(super) log: Log,
    /// The consumers of figures, and flight recorders of the rules' own.
    sources: Vec<Source>,
    pub(super) recorders: Vec<Source>,
    pub(super) armed: RefCountedSpecs<u32>,
    pub(super) arming: Backoff,
    pub(super) recordings: Recordings,
}

/// A consumer that is attached all the time.
pub(super) struct Source {
    pub(super) spec: String,
    pub(super) id: Option<u32>,
    backoff: Backoff,
    /// Pauses after reports that failed. An attachment does not end them, or a report that ends the
    /// connection would be asked for in each window.
    reading: Backoff,
}

impl Source {
    fn of(spec: impl Into<String>) -> Self {
        let (backoff, reading) = (Backoff::default(), Backoff::default());
        Self { spec: spec.into(), id: None, backoff, reading }
    }
}

impl Watching {
    pub fn new(program: Program, engine: Engine, log: Log, stop: Stop) -> Self {
        let Program { client, process } = program;
        let sources = engine.sources().map(Source::of).collect();
        let recorders = engine.recorders().into_iter().map(Source::of).collect();
        Self {
            link: Link::new(client, Upkeep::new(process, log, stop)),
            engine,
            log,
            sources,
            recorders,
            armed: RefCountedSpecs::default(),
            arming: Backoff::default(),
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
        let pid = self.link.upkeep.process.pid;
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
            let tried = self.link.attach(spec);
            if let Some(Attached { id, .. }) = self.checked(Some(rule), spec, tried)? {
                let detached = self.link.detach(id);
                self.checked(Some(rule), spec, detached)?;
            }
        }
        for place in 0..self.recorders.len() {
            let attached = self.link.attach(&self.recorders[place].spec);
            let spec = self.recorders[place].spec.clone();
            let attached = self.checked(None, &spec, attached)?;
            self.keep(attached, |all| &mut all.recorders[place])?;
        }
        for source in 0..self.sources.len() {
            let attached = self.link.attach(&self.sources[source].spec);
            let spec = self.sources[source].spec.clone();
            let attached = self.checked(None, &spec, attached)?;
            self.keep(attached, |all| &mut all.sources[source])?;
            self.begin(source)?;
        }
        Ok(())
    }

    /// Ends the watch if the program finds a text malformed.
    fn checked<T>(
        &mut self,
        rule: Option<usize>,
        spec: &str,
        result: Result<T, Trouble>,
    ) -> Result<Option<T>, Failure> {
        match result {
            Err(Trouble::Refused(failure)) if failure.kind == FailureKind::Malformed => {
                Err(Failure::Usage(format!("`{spec}`: {failure}")))
            }
            other => self.logged(rule, spec, other),
        }
    }

    /// Logs a failure. After a lost connection, it forgets the attachments.
    pub(super) fn logged<T>(
        &mut self,
        rule: Option<usize>,
        what: impl fmt::Display,
        result: Result<T, Trouble>,
    ) -> Result<Option<T>, Failure> {
        match result {
            Ok(it) => Ok(Some(it)),
            Err(Trouble::Log(failure)) => Err(failure),
            Err(trouble) => {
                self.log.event(Event::Failed, rule, format!("{what}: {trouble}"))?;
                if let Trouble::Lost(reason) = trouble {
                    self.lost(&reason)?;
                }
                Ok(None)
            }
        }
    }

    /// Notes the attachment of a source, or that there is none.
    fn keep(
        &mut self,
        attached: Option<Attached>,
        of: impl FnOnce(&mut Self) -> &mut Source,
    ) -> Result<(), Failure> {
        let source = of(self);
        let Some(Attached { id, notes }) = attached else {
            source.backoff.fail();
            return Ok(());
        };
        source.backoff.succeed();
        source.id = Some(id);
        self.notes(None, notes)
    }

    pub(super) fn notes(&self, rule: Option<usize>, notes: Vec<String>) -> Result<(), Failure> {
        notes.into_iter().try_for_each(|note| self.log.event(Event::Note, rule, note))
    }

    /// Takes the baseline of a source that has just been attached.
    fn begin(&mut self, source: usize) -> Result<(), Failure> {
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
        let report = self.link.ask(|client| client.report(id, 0, "json"));
        let is_gone =
            matches!(&report, Err(Trouble::Refused(failure)) if failure.kind == FailureKind::Unknown);
        if is_gone && self.sources[source].id == Some(id) {
            // Another client has detached it.
            self.sources[source].id = None;
            self.engine.forget(source);
        }
        let spec = self.sources[source].spec.clone();
        let report = self.logged(None, &spec, report)?;
        match report.map(|report| reading(&report.text)) {
            Some(Ok(reading)) => {
                self.sources[source].reading.succeed();
                return Ok(Some(reading));
            }
            Some(Err(problem)) => self.log.event(Event::Failed, None, format!("{spec}: {problem}"))?,
            None => (),
        }
        self.sources[source].reading.fail();
        Ok(None)
    }

    /// Runs windows until the time is over, the signal comes, or the program ends.
    pub fn run(&mut self, every: Duration, time: Option<Duration>) -> Result<(), Failure> {
        let mut from = self.log.elapsed();
        let end = time.map(|time| time.saturating_add(from));
        self.link.upkeep.begin_windows(end);
        let mut next = from.saturating_add(every);
        loop {
            let now = self.log.elapsed();
            if self.link.upkeep.is_over() {
                return Ok(());
            }
            if !self.link.is_up() && !self.link.upkeep.process.is_running() {
                return Ok(());
            }
            self.link.upkeep.look()?;
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
            let was_up = self.link.is_up();
            if !self.link.wait(left.min(POLL_INTERVAL)) && was_up {
                self.lost("the program has ended the connection")?;
            }
        }
    }

    fn is_stopped(&self) -> bool {
        self.link.upkeep.is_stopped()
    }

    /// Ends a window, and returns its end. That of a stopped program is unknown. If it was stopped
    /// in between, there is an unknown window before the readings, so that no condition holds for
    /// the time of the stop.
    fn end_window(&mut self, mut from: Duration, mut to: Duration) -> Result<Duration, Failure> {
        let readings = if self.is_stopped() { Vec::new() } else { self.take_readings()? };
        if self.link.upkeep.take_has_stopped() && !readings.is_empty() {
            to = self.log.elapsed();
            self.step(from, to)?;
            from = to;
        }
        if self.link.is_up() {
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
        match self.link.try_again() {
            Some(Ok(())) => self.log.event(Event::Back, None, "the program answers again")?,
            Some(Err(reason)) => self.log.event(Event::Failed, None, reason)?,
            None => (),
        }
        let mut readings = Vec::new();
        for source in 0..self.sources.len() {
            readings.extend(self.turn(source)?.map(|reading| (source, reading)));
        }
        for place in 0..self.recorders.len() {
            let recorder = &mut self.recorders[place];
            if self.link.is_up() && recorder.id.is_none() && recorder.backoff.is_due() {
                let spec = recorder.spec.clone();
                let attached = self.link.attach(&spec);
                let attached = self.logged(None, spec, attached)?;
                self.keep(attached, |all| &mut all.recorders[place])?;
            }
        }
        if self.link.is_up() && !self.armed.missing().is_empty() && self.arming.is_due() {
            self.arm_missing()?;
        }
        Ok(readings)
    }

    /// Reads a source at the end of its window, or attaches it.
    fn turn(&mut self, source: usize) -> Result<Option<Reading>, Failure> {
        let it = &mut self.sources[source];
        let is_renewed = self.engine.is_renewed(source);
        if !self.link.is_up() {
            return Ok(None);
        }
        if !it.reading.is_due() {
            if is_renewed {
                self.leave(source)?;
            }
            return Ok(None);
        }
        let old = it.id;
        if let Some(id) = old.filter(|_| !is_renewed) {
            return self.read(source, id);
        }
        if !it.backoff.is_due() {
            return Ok(None);
        }
        let spec = it.spec.clone();
        let attached = self.link.attach(&spec);
        let attached = self.logged(None, &spec, attached)?;
        let is_there = attached.is_some();
        let attached =
            attached.map(|it| Attached { notes: if old.is_none() { it.notes } else { Vec::new() }, ..it });
        self.keep(attached, |all| &mut all.sources[source])?;
        let Some(old) = old else {
            self.begin(source)?;
            return Ok(None);
        };
        if !is_there {
            self.leave(source)?;
            return Ok(None);
        }
        let read = self.read(source, old)?;
        // Also if it could not be read.
        let detached = self.link.detach(old);
        self.logged(None, spec, detached)?;
        Ok(read)
    }

    /// Detaches a source that can't be renewed. Its next window must not begin before this one's
    /// end, so it is unknown.
    fn leave(&mut self, source: usize) -> Result<(), Failure> {
        let it = &mut self.sources[source];
        let Some(id) = it.id.take() else { return Ok(()) };
        let spec = it.spec.clone();
        let detached = self.link.detach(id);
        self.logged(None, spec, detached).map(drop)
    }

    /// Forgets all that was attached, after the end of the connection. The program detaches it.
    pub(super) fn lost(&mut self, reason: &str) -> Result<(), Failure> {
        let process = &self.link.upkeep.process;
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
        self.link.upkeep.look()?;
        if self.link.is_up() && self.is_stopped() {
            self.link.end();
            self.lost(STOPPED)?;
        }
        self.finish_recordings(None)?;
        for (spec, id) in self.armed.clear() {
            let detached = self.link.detach(id);
            if self.logged(None, format!("disarm {spec}"), detached)?.is_some() {
                self.log.event(Event::Disarmed, None, spec)?;
            }
        }
        // The end of the connection detaches the rest, too. It is orderly this way.
        for id in self.sources.iter().chain(&self.recorders).filter_map(|it| it.id).collect::<Vec<_>>() {
            let _ = self.link.detach(id);
        }
        self.link.upkeep.end_commands()?;
        for (rule, command) in self.link.upkeep.commands.running() {
            self.log.event(Event::Left, Some(rule), format!("`{command}` goes on"))?;
        }
        for (rule, totals) in self.engine.totals().enumerate() {
            if self.engine.is_active(rule) {
                self.log.event(Event::Ended, Some(rule), "with the watch")?;
            }
            self.log.summary(rule, totals)?;
        }
        Ok(self.link.upkeep.process)
    }
}
