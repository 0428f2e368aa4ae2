//! Polls the program: a thread that asks it at a pace, the attachments in it, and the ways to and
//! from the thread.

use std::collections::BTreeSet;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use probe_lang::Selector;
use probe_protocol::{Attach, Client, ClientError, FailureKind, Liveness};
use probe_report::Document;

use super::functions::{Callers, Function, Functions, Program};
use super::threads::{Thread, Threads};
use crate::live;

/// The time between two questions whose answers may be a little old.
const SLOW_INTERVAL: Duration = Duration::from_secs(1);
/// The part of the program's CPU time for estimates. The rest of half a percent is for the reports.
const PROFILE_BUDGET: &str = "0.3%";
/// The least and the greatest time between two questions for the same report.
const REPORT_INTERVALS: [Duration; 2] = [Duration::from_millis(250), Duration::from_secs(30)];
/// The time between two answers, as a multiple of the program's CPU time for one: so that an answer
/// takes 0.1 % of a processor. Two are due at a time: of all functions, and of those on the screen
/// or of the tree of calls.
const INTERVAL_PER_COST: u32 = 1000;

/// A request of the user.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Query {
    /// Measures the calls of these functions.
    Measure(Vec<String>),
    /// Stops measuring these functions.
    Release(Vec<String>),
    /// Makes all latent, estimates included.
    Disarm,
    /// Stops estimating, or starts again.
    Estimate,
    /// Starts to tell the callers of this function, or stops.
    Callers(Option<String>),
    /// Starts to tell the threads, or stops.
    Threads(bool),
    /// Asks most often about the functions with these probes, which are on the screen.
    Look(Vec<u32>),
}

/// The present knowledge of the program.
#[derive(Clone, PartialEq, Default, Debug)]
pub struct Snapshot {
    /// The program.
    pub program: Program,
    /// Its functions.
    pub functions: Vec<Function>,
    /// Whether they are estimated.
    pub is_estimating: bool,
    /// Processors that it keeps busy, if that is known.
    pub busy: Option<f64>,
    /// The part of its CPU time that estimates take.
    pub cost: Option<f64>,
    /// Calls that were not measured.
    pub lost: u64,
    /// Neighbours of the chosen function.
    pub callers: Option<Callers>,
    /// Its threads, while their page is open.
    pub threads: Option<Vec<Thread>>,
    /// A problem to show.
    pub problem: Option<String>,
    /// The time until the next question about all functions.
    pub every: Duration,
}

/// The latest snapshot, until it is taken. A later one replaces it, so that a slow terminal makes
/// no queue.
#[derive(Clone, Default)]
pub struct LatestSnapshot(Arc<Mutex<Option<Snapshot>>>);

impl LatestSnapshot {
    /// Replaces the snapshot. A problem that was not taken is kept, since it is told once.
    pub fn put(&self, snapshot: Snapshot) {
        let mut latest = self.lock();
        let untold = latest.take().and_then(|it| it.problem);
        let problem = snapshot.problem.or(untold);
        *latest = Some(Snapshot { problem, ..snapshot });
    }

    /// Takes the snapshot.
    pub fn take(&self) -> Option<Snapshot> {
        self.lock().take()
    }

    fn lock(&self) -> MutexGuard<'_, Option<Snapshot>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The thread that polls.
pub struct Poller {
    queries: Sender<Query>,
    latest: LatestSnapshot,
    thread: JoinHandle<Option<String>>,
}

impl Poller {
    /// Starts to ask about the functions of a selector.
    pub fn start(program: live::Program, selector: String) -> Self {
        let (queries, requests) = mpsc::channel();
        let latest = LatestSnapshot::default();
        let answers = latest.clone();
        let thread = thread::spawn(move || Worker::new(program, selector).run(&requests, &answers));
        Self { queries, latest, thread }
    }

    /// Sends a query. It is lost if the program has ended.
    pub fn send(&self, query: Query) {
        let _ = self.queries.send(query);
    }

    /// Returns the latest snapshot, if there is a new one; an error once there are no more.
    ///
    /// # Errors
    /// If the connection has ended.
    pub fn latest(&self) -> Result<Option<Snapshot>, ()> {
        // Asked first, since the last snapshot comes before the end.
        let has_ended = self.thread.is_finished();
        match self.latest.take() {
            None if has_ended => Err(()),
            latest => Ok(latest),
        }
    }

    /// Makes all latent. Returns why the connection has ended before, if it has. A program that
    /// gives no answer makes all latent itself, when this process ends.
    pub fn finish(self, at_most: Duration) -> Option<String> {
        let begin = Instant::now();
        drop(self.queries);
        while !self.thread.is_finished() {
            if begin.elapsed() > at_most {
                return None;
            }
            thread::sleep(Duration::from_millis(2));
        }
        self.thread.join().unwrap_or_else(|_| Some("the thread that asks has panicked".to_owned()))
    }
}

/// When to ask for a report.
#[derive(Clone, Copy, Debug)]
struct PollPace {
    /// When the next question is due.
    next: Instant,
    /// The time from then to the one after it.
    every: Duration,
}

impl PollPace {
    /// Begins with a question now.
    fn new(now: Instant) -> Self {
        Self { next: now, every: REPORT_INTERVALS[0] }
    }

    /// Notes an answer to the question that was due, and the program's CPU time for it.
    fn answered(&mut self, due: Instant, took: Duration) {
        self.every = (took * INTERVAL_PER_COST).clamp(REPORT_INTERVALS[0], REPORT_INTERVALS[1]);
        self.next = due + self.every;
    }
}

/// The state of the thread.
struct Worker {
    program: live::Program,
    selector: String,
    /// The parts of the next snapshot that are known.
    snapshot: Snapshot,
    functions: Functions,
    paths: BTreeSet<String>,
    measured: BTreeSet<String>,
    callers_of: Option<String>,
    /// Attachments: of estimates, of measurements, of the tree of calls.
    estimates: Option<u32>,
    measurements: Option<u32>,
    tree: Option<u32>,
    threads: Option<Threads>,
    /// The probes of the functions on the screen.
    visible: Vec<u32>,
    /// The paces of reports of all functions, of those on the screen, and of the tree.
    all: PollPace,
    rows: PollPace,
    edges: PollPace,
    /// Whether all functions have been reported.
    has_all: bool,
    /// The program's probes when they were last listed, and when they may be listed again.
    probes: u32,
    listed: Instant,
    /// Whether all functions are measured, later ones included.
    measures_all: bool,
}

impl Worker {
    /// Begins with a connection, and a selector.
    fn new(program: live::Program, selector: String) -> Self {
        let hello = program.client.hello();
        let name = hello.executable.rsplit('/').next().unwrap_or_default().to_owned();
        let about =
            Program { name, pid: program.process.pid, runtime: hello.runtime.clone(), ..Program::default() };
        let pace = PollPace::new(Instant::now());
        Self {
            program,
            selector,
            snapshot: Snapshot { program: about, ..Snapshot::default() },
            functions: Functions::default(),
            paths: BTreeSet::new(),
            measured: BTreeSet::new(),
            callers_of: None,
            estimates: None,
            measurements: None,
            tree: None,
            threads: None,
            visible: Vec::new(),
            all: pace,
            rows: pace,
            edges: pace,
            has_all: false,
            probes: 0,
            listed: pace.next,
            measures_all: false,
        }
    }

    /// Polls until the poller is dropped. Returns why the connection has ended before, if it has.
    fn run(mut self, queries: &Receiver<Query>, latest: &LatestSnapshot) -> Option<String> {
        match self.poll(queries, latest) {
            Ok(()) => {
                // The connection's end does the same.
                for id in [self.estimates, self.measurements, self.tree].into_iter().flatten() {
                    let _ = self.program.client.detach(id);
                }
                None
            }
            Err(ClientError::Ended) => {
                let live::Program { client, process } = self.program;
                drop(client);
                Some(process.end_reason())
            }
            Err(error) => Some(error.to_string()),
        }
    }

    fn poll(&mut self, queries: &Receiver<Query>, latest: &LatestSnapshot) -> Result<(), ClientError> {
        self.ask_for_status()?;
        // Without estimates the rest works.
        let estimating = self.set_estimating(true);
        self.note_refusal(estimating)?;
        let mut next = Instant::now();
        let mut next_slow = next;
        loop {
            if next >= next_slow {
                next_slow = next + SLOW_INTERVAL;
                self.ask_for_status()?;
                self.read_threads();
            }
            self.ask(next)?;
            latest.put(self.take_snapshot());
            match self.program.client.wait_for_end(Duration::ZERO)? {
                Liveness::Running => (),
                // It waits for this connection's end, and has made all of its calls.
                Liveness::Exiting => {
                    self.all.next = next;
                    self.ask(next)?;
                    latest.put(self.take_snapshot());
                    return Err(ClientError::Ended);
                }
                Liveness::Ended => return Err(ClientError::Ended),
            }
            // A late answer skips the moments that it missed.
            next = (next + REPORT_INTERVALS[0]).max(Instant::now());
            loop {
                let left = next.saturating_duration_since(Instant::now());
                match queries.recv_timeout(left) {
                    Ok(query) => {
                        let handled = self.handle(query);
                        self.note_refusal(handled)?;
                    }
                    Err(RecvTimeoutError::Timeout) => break,
                    Err(RecvTimeoutError::Disconnected) => return Ok(()),
                }
            }
        }
    }

    /// Notes a refusal of the program as a problem to show.
    fn note_refusal(&mut self, result: Result<(), ClientError>) -> Result<(), ClientError> {
        match result {
            Err(error @ ClientError::Failed(_)) => self.snapshot.problem = Some(error.to_string()),
            other => return other,
        }
        Ok(())
    }

    /// Lists the functions, after probes have come or gone, with a plugin for example. The next
    /// list follows after a hundred times as long as this took, since a program may be discovering
    /// its functions.
    fn list(&mut self) -> Result<(), ClientError> {
        let begun = Instant::now();
        let probes = match self.program.client.list(&self.selector) {
            // No probe matches right now.
            Err(ClientError::Failed(failure)) if failure.kind == FailureKind::NoMatch => Vec::new(),
            probes => probes?,
        };
        self.listed = Instant::now() + begun.elapsed() * 100;
        for probe in probes.iter().filter(|it| it.kind == "entry" && it.skipped.is_none()) {
            self.functions.add(probe.number, &probe.path, &probe.file, probe.line, probe.group.as_deref());
            self.paths.insert(probe.path.clone());
        }
        if self.measures_all {
            self.measured.clone_from(&self.paths);
        }
        Ok(())
    }

    fn ask_for_status(&mut self) -> Result<(), ClientError> {
        let status = self.program.client.status()?;
        let about = &mut self.snapshot.program;
        (about.threads, about.lost_hits) = (status.threads, status.lost_hits);
        if self.probes != status.probes && Instant::now() >= self.listed {
            self.probes = status.probes;
            self.list()?;
        }
        Ok(())
    }

    /// Reads the threads, if their page is open and it is time. If they can't be read, the last
    /// ones stay.
    fn read_threads(&mut self) {
        match self.threads.as_mut().and_then(Threads::read_if_due) {
            Some(Ok(read)) => self.snapshot.threads = Some(read),
            Some(Err(error)) => {
                self.snapshot.problem = Some(format!("the program's threads can't be read: {error}"));
            }
            None => (),
        }
    }

    /// Asks for the reports that are due at this time.
    fn ask(&mut self, now: Instant) -> Result<(), ClientError> {
        let Self { estimates, measurements, tree, snapshot: Snapshot { problem, callers, .. }, .. } = self;
        let mut question = Question { client: &mut self.program.client, problem, took: Duration::ZERO };
        let is_all = now >= self.all.next;
        let only = if is_all { &[][..] } else { &self.visible };
        if is_all || (now >= self.rows.next && !self.visible.is_empty()) {
            if let Some(report) = question.report(estimates, only)? {
                self.functions.estimate(&report, is_all);
            }
            if let Some(report) = question.report(measurements, only)? {
                self.functions.measure(&report, self.measures_all);
            }
            let pace = if is_all { &mut self.all } else { &mut self.rows };
            pace.answered(now, question.took());
            // A rate needs two reports.
            if is_all && !std::mem::replace(&mut self.has_all, true) {
                pace.next = pace.next.min(now + SLOW_INTERVAL);
            }
        }
        if let Some(path) = self.callers_of.as_ref().filter(|_| now >= self.edges.next) {
            if let Some(report) = question.report(tree, &[])? {
                *callers = Some(Callers::new(path, &report));
            }
            self.edges.answered(now, question.took());
            self.edges.next = self.edges.next.max(now + SLOW_INTERVAL);
        }
        Ok(())
    }

    fn take_snapshot(&mut self) -> Snapshot {
        let snapshot = Snapshot {
            functions: self.functions.list(),
            is_estimating: self.estimates.is_some(),
            busy: self.functions.busy(),
            cost: self.functions.cost(),
            lost: self.functions.lost,
            every: self.all.every,
            ..self.snapshot.clone()
        };
        self.snapshot.problem = None;
        snapshot
    }

    fn handle(&mut self, query: Query) -> Result<(), ClientError> {
        match query {
            Query::Measure(paths) => {
                self.measured.extend(paths);
                self.reattach_measurements()
            }
            Query::Release(paths) => {
                paths.iter().for_each(|path| _ = self.measured.remove(path));
                self.reattach_measurements()
            }
            Query::Disarm => {
                self.measured.clear();
                // All three, even if one fails.
                let all =
                    [self.reattach_measurements(), self.set_callers_of(None), self.set_estimating(false)];
                all.into_iter().collect()
            }
            Query::Estimate => self.set_estimating(self.estimates.is_none()),
            Query::Callers(path) => self.set_callers_of(path),
            Query::Threads(is_wanted) => {
                self.threads = is_wanted.then(|| Threads::of(self.program.process.pid));
                self.snapshot.threads = None;
                self.read_threads();
                Ok(())
            }
            Query::Look(shown) => {
                self.visible = shown;
                Ok(())
            }
        }
    }

    fn set_estimating(&mut self, is_wanted: bool) -> Result<(), ClientError> {
        if self.estimates.is_some() == is_wanted {
            return Ok(());
        }
        self.functions.forget_estimates();
        if is_wanted {
            self.ask_anew();
        }
        let spec = is_wanted.then(|| format!("{}=profile(budget={PROFILE_BUDGET})", self.selector));
        set_attached(&mut self.program.client, &mut self.estimates, spec)
    }

    /// Attaches the consumer that measures the chosen functions, in place of the last one.
    fn reattach_measurements(&mut self) -> Result<(), ClientError> {
        self.functions.forget_measurements();
        self.ask_anew();
        self.measures_all = !self.measured.is_empty() && self.measured == self.paths;
        set_attached(&mut self.program.client, &mut self.measurements, None)?;
        let paths: Vec<_> = self.measured.iter().map(|path| Selector::escape(path)).collect();
        let chosen = if self.measures_all { self.selector.clone() } else { paths.join(", ") };
        let spec = (!self.measured.is_empty()).then(|| format!("{chosen}=latency"));
        let attached = set_attached(&mut self.program.client, &mut self.measurements, spec);
        // No function is shown as measured then.
        attached.inspect_err(|_| self.measured.clear())
    }

    /// Asks about all functions, whose numbers are forgotten.
    fn ask_anew(&mut self) {
        (self.all, self.has_all) = (PollPace::new(Instant::now()), false);
    }

    fn set_callers_of(&mut self, path: Option<String>) -> Result<(), ClientError> {
        self.snapshot.callers = None;
        self.edges = PollPace::new(Instant::now());
        let spec = path.as_ref().map(|_| format!("{}=call-tree", self.selector));
        self.callers_of = path;
        set_attached(&mut self.program.client, &mut self.tree, spec)
    }
}

/// Attaches a consumer unless it is attached, or without a text detaches it. Another client may
/// have detached it already.
fn set_attached(
    client: &mut Client,
    attachment: &mut Option<u32>,
    spec: Option<String>,
) -> Result<(), ClientError> {
    match (spec, *attachment) {
        (Some(spec), None) => *attachment = Some(client.attach(&Attach::new(spec))?.id),
        (None, Some(id)) => {
            *attachment = None;
            match client.detach(id) {
                Err(error) if !is_gone(&error) => return Err(error),
                _ => (),
            }
        }
        _ => (),
    }
    Ok(())
}

/// Returns whether the program does not know the attachment.
fn is_gone(error: &ClientError) -> bool {
    matches!(error, ClientError::Failed(failure) if failure.kind == FailureKind::Unknown)
}

/// Asks for reports.
struct Question<'a> {
    client: &'a mut Client,
    problem: &'a mut Option<String>,
    /// The program's CPU time for the answers.
    took: Duration,
}

impl Question<'_> {
    /// Reads the report of an attachment, if there is one: of the functions with `only` these
    /// probes, or of all.
    fn report(
        &mut self,
        attachment: &mut Option<u32>,
        only: &[u32],
    ) -> Result<Option<Document<'static>>, ClientError> {
        let Some(id) = *attachment else { return Ok(None) };
        let report = match self.client.document(id, 0, only) {
            Err(error) if is_gone(&error) => {
                *self.problem = Some(error.to_string());
                *attachment = None;
                return Ok(None);
            }
            report => report?,
        };
        self.took += Duration::from_nanos(report.cpu_ns);
        Ok(Some(report.values))
    }

    /// Returns the program's CPU time for the answers since the last call.
    fn took(&mut self) -> Duration {
        std::mem::take(&mut self.took)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_answers_are_asked_for_less_often() {
        let due = Instant::now();
        let mut pace = PollPace::new(due);
        let mut every = |micros| {
            pace.answered(due, Duration::from_micros(micros));
            assert_eq!(pace.next, due + pace.every);
            pace.every.as_millis()
        };
        let paces = [0, 200, 300, 10_000, 60_000_000].map(&mut every);
        assert_eq!(paces, [250, 250, 300, 10_000, 30_000]);
    }
}
