//! A wait with a limit, for systems without signals.

use std::io;
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// A signal: there is none.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Signal {}

impl Signal {
    pub(crate) const ENDS: &[Self] = &[];

    pub(crate) fn names() -> impl Iterator<Item = &'static str> {
        [].into_iter()
    }

    pub(crate) fn named(_name: &str) -> Option<Self> {
        None
    }

    pub(crate) fn name(self) -> &'static str {
        match self {}
    }
}

/// The reason why a wait ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Woken {
    Stopped,
    TimedOut,
    #[expect(dead_code, reason = "nothing is discovered")]
    Asked,
    #[expect(dead_code, reason = "there are no signals")]
    Signal(Signal),
}

/// A wait that can be stopped.
#[derive(Debug)]
pub(crate) struct Caught {
    is_stopped: Mutex<bool>,
    stop: Condvar,
}

impl Caught {
    #[expect(clippy::unnecessary_wraps, reason = "elsewhere it takes descriptors")]
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self { is_stopped: Mutex::new(false), stop: Condvar::new() })
    }

    pub(crate) fn install(&self, _ends: &[Signal], _others: &[Signal]) -> Vec<Signal> {
        Vec::new()
    }

    pub(crate) fn ends(signal: Signal) -> bool {
        match signal {}
    }

    pub(crate) fn wait(&self, until: Option<Instant>) -> Woken {
        let mut is_stopped = self.is_stopped.lock().unwrap_or_else(PoisonError::into_inner);
        while !*is_stopped {
            let left = until.map_or(Duration::MAX, |until| until.saturating_duration_since(Instant::now()));
            if left.is_zero() {
                return Woken::TimedOut;
            }
            let waited = self.stop.wait_timeout(is_stopped, left).unwrap_or_else(PoisonError::into_inner);
            is_stopped = waited.0;
        }
        Woken::Stopped
    }

    pub(crate) fn stop(&self) {
        *self.is_stopped.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.stop.notify_all();
    }

    pub(crate) fn end(signal: Signal) {
        match signal {}
    }
}
