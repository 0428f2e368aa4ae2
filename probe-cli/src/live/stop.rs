//! How long a program is watched: for a time, until a signal stops it here, or until it ends; and
//! when its reports are shown.

use std::ffi::c_int;
use std::fs;
use std::io::Read;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use probe_protocol::{Client, Liveness};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::low_level::{exit, pipe};

use crate::output::Failure;
use crate::proc_files::status_mask;

/// The exit code after a second signal.
const EXIT_AFTER_SECOND_SIGNAL: c_int = 130;
/// The time between two looks at signals.
pub const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// The time until the first report on a terminal.
const FIRST_REPORT: Duration = Duration::from_millis(20);

/// Set by Ctrl-C, `SIGTERM` or `SIGHUP`.
#[derive(Clone)]
pub struct Stop(Arc<State>);

#[derive(Default)]
struct State {
    is_set: AtomicBool,
    /// Called before a second signal ends the process.
    before_exit: Mutex<Vec<Box<dyn FnOnce() + Send>>>,
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

    /// Returns whether a signal came.
    pub fn is_set(&self) -> bool {
        self.0.is_set.load(Ordering::Relaxed)
    }

    /// Calls `last` on another thread before a second signal ends the process. The agent makes all
    /// latent then. `last` must not wait for other threads, which may wait forever.
    pub fn before_exit(&self, last: impl FnOnce() + Send + 'static) {
        self.0.before_exit().push(Box::new(last));
    }
}

impl State {
    /// Takes a byte for each signal.
    fn wait_for(&self, mut signals: UnixStream) {
        for at in 0.. {
            match signals.read_exact(&mut [0]) {
                Ok(()) if at == 0 => self.is_set.store(true, Ordering::Relaxed),
                Ok(()) => {
                    self.before_exit().drain(..).for_each(|last| last());
                    exit(EXIT_AFTER_SECOND_SIGNAL);
                }
                // No signal was registered.
                Err(_) => return,
            }
        }
    }

    fn before_exit(&self) -> MutexGuard<'_, Vec<Box<dyn FnOnce() + Send>>> {
        self.before_exit.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns whether a process with this `/proc/PID/status` ignores a signal.
fn is_ignored(status: &str, signal: c_int) -> bool {
    status_mask(status, "SigIgn") & 1 << (signal - 1) != 0
}

/// When the next report is due, since the begin of watching. At a terminal, where people wait, the
/// first report comes after [`FIRST_REPORT`], and each pause is twice as long as the one before, up
/// to the interval.
pub struct Schedule {
    every: Option<Duration>,
    pause: Option<Duration>,
    next: Option<Duration>,
}

impl Schedule {
    /// Plans a report at each interval, if there is one.
    pub fn new(every: Option<Duration>, is_terminal: bool) -> Self {
        let first = every.map(|every| if is_terminal { every.min(FIRST_REPORT) } else { every });
        Self { every, pause: first, next: first }
    }

    /// Returns whether a report is due, after this time.
    pub fn is_due(&self, elapsed: Duration) -> bool {
        self.next.is_some_and(|next| elapsed >= next)
    }

    /// Plans the next report, after one was shown. A late one skips those that it missed.
    pub fn mark_shown(&mut self, elapsed: Duration) {
        self.pause = self.pause.zip(self.every).map(|(pause, every)| (2 * pause).min(every));
        self.next = self.pause.map(|pause| elapsed + pause);
    }
}

/// Why watching ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WatchEnd {
    /// The time is over, a signal came, or the program waits for its last report and exits.
    Stopped,
    /// The connection has ended: see [`Program::end_reason`](super::Program::end_reason).
    Disconnected,
}

/// Calls `show` whenever a report is due, until the time is over, a signal comes, or the program
/// ends.
///
/// # Errors
/// Those of `show`, and the system's.
pub fn watch(
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
        let next = [time, schedule.next].into_iter().flatten().min();
        let left = next.map_or(POLL_INTERVAL, |at| at.saturating_sub(begin.elapsed()));
        match client.wait_for_end(left.min(POLL_INTERVAL))? {
            Liveness::Running => (),
            Liveness::Exiting => return Ok(WatchEnd::Stopped),
            Liveness::Ended => return Ok(WatchEnd::Disconnected),
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

    #[test]
    fn reports_come_fast_at_first_on_a_terminal() {
        let times = |mut schedule: Schedule| {
            let mut elapsed = Duration::ZERO;
            [(); 8].map(|()| {
                let next = schedule.next?;
                assert!(!schedule.is_due(elapsed) && schedule.is_due(next));
                elapsed = next;
                schedule.mark_shown(elapsed);
                Some(elapsed.as_millis())
            })
        };
        let every = |ms| Some(Duration::from_millis(ms));
        let expected = [20, 60, 140, 300, 620, 1260, 2260, 3260].map(Some);
        assert_eq!(times(Schedule::new(every(1000), true)), expected);
        assert_eq!(times(Schedule::new(every(10), true)), [10, 20, 30, 40, 50, 60, 70, 80].map(Some));
        assert_eq!(times(Schedule::new(every(100), false))[..2], [Some(100), Some(200)]);
        assert_eq!(times(Schedule::new(None, false)), [None; 8]);
    }
}
