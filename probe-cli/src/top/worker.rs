//! The questions to the program, and the attachments in it.

use std::collections::BTreeSet;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use probe_protocol::{Attach, Client, ClientError, FailureKind};
use probe_runtime::Selector;
use serde::de::DeserializeOwned;

use super::asking::{Asked, Latest, Wish};
use super::callers::Callers;
use super::functions::{Functions, Program};
use super::reports::{Estimated, Measured, Node, Report};
use crate::live;

/// The time between two questions, at least and at most.
const EVERY: [Duration; 2] = [Duration::from_millis(250), Duration::from_secs(10)];
/// The program's time for an answer is this part of the time between two: 0.2 %. A report of
/// thousands of functions takes ten milliseconds and more.
const PART: u32 = 500;
/// The time between two that need not be so fresh.
const SELDOM: Duration = Duration::from_secs(1);
/// The part of the program's CPU time for estimates. The rest of half a percent is for the reports.
const BUDGET: &str = "0.3%";

/// The state of the thread.
pub struct Worker {
    program: live::Program,
    selector: String,
    about: Program,
    functions: Functions,
    paths: BTreeSet<String>,
    measured: BTreeSet<String>,
    asked_for: Option<String>,
    /// Attachments: of estimates, of measurements, of the tree of calls.
    estimates: Option<u32>,
    measurements: Option<u32>,
    tree: Option<u32>,
    callers: Option<Callers>,
    problem: Option<String>,
    /// The time until the next question.
    every: Duration,
}

impl Worker {
    /// Begins with a connection, and a selector.
    pub fn new(program: live::Program, selector: String) -> Self {
        let hello = program.client.hello();
        let name = hello.executable.rsplit('/').next().unwrap_or_default().to_owned();
        let about =
            Program { name, pid: program.process.pid, runtime: hello.runtime.clone(), ..Program::default() };
        Self {
            program,
            selector,
            about,
            functions: Functions::default(),
            paths: BTreeSet::new(),
            measured: BTreeSet::new(),
            asked_for: None,
            estimates: None,
            measurements: None,
            tree: None,
            callers: None,
            problem: None,
            every: EVERY[0],
        }
    }

    /// Asks until nobody looks. Returns why the connection has ended, if it has.
    pub fn run(mut self, wished: &Receiver<Wish>, latest: &Latest) -> Option<String> {
        if let Err(error) = self.begin() {
            return Some(self.said(&error));
        }
        let mut next = Instant::now();
        let mut seldom = next;
        loop {
            let asked = Instant::now();
            let is_seldom = asked >= seldom;
            if is_seldom {
                seldom = asked + SELDOM;
            }
            if let Err(error) = self.ask(is_seldom) {
                return Some(self.said(&error));
            }
            self.every = pace(asked.elapsed());
            latest.put(self.answer());
            // A late answer skips the moments that it missed.
            next = (next + self.every).max(Instant::now());
            loop {
                let left = next.saturating_duration_since(Instant::now());
                match wished.recv_timeout(left) {
                    Ok(wish) => match self.grant(wish) {
                        Err(error) if matches!(error, ClientError::Failed(_)) => {
                            self.problem = Some(error.to_string());
                        }
                        Err(error) => return Some(self.said(&error)),
                        // Somebody waits for the effect.
                        Ok(()) => next = next.min(Instant::now() + EVERY[0]),
                    },
                    Err(RecvTimeoutError::Timeout) => break,
                    Err(RecvTimeoutError::Disconnected) => return self.end(),
                }
            }
        }
    }

    fn said(&self, error: &ClientError) -> String {
        match error {
            ClientError::Ended => self.program.end().to_owned(),
            other => other.to_string(),
        }
    }

    /// Makes all latent.
    fn end(mut self) -> Option<String> {
        // The connection's end does the same.
        for id in [self.estimates, self.measurements, self.tree].into_iter().flatten() {
            let _ = self.program.client.detach(id);
        }
        None
    }

    fn begin(&mut self) -> Result<(), ClientError> {
        let probes = self.program.client.list(&self.selector)?;
        for probe in probes.iter().filter(|it| it.kind == "entry" && it.skipped.is_none()) {
            self.functions.add(&probe.path, &probe.file, probe.line, probe.group.as_deref());
            self.paths.insert(probe.path.clone());
        }
        match self.estimating(true) {
            // Without estimates the rest works.
            Err(error @ ClientError::Failed(_)) => self.problem = Some(error.to_string()),
            other => return other,
        }
        Ok(())
    }

    fn ask(&mut self, is_seldom: bool) -> Result<(), ClientError> {
        let client = &mut self.program.client;
        if is_seldom {
            let status = client.status()?;
            (self.about.threads, self.about.lost_hits) = (status.threads, status.lost_hits);
        }
        if let Some(report) = report::<Report<Estimated>>(client, &mut self.estimates, &mut self.problem)? {
            self.functions.estimate(&report);
        }
        if let Some(report) = report::<Report<Measured>>(client, &mut self.measurements, &mut self.problem)? {
            self.functions.measure(&report, self.measured == self.paths);
        }
        if let Some(path) = self.asked_for.as_ref().filter(|_| is_seldom)
            && let Some(report) = report::<Report<Node>>(client, &mut self.tree, &mut self.problem)?
        {
            self.callers = Some(Callers::new(path, &report));
        }
        Ok(())
    }

    fn answer(&mut self) -> Asked {
        Asked {
            program: self.about.clone(),
            functions: self.functions.list(),
            is_estimating: self.estimates.is_some(),
            busy: self.functions.busy(),
            cost: self.functions.cost(),
            lost: self.functions.lost,
            callers: self.callers.clone(),
            problem: self.problem.take(),
            every: self.every,
        }
    }

    fn grant(&mut self, wish: Wish) -> Result<(), ClientError> {
        match wish {
            Wish::Measure(paths) => {
                self.measured.extend(paths);
                self.measuring()
            }
            Wish::Release(paths) => {
                paths.iter().for_each(|path| _ = self.measured.remove(path));
                self.measuring()
            }
            Wish::Disarm => {
                self.measured.clear();
                // Each of them, whatever becomes of the others.
                let all = [self.measuring(), self.neighbours(None), self.estimating(false)];
                all.into_iter().collect()
            }
            Wish::Estimate => self.estimating(self.estimates.is_none()),
            Wish::Callers(path) => self.neighbours(path),
        }
    }

    fn estimating(&mut self, is_wanted: bool) -> Result<(), ClientError> {
        if let Some(id) = self.estimates.take_if(|_| !is_wanted) {
            self.functions.forget_estimates();
            self.detach(id)?;
        } else if self.estimates.is_none() && is_wanted {
            self.functions.forget_estimates();
            let spec = format!("{}=profile(budget={BUDGET})", self.selector);
            self.estimates = Some(self.program.client.attach(&Attach::new(spec))?.id);
        }
        Ok(())
    }

    /// Attaches what measures the chosen functions, in place of the last one.
    fn measuring(&mut self) -> Result<(), ClientError> {
        self.functions.forget_measurements();
        if let Some(id) = self.measurements.take() {
            self.detach(id)?;
        }
        if self.measured.is_empty() {
            return Ok(());
        }
        let paths: Vec<_> = self.measured.iter().map(|path| Selector::escape(path)).collect();
        let chosen = if self.measured == self.paths { self.selector.clone() } else { paths.join(", ") };
        let attached = self.program.client.attach(&Attach::new(format!("{chosen}=latency")));
        // No function is shown as measured then.
        self.measurements = Some(attached.inspect_err(|_| self.measured.clear())?.id);
        Ok(())
    }

    /// Detaches what may have been detached already.
    fn detach(&mut self, id: u32) -> Result<(), ClientError> {
        match self.program.client.detach(id) {
            Err(error) if !is_gone(&error) => Err(error),
            _ => Ok(()),
        }
    }

    fn neighbours(&mut self, path: Option<String>) -> Result<(), ClientError> {
        self.callers = None;
        let is_wanted = path.is_some();
        self.asked_for = path;
        if let Some(id) = self.tree.take_if(|_| !is_wanted) {
            self.detach(id)?;
        } else if self.tree.is_none() && is_wanted {
            let spec = format!("{}=call-tree", self.selector);
            self.tree = Some(self.program.client.attach(&Attach::new(spec))?.id);
        }
        Ok(())
    }
}

/// Returns the time until the next question, if an answer took this long.
fn pace(took: Duration) -> Duration {
    (took * PART).clamp(EVERY[0], EVERY[1])
}

/// Returns whether there is no such attachment any more.
fn is_gone(error: &ClientError) -> bool {
    matches!(error, ClientError::Failed(failure) if failure.kind == FailureKind::Unknown)
}

/// Reads the report of an attachment, if there is one; `None`, and a problem, if it is not as
/// expected.
fn report<R: DeserializeOwned>(
    client: &mut Client,
    attachment: &mut Option<u32>,
    problem: &mut Option<String>,
) -> Result<Option<R>, ClientError> {
    let Some(id) = *attachment else { return Ok(None) };
    let text = match client.report(id, 0, "json") {
        Err(error) if is_gone(&error) => {
            *problem = Some(error.to_string());
            *attachment = None;
            return Ok(None);
        }
        report => report?.text,
    };
    match serde_json::from_str(&text) {
        Ok(report) => Ok(Some(report)),
        Err(error) => {
            *problem = Some(format!("the program's report can't be read: {error}"));
            Ok(None)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_answers_are_asked_for_less_often() {
        let paces = [0, 400, 600, 10_000, 60_000_000].map(|micros| pace(Duration::from_micros(micros)));
        assert_eq!(paces.map(|it| it.as_millis()), [250, 250, 300, 5_000, 10_000]);
    }
}
