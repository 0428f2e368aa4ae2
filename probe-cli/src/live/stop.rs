//! How long a program is watched: for a time, until somebody stops it here, or until it ends.

use std::ffi::c_int;
use std::fs;
use std::io::Read;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use probe_protocol::Client;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::low_level::{exit, pipe};

use super::program::failure;
use super::schedule::Schedule;
use crate::output::Failure;

/// The exit code after a second signal.
const EXIT_AFTER_SECOND_SIGNAL: c_int = 130;
/// The time between two looks at signals.
pub const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Set by Ctrl-C, `SIGTERM` or `SIGHUP`.
#[derive(Clone)]
pub struct Stop(Arc<State>);

#[derive(Default)]
struct State {
    is_set: AtomicBool,
    /// To be done before a second signal ends the process.
    last: Mutex<Vec<Box<dyn FnOnce() + Send>>>,
}

impl Stop {
    /// Catches the signals from now on, on a thread that waits for them. A second one ends the
    /// process at once. Signals that the process ignores from its start stay ignored, such as
    /// `SIGHUP` under `nohup`.
    ///
    /// # Errors
    /// The system's.
    pub fn on_signals() -> Result<Self, Failure> {
        let state = Arc::new(State::default());
        let (signals, caught) = UnixStream::pair().map_err(Failure::input)?;
        let of_thread = Arc::clone(&state);
        let wait = move || of_thread.wait_for(signals);
        thread::Builder::new().name("signals".to_owned()).spawn(wait).map_err(Failure::input)?;
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        for signal in [SIGINT, SIGTERM, SIGHUP].into_iter().filter(|it| !is_ignored(&status, *it)) {
            let caught = caught.try_clone().map_err(Failure::input)?;
            pipe::register(signal, caught).map_err(Failure::input)?;
        }
        Ok(Self(state))
    }

    /// Returns whether somebody wants it to end.
    pub fn is_set(&self) -> bool {
        self.0.is_set.load(Ordering::Relaxed)
    }

    /// Does this before a second signal ends the process, on another thread. The agent makes all
    /// latent then. It must not wait for other threads, which may wait for ever.
    pub fn before_exit(&self, last: impl FnOnce() + Send + 'static) {
        self.0.last().push(Box::new(last));
    }
}

impl State {
    /// Takes a byte for each signal.
    fn wait_for(&self, mut signals: UnixStream) {
        for at in 0.. {
            match signals.read_exact(&mut [0]) {
                Ok(()) if at == 0 => self.is_set.store(true, Ordering::Relaxed),
                Ok(()) => {
                    self.last().drain(..).for_each(|last| last());
                    exit(EXIT_AFTER_SECOND_SIGNAL);
                }
                // No signal was registered.
                Err(_) => return,
            }
        }
    }

    fn last(&self) -> MutexGuard<'_, Vec<Box<dyn FnOnce() + Send>>> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns whether a process with this `/proc/PID/status` ignores a signal.
fn is_ignored(status: &str, signal: c_int) -> bool {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    mask & 1 << (signal - 1) != 0
}

/// Why watching ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WatchEnd {
    /// The time is over, or somebody stopped it here.
    Stopped,
    /// The connection has ended: see [`Program::end`](super::Program::end).
    Disconnected,
}

/// Calls `show` at each interval, until the time is over, the signal comes, or the program ends.
///
/// # Errors
/// Those of `show`, and the system's.
pub fn watch(
    client: &mut Client,
    stop: &Stop,
    time: Option<Duration>,
    every: Option<Duration>,
    show: impl FnMut(&mut Client, Duration) -> Result<(), Failure>,
) -> Result<WatchEnd, Failure> {
    watch_at(client, stop, time, Schedule::steady(every), show)
}

/// The same, with other times for `show`.
///
/// # Errors
/// Those of [`watch`].
pub fn watch_at(
    client: &mut Client,
    stop: &Stop,
    time: Option<Duration>,
    mut schedule: Schedule,
    mut show: impl FnMut(&mut Client, Duration) -> Result<(), Failure>,
) -> Result<WatchEnd, Failure> {
    let begin = Instant::now();
    loop {
        let elapsed = begin.elapsed();
        if stop.is_set() || time.is_some_and(|time| elapsed >= time) {
            return Ok(WatchEnd::Stopped);
        }
        if schedule.is_due(elapsed) {
            show(client, elapsed)?;
            schedule.mark_shown(begin.elapsed());
        }
        let until =
            [time, schedule.next()].into_iter().flatten().map(|at| at.saturating_sub(begin.elapsed())).min();
        let wait = until.unwrap_or(POLL_INTERVAL).min(POLL_INTERVAL);
        if client.wait_for_end(wait).map_err(|error| failure(&error))? {
            return Ok(WatchEnd::Disconnected);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ignored_signals_are_bits_of_a_mask() {
        let status = "Name:\tsh\nSigIgn:\t0000000000000003\nSigCgt:\t0000000000004000\n";
        assert_eq!([SIGHUP, SIGINT, SIGTERM].map(|it| is_ignored(status, it)), [true, true, false]);
        assert!(!is_ignored("", SIGHUP));
    }
}
