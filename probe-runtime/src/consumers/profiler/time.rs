//! The profiler's time: the machine's, or one that is given.

use crate::clock::Clock;
use crate::os;

/// Where time comes from.
#[derive(Clone, Copy, Debug)]
pub(super) enum Time {
    Machine(Clock),
    /// Nanoseconds, of clock and processor both.
    Given(fn() -> u64),
}

/// What has passed on processors, in nanoseconds.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Used {
    pub(super) by_all: u64,
    pub(super) by_this_thread: u64,
}

impl Time {
    /// In ticks.
    #[inline(always)]
    pub(super) fn now(self) -> u64 {
        match self {
            Self::Machine(clock) => clock.now(),
            Self::Given(now) => now(),
        }
    }

    /// How long a tick is. It may wait, see [`Clock::scale`].
    pub(super) fn nanoseconds_per_tick(self) -> f64 {
        match self {
            Self::Machine(clock) => clock.scale().nanoseconds_per_tick(),
            Self::Given(_) => 1.0,
        }
    }

    pub(super) fn used(self) -> Used {
        match self {
            Self::Machine(_) => Used { by_all: os::cpu::process(), by_this_thread: os::cpu::thread() },
            Self::Given(now) => Used { by_all: now(), by_this_thread: 0 },
        }
    }

    /// What a reading takes, in ticks: the least of several looks.
    pub(super) fn cost_of_reading(self) -> f64 {
        const READINGS: u32 = 16;
        if let Self::Given(_) = self {
            return 0.0;
        }
        let look = || {
            let start = self.now();
            (1..READINGS).for_each(|_| {
                std::hint::black_box(self.now());
            });
            self.now().saturating_sub(start)
        };
        let least = (0..8).map(|_| look()).min().unwrap_or_default();
        f64::from(u32::try_from(least).unwrap_or(u32::MAX)) / f64::from(READINGS)
    }
}
