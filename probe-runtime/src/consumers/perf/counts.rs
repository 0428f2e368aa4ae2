//! The counts of one function on one thread.

// Safety: relies on zeroes being empty counts.
#![expect(unsafe_code, reason = "see above")]

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use super::group::{BREAKS, EVENTS, Numbers};
use crate::engine::calls::add_single_writer;
use crate::engine::per_thread::Zeroed;

/// The sums of a function's calls.
#[repr(C)]
pub struct CallCounts {
    calls: AtomicU64,
    uncounted: AtomicU64,
    total: [AtomicU64; EVENTS],
    own: [AtomicU64; EVENTS],
}

// SAFETY: atomics only.
unsafe impl Zeroed for CallCounts {}

impl CallCounts {
    /// Adds a call that has ended; `elapsed` has its events from beginning to end, or in all its
    /// polls.
    #[inline]
    pub(super) fn call(&self, elapsed: &Numbers) {
        if elapsed[BREAKS] != 0 {
            add_single_writer(&self.uncounted, 1);
            return;
        }
        add_single_writer(&self.calls, 1);
        self.total.iter().zip(elapsed).for_each(|(total, more)| add_single_writer(total, *more));
    }

    /// Adds a call or a poll that has ended; `own` has the events outside of inner calls.
    #[inline]
    pub(super) fn own(&self, elapsed: &Numbers, own: &Numbers) {
        if elapsed[BREAKS] == 0 {
            self.own.iter().zip(own).for_each(|(sum, more)| add_single_writer(sum, *more));
        }
    }
}

/// The counts of a function over all threads.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct EventSums {
    /// Calls whose events were counted, and calls whose events could not be.
    pub(super) calls: u64,
    pub(super) uncounted: u64,
    pub(super) total: [u64; EVENTS],
    pub(super) own: [u64; EVENTS],
}

impl EventSums {
    pub(super) fn of<'a>(threads: impl Iterator<Item = &'a CallCounts>) -> Self {
        threads.fold(Self::default(), |mut sums, thread| {
            sums.calls += thread.calls.load(Relaxed);
            sums.uncounted += thread.uncounted.load(Relaxed);
            sums.total.iter_mut().zip(&thread.total).for_each(|(sum, more)| *sum += more.load(Relaxed));
            sums.own.iter_mut().zip(&thread.own).for_each(|(sum, more)| *sum += more.load(Relaxed));
            sums
        })
    }
}
