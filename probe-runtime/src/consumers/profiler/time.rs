//! The profiler's time: the machine's, or a given one.

use crate::engine::clock::{self, Clock};
#[cfg(all(probe_backend = "patched", not(miri)))]
use crate::engine::dispatch::{ThreadSlot, slots};
use crate::engine::os;

/// The largest number of threads whose CPU time is brought up to date. Each takes a system call.
#[cfg(all(probe_backend = "patched", not(miri)))]
const MAX_UPDATED_THREADS: usize = 64;

#[derive(Clone, Copy, Debug)]
pub(super) enum TimeSource {
    Machine(Clock),
    /// Nanoseconds, for both clock and CPU time.
    Given(fn() -> u64),
}

/// CPU time, in nanoseconds.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Used {
    pub(super) by_all: f64,
    pub(super) by_this_thread: f64,
}

/// A clock that hits read.
pub(super) trait Ticks: Copy {
    /// Returns the time, in ticks.
    fn now(self) -> u64;

    /// Returns the time, in ticks, read before later code begins.
    fn now_in_order(self) -> u64;
}

/// The processor's counter, where that is the machine's time. Reading it calls no function.
#[derive(Clone, Copy, Debug)]
pub(super) struct Counter;

impl Ticks for Counter {
    #[inline(always)]
    fn now(self) -> u64 {
        clock::counter()
    }

    #[inline(always)]
    fn now_in_order(self) -> u64 {
        clock::counter_in_order()
    }
}

impl Ticks for TimeSource {
    #[inline(always)]
    fn now(self) -> u64 {
        match self {
            Self::Machine(clock) => clock.now(),
            Self::Given(now) => now(),
        }
    }

    #[inline(always)]
    fn now_in_order(self) -> u64 {
        match self {
            Self::Machine(clock) => clock.now_in_order(),
            Self::Given(now) => now(),
        }
    }
}

impl TimeSource {
    /// Returns whether [`Counter`] tells the same time.
    pub(super) fn is_counter(self) -> bool {
        matches!(self, Self::Machine(clock) if clock.is_counter())
    }

    /// Returns the length of a tick in nanoseconds: accurate enough for planning if `is_rough`, or
    /// as accurate as possible. It may wait, see [`Clock::scale`].
    pub(super) fn nanoseconds_per_tick(self, is_rough: bool) -> f64 {
        match self {
            Self::Machine(clock) if is_rough => clock.rough_scale().nanoseconds_per_tick(),
            Self::Machine(clock) => clock.scale().nanoseconds_per_tick(),
            Self::Given(_) => 1.0,
        }
    }

    /// Returns [`used`](Self::used), brought up to date for threads that are running now: up to
    /// [`MAX_UPDATED_THREADS`] threads that have hit.
    pub(super) fn used_now(self) -> Used {
        #[cfg(all(probe_backend = "patched", not(miri)))]
        if let Self::Machine(_) = self {
            slots()
                .take(MAX_UPDATED_THREADS)
                .filter_map(ThreadSlot::tid)
                .for_each(|id| _ = os::time::book_cpu_of(id));
        }
        self.used()
    }

    pub(super) fn used(self) -> Used {
        let (by_all, by_this_thread) = match self {
            Self::Machine(_) => (os::time::process_cpu(), os::time::thread_cpu()),
            Self::Given(now) => (now(), 0),
        };
        Used { by_all: by_all as f64, by_this_thread: by_this_thread as f64 }
    }
}
