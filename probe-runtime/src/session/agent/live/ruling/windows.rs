//! The state of the thread, and its windows.

use std::env;
use std::mem;
use std::path::PathBuf;
use std::process;
use std::time::Instant;

use super::acts::Recording;
use super::log::Log;
use super::readings::reading;
use crate::engine::error::Error;
use crate::session::spec::{ClientSpec, SpecAttachments};
use probe_lang::rules::{Backoff, Engine, RefCountedSpecs, Step};

/// The state of the thread.
pub(super) struct Ruling {
    pub(super) engine: Engine,
    pub(super) log: Log,
    /// The consumers of figures, and flight recorders for snapshots.
    sources: Vec<Source>,
    pub(super) recorders: Vec<Source>,
    pub(super) armed: RefCountedSpecs<SpecAttachments>,
    pub(super) arming: Backoff,
    pub(super) recordings: Vec<Recording>,
    /// The working directory at the start, in which relative paths begin.
    pub(super) folder: PathBuf,
}

/// A consumer that is attached all the time.
pub(super) struct Source {
    pub(super) spec: String,
    /// The attachment, and when it was made.
    pub(super) attached: Option<(SpecAttachments, Instant)>,
    backoff: Backoff,
}

impl Source {
    fn of(spec: impl Into<String>) -> Self {
        Self { spec: spec.into(), attached: None, backoff: Backoff::default() }
    }

    /// Attaches it, in place of the last attachment, if the next try is due. Returns the last one;
    /// an error if nothing was attached.
    fn attach(&mut self, log: &mut Log) -> Result<Option<(SpecAttachments, Instant)>, ()> {
        if !self.backoff.is_due() {
            return Err(());
        }
        match attach(&self.spec) {
            Ok(attached) => {
                self.backoff.succeed();
                // A new consumer for each window has the notes of the first one.
                if self.attached.is_none() {
                    log.notes(None, &attached);
                }
                Ok(self.attached.replace((attached, Instant::now())))
            }
            Err(error) => {
                self.backoff.fail();
                log.event("failed", None, format!("{}: {error}", self.spec));
                Err(())
            }
        }
    }
}

/// Attaches consumers, which a forked child leaves behind.
pub(super) fn attach(spec: &str) -> Result<SpecAttachments, Error> {
    ClientSpec::parse(spec)?.attach(None)
}

impl Ruling {
    /// Takes the program's working directory, so it is made at the start.
    pub(super) fn new(engine: Engine, log: Log) -> Self {
        let sources = engine.sources().map(Source::of).collect();
        let recorders = engine.recorders().into_iter().map(Source::of).collect();
        Self {
            engine,
            log,
            sources,
            recorders,
            armed: RefCountedSpecs::default(),
            arming: Backoff::default(),
            recordings: Vec::new(),
            folder: env::current_dir().unwrap_or_default(),
        }
    }

    /// Attaches what the rules need, and takes the baseline.
    pub(super) fn start(&mut self) {
        let count = self.engine.rules().count();
        let rules = if count == 1 { "rule" } else { "rules" };
        self.log.event("watching", None, format!("process {}, {count} {rules}", process::id()));
        for (rule, text) in self.engine.rules().enumerate() {
            self.log.event("waiting", Some(rule), text);
        }
        self.recorders.iter_mut().for_each(|it| _ = it.attach(&mut self.log));
        for source in 0..self.sources.len() {
            self.turn(source);
        }
    }

    /// Reads a source at the end of its window, or attaches it.
    fn turn(&mut self, source: usize) {
        let it = &mut self.sources[source];
        let is_renewed = self.engine.is_renewed(source);
        if let Some((attached, since)) = it.attached.as_ref().filter(|_| !is_renewed) {
            return self.engine.read(source, reading(attached, *since));
        }
        match it.attach(&mut self.log) {
            // The old one is detached once it is read.
            Ok(Some((old, since))) => self.engine.read(source, reading(&old, since)),
            Ok(None) if !is_renewed => {
                let now = it.attached.as_ref().map(|(attached, since)| reading(attached, *since));
                now.into_iter().for_each(|now| self.engine.begin(source, now));
            }
            Ok(None) => (),
            // The next window must not begin before this one's end, so it is unknown.
            Err(()) => it.attached = None,
        }
    }

    /// Ends a window.
    pub(super) fn window(&mut self, from: Instant, to: Instant) {
        for source in 0..self.sources.len() {
            self.turn(source);
        }
        let missing = self.recorders.iter_mut().filter(|it| it.attached.is_none());
        missing.for_each(|it| _ = it.attach(&mut self.log));
        if !self.armed.missing().is_empty() && self.arming.is_due() {
            self.arm_missing();
        }
        let begin = self.log.begin();
        let [from, to] = [from, to].map(|at| at.saturating_duration_since(begin));
        for step in self.engine.step(from, to) {
            match step {
                Step::Fired { rule, firing, values } => self.fire(rule, firing, &values),
                Step::Ended { rule, lasted, .. } => {
                    for (spec, attachments) in self.armed.release(rule) {
                        drop(attachments);
                        self.log.event("disarmed", Some(rule), spec);
                    }
                    self.log.event("ended", Some(rule), format!("after {:.3} s", lasted.as_secs_f64()));
                }
            }
        }
    }

    /// Returns when the next recording is due.
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.recordings.iter().map(|it| it.due).min()
    }

    /// Finishes recordings, and logs the numbers of each rule, as the program exits.
    pub(super) fn finish(mut self) {
        let recordings = self.finish_recordings(None);
        let armed = self.armed.clear();
        armed.iter().for_each(|(spec, _)| self.log.event("left", None, spec));
        for (rule, totals) in self.engine.totals().enumerate() {
            if self.engine.is_active(rule) {
                self.log.event("ended", Some(rule), "with the program");
            }
            self.log.event("summary", Some(rule), totals);
        }
        // The process ends, so nothing needs to be detached. That would wait for hits, and the
        // thread that exits may be in one.
        mem::forget((recordings, armed, self.sources, self.recorders));
    }
}
