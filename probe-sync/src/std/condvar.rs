//! `std::sync::Condvar` for a [`Mutex`](super::mutex::Mutex) with probes.
//!
//! The hold of the lock ends where a call begins that waits. Another one begins where it ends, also
//! if its condition was true at once.

use std::sync::{self, LockResult, WaitTimeoutResult};
use std::time::Duration;

use probe_runtime::probe;

use super::mutex::MutexGuard;
use crate::hold::Guard;
use crate::name::Name;

/// [`std::sync::Condvar`] with probes.
///
/// ```
/// use probe_sync::{Condvar, Mutex};
///
/// let (ready, is_ready) = (Mutex::new(true), Condvar::new());
/// let guard = is_ready.wait_while(ready.lock().unwrap(), |ready| !*ready).unwrap();
/// assert!(*guard);
/// ```
#[derive(Default, Debug)]
pub struct Condvar(sync::Condvar);

impl Condvar {
    /// As [`std::sync::Condvar::new`].
    pub const fn new() -> Self {
        Self(sync::Condvar::new())
    }

    /// As [`std::sync::Condvar::wait`].
    pub fn wait<'a, T>(&self, guard: MutexGuard<'a, T>) -> LockResult<MutexGuard<'a, T>> {
        let (name, original) = guard.end();
        super::map(wait(name, || self.0.wait(original)), |it| Guard::new(name, it))
    }

    /// As [`std::sync::Condvar::wait_while`].
    pub fn wait_while<'a, T>(
        &self,
        guard: MutexGuard<'a, T>,
        condition: impl FnMut(&mut T) -> bool,
    ) -> LockResult<MutexGuard<'a, T>> {
        let (name, original) = guard.end();
        super::map(wait(name, || self.0.wait_while(original, condition)), |it| Guard::new(name, it))
    }

    /// As [`std::sync::Condvar::wait_timeout`].
    pub fn wait_timeout<'a, T>(
        &self,
        guard: MutexGuard<'a, T>,
        limit: Duration,
    ) -> LockResult<(MutexGuard<'a, T>, WaitTimeoutResult)> {
        let (name, original) = guard.end();
        let waited = wait(name, || self.0.wait_timeout(original, limit));
        super::map(waited, |(it, result)| (Guard::new(name, it), result))
    }

    /// As [`std::sync::Condvar::wait_timeout_while`].
    pub fn wait_timeout_while<'a, T>(
        &self,
        guard: MutexGuard<'a, T>,
        limit: Duration,
        condition: impl FnMut(&mut T) -> bool,
    ) -> LockResult<(MutexGuard<'a, T>, WaitTimeoutResult)> {
        let (name, original) = guard.end();
        let waited = wait(name, || self.0.wait_timeout_while(original, limit, condition));
        super::map(waited, |(it, result)| (Guard::new(name, it), result))
    }

    /// As [`std::sync::Condvar::notify_one`].
    pub fn notify_one(&self) {
        self.0.notify_one();
    }

    /// As [`std::sync::Condvar::notify_all`].
    pub fn notify_all(&self) {
        self.0.notify_all();
    }
}

#[probe(args(lock = %name, name = name.text(), at = name.address()))]
fn wait<R>(name: &Name, wait: impl FnOnce() -> R) -> R {
    wait()
}
