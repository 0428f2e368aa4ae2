//! What a thread has counted of one function.

// Safety: relies on zeroes being nothing counted.
#![expect(unsafe_code, reason = "see above")]

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use super::group::{BREAKS, EVENTS, Numbers};
use crate::calls::add;
use crate::per_thread::Zeroed;

/// The sums.
#[repr(C)]
pub struct Counts {
    calls: AtomicU64,
    uncounted: AtomicU64,
    total: [AtomicU64; EVENTS],
    own: [AtomicU64; EVENTS],
}

// SAFETY: atomics only.
unsafe impl Zeroed for Counts {}

impl Counts {
    /// A call has ended; `elapsed` is what was counted from its beginning to its end, or in all its
    /// polls.
    #[inline]
    pub(super) fn call(&self, elapsed: &Numbers) {
        if elapsed[BREAKS] != 0 {
            add(&self.uncounted, 1);
            return;
        }
        add(&self.calls, 1);
        self.total.iter().zip(elapsed).for_each(|(total, more)| add(total, *more));
    }

    /// A call or a poll has ended, of which so much was in no call inside.
    #[inline]
    pub(super) fn own(&self, elapsed: &Numbers, own: &Numbers) {
        if elapsed[BREAKS] == 0 {
            self.own.iter().zip(own).for_each(|(sum, more)| add(sum, *more));
        }
    }
}

/// What all threads have counted of a function.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct Sums {
    /// Calls whose events were counted, and others.
    pub(super) calls: u64,
    pub(super) uncounted: u64,
    pub(super) total: [u64; EVENTS],
    pub(super) own: [u64; EVENTS],
}

impl Sums {
    pub(super) fn of<'a>(threads: impl Iterator<Item = &'a Counts>) -> Self {
        threads.fold(Self::default(), |mut sums, thread| {
            sums.calls += thread.calls.load(Relaxed);
            sums.uncounted += thread.uncounted.load(Relaxed);
            sums.total.iter_mut().zip(&thread.total).for_each(|(sum, more)| *sum += more.load(Relaxed));
            sums.own.iter_mut().zip(&thread.own).for_each(|(sum, more)| *sum += more.load(Relaxed));
            sums
        })
    }
}
