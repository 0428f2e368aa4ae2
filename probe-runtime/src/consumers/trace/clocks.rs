//! All clocks at one moment. A file has several such readings; its reader turns time stamps into
//! the system's time by them, and knows from the time that each reading took how exact it is.

use crate::engine::clock::Clock;
use crate::engine::os::time;

/// A time stamp, and the system's clocks at the same moment, in nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Moment {
    pub(super) ticks: u64,
    /// Ticks that the reading of the monotonic clock took.
    pub(super) width: u64,
    pub(super) monotonic: u64,
    pub(super) real: u64,
    /// Since the machine was started, its sleep included.
    pub(super) boot: u64,
}

impl Moment {
    /// Returns the best of several readings: the one that took the shortest time.
    pub(super) fn now(clock: Clock) -> Self {
        let mut best = Self::read(clock);
        for _ in 0..4 {
            let again = Self::read(clock);
            if again.width < best.width {
                best = again;
            }
        }
        best
    }

    fn read(clock: Clock) -> Self {
        let (ticks, width, monotonic) = monotonic(clock);
        // Each clock counts in nanoseconds, so the others are read for the same moment.
        let after = |other: u64| other.saturating_sub(time::monotonic().saturating_sub(monotonic));
        Self { ticks, width, monotonic, real: after(time::real()), boot: after(time::since_boot()) }
    }
}

/// Returns a time stamp, the ticks that the reading took, and `CLOCK_MONOTONIC` at that stamp.
pub(super) fn monotonic(clock: Clock) -> (u64, u64, u64) {
    let before = clock.now();
    let monotonic = time::monotonic();
    let width = clock.now().saturating_sub(before);
    (before + width / 2, width, monotonic)
}
