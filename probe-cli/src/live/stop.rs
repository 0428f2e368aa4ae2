//! How long a program is watched: for a time, until somebody stops it here, or until it ends.

use std::ffi::c_int;
use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use probe_protocol::Client;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;

use super::program::failure;
use crate::output::Failure;

/// The time between two looks at signals.
pub const LOOK: Duration = Duration::from_millis(20);

/// Set by Ctrl-C, `SIGTERM` or `SIGHUP`.
#[derive(Clone)]
pub struct Stop(Arc<AtomicBool>);

impl Stop {
    /// Catches the signals from now on. A second one ends the process, as it would without this.
    /// Signals that the process ignores from its start stay ignored, such as `SIGHUP` under
    /// `nohup`.
    ///
    /// # Errors
    /// The system's.
    pub fn on_signals() -> Result<Self, Failure> {
        let is_set = Arc::new(AtomicBool::new(false));
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        for signal in [SIGINT, SIGTERM, SIGHUP].into_iter().filter(|it| !is_ignored(&status, *it)) {
            // Handlers run in this order, so the second signal finds it set. The agent makes all
            // latent then.
            flag::register_conditional_shutdown(signal, 130, Arc::clone(&is_set)).map_err(Failure::input)?;
            flag::register(signal, Arc::clone(&is_set)).map_err(Failure::input)?;
        }
        Ok(Self(is_set))
    }

    /// Returns whether somebody wants it to end.
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
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
pub enum Watched {
    /// The time is over, or somebody stopped it here.
    Stopped,
    /// The connection has ended: see [`Program::end`](super::Program::end).
    Ended,
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
    mut show: impl FnMut(&mut Client, Duration) -> Result<(), Failure>,
) -> Result<Watched, Failure> {
    let begin = Instant::now();
    let mut next = every;
    loop {
        let elapsed = begin.elapsed();
        if stop.is_set() || time.is_some_and(|time| elapsed >= time) {
            return Ok(Watched::Stopped);
        }
        if next.is_some_and(|next| elapsed >= next) {
            show(client, elapsed)?;
            // A late display skips the intervals that it missed.
            next = every.map(|every| every + begin.elapsed().max(elapsed));
        }
        let until = [time, next].into_iter().flatten().map(|at| at.saturating_sub(begin.elapsed())).min();
        let wait = until.unwrap_or(LOOK).min(LOOK);
        if client.wait_for_end(wait).map_err(|error| failure(&error))? {
            return Ok(Watched::Ended);
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
