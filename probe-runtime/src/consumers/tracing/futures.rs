//! Spans of futures, from the first poll to the end, on whatever threads.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::open::Span;

/// The spans of futures that have begun and have not ended, by function and address.
pub(super) struct Futures {
    /// The process whose futures these are. In a forked child, the lock may be taken for ever, and
    /// the threads that polled the futures are gone.
    process: u32,
    begun: Mutex<HashMap<(usize, usize), Begun>>,
}

/// A future that has begun.
#[derive(Clone)]
pub(super) struct Begun {
    pub(super) generation: u32,
    /// `None` if the subscriber did not want it.
    pub(super) span: Option<Span>,
}

impl Futures {
    pub(super) fn new() -> Self {
        Self { process: std::process::id(), begun: Mutex::default() }
    }

    fn begun(&self) -> Option<MutexGuard<'_, HashMap<(usize, usize), Begun>>> {
        let is_own = std::process::id() == self.process;
        is_own.then(|| self.begun.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns whether the future is kept. A future that had this address before has ended unseen.
    pub(super) fn begin(&self, function: usize, future: usize, begun: Begun) -> bool {
        let Some(mut all) = self.begun() else { return false };
        let before = all.insert((function, future), begun);
        drop(all);
        before.and_then(|before| before.span).into_iter().for_each(Span::close);
        true
    }

    /// Returns a future that began in this generation.
    pub(super) fn get(&self, function: usize, future: usize, generation: u32) -> Option<Begun> {
        let found = self.begun()?.get(&(function, future)).cloned();
        found.filter(|begun| begun.generation == generation)
    }

    /// Takes out a future that has ended.
    pub(super) fn end(&self, function: usize, future: usize) -> Option<Begun> {
        self.begun()?.remove(&(function, future))
    }

    pub(super) fn close(&self) {
        let all = self.begun().map(|mut all| std::mem::take(&mut *all)).unwrap_or_default();
        all.into_values().filter_map(|begun| begun.span).for_each(Span::close);
    }
}
