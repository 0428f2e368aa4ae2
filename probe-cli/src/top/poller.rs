//! The thread that asks the program, and the ways to and from it.

use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::callers::Callers;
use super::functions::{Function, Program};
use super::threads::Thread;
use super::worker::Worker;
use crate::live;

/// A request of the person at the terminal.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Query {
    /// Measures the calls of these functions.
    Measure(Vec<String>),
    /// Measures them no longer.
    Release(Vec<String>),
    /// Makes all latent, estimates included.
    Disarm,
    /// Estimates no longer, or again.
    Estimate,
    /// Tells the callers of a function, or of none.
    Callers(Option<String>),
    /// Tells the threads, or no longer.
    Threads(bool),
    /// Asks most often about the functions that have these probes: those on the screen.
    Look(Vec<u32>),
}

/// An answer: the present knowledge.
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
    /// Neighbours of the function that somebody asked for.
    pub callers: Option<Callers>,
    /// Its threads, while somebody looks at them.
    pub threads: Option<Vec<Thread>>,
    /// A problem to show.
    pub problem: Option<String>,
    /// The time until the next question about all functions.
    pub every: Duration,
}

/// The latest answer, until somebody takes it. A later one takes its place: a terminal that takes
/// nothing makes no queue.
#[derive(Clone, Default)]
pub struct LatestSnapshot(Arc<Mutex<Option<Snapshot>>>);

impl LatestSnapshot {
    /// Puts an answer there.
    pub fn put(&self, answer: Snapshot) {
        let mut latest = self.lock();
        let unseen = latest.take().and_then(|it| it.problem);
        // A problem is told once, by the answer after it.
        let problem = answer.problem.or(unseen);
        *latest = Some(Snapshot { problem, ..answer });
    }

    /// Takes it.
    pub fn take(&self) -> Option<Snapshot> {
        self.lock().take()
    }

    fn lock(&self) -> MutexGuard<'_, Option<Snapshot>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The thread.
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

    /// Sends a wish. One to a program that has gone is lost.
    pub fn send(&self, query: Query) {
        let _ = self.queries.send(query);
    }

    /// Returns the latest answer, if there is a new one; an error once there are no more.
    ///
    /// # Errors
    /// If the connection has ended.
    pub fn latest(&self) -> Result<Option<Snapshot>, ()> {
        // Looked at first: the last answer comes before the end.
        let has_ended = self.thread.is_finished();
        match self.latest.take() {
            None if has_ended => Err(()),
            latest => Ok(latest),
        }
    }

    /// Makes all latent. Returns why the connection has ended before, if it has. A program that
    /// gives no answer does so itself, when this process ends.
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
