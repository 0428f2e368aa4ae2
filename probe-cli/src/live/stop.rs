//! How long a program is watched: for a time, until somebody stops it here, or until it ends.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use probe_protocol::Client;

use super::program::failure;
use crate::output::Failure;

/// The time between two looks at signals.
const LOOK: Duration = Duration::from_millis(20);

/// Set once by Ctrl-C, `SIGTERM` or `SIGHUP`.
#[derive(Clone)]
pub struct Stop(Arc<AtomicBool>);

impl Stop {
    /// Catches the signals from now on. A second one ends the process, as it would without this.
    ///
    /// # Errors
    /// The system's.
    pub fn on_signals() -> Result<Self, Failure> {
        let is_set = Arc::new(AtomicBool::new(false));
        let setting = Arc::clone(&is_set);
        let handler = move || {
            if setting.swap(true, Ordering::Relaxed) {
                // The agent makes all latent.
                std::process::exit(130);
            }
        };
        ctrlc::set_handler(handler).map_err(Failure::input)?;
        Ok(Self(is_set))
    }

    /// Returns whether somebody wants it to end.
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Why watching ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Watched {
    /// The time is over, or somebody stopped it here.
    Stopped,
    /// The program has ended.
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
