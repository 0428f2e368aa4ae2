//! The counts of one function on one thread: of all calls, or of those that a profiler times. Such
//! a profiler chooses the calls and keeps to its budget; the events are read at the same two hits.

// Safety: relies on zeroes being empty counts, and no call.
#![expect(unsafe_code, reason = "see above")]

use std::array;
use std::sync::OnceLock;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use super::super::profiler::{MAX_TIMED_CALLS, Profiler, Timed};
use super::group::{BREAKS, EVENTS, Group, NUMBERS, Numbers};
use crate::engine::calls::add_single_writer;
use crate::engine::control::{Consumer, ProbeSet};
use crate::engine::dispatch::Event;
use crate::engine::error::Error;
use crate::engine::per_thread::{Local, PerThread, Zeroed};

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

/// The data of one thread for all functions.
#[repr(C)]
struct ThreadCounts {
    group: Group,
    /// The counts at the beginning of each call that is being timed.
    starts: [[AtomicU64; NUMBERS]; MAX_TIMED_CALLS],
}

// SAFETY: consists of a group and atomics.
unsafe impl Zeroed for ThreadCounts {}

/// A profiler, and the counts of the calls that it times.
pub(super) struct Sampled {
    pub(super) profiler: Profiler,
    memory: OnceLock<PerThread<ThreadCounts, CallCounts>>,
}

impl Sampled {
    pub(super) fn new(profiler: Profiler) -> Self {
        Self { profiler, memory: OnceLock::new() }
    }

    pub(super) fn prepare(&self, probes: &ProbeSet) -> Result<(), Error> {
        self.profiler.prepare(probes)?;
        let _ = self.memory.set(PerThread::new(self.profiler.room())?);
        Ok(())
    }

    #[inline]
    pub(super) fn hit(&self, event: &Event<'_>, read: impl FnOnce(Local<'_, Group, ()>) -> Numbers) {
        let Some(timed) = self.profiler.sample(event) else { return };
        let Some(local) = self.memory.get().and_then(|memory| memory.of(event)) else { return };
        let (Timed::Began(function, depth) | Timed::Ended(function, depth)) = timed;
        let Some(counts) = local.parts().get(function) else { return };
        let Some(start) = local.head().starts.get(depth) else { return };
        let now = read(local.map(|head| &head.group));
        if let Timed::Began(..) = timed {
            start.iter().zip(now).for_each(|(start, now)| start.store(now, Relaxed));
        } else {
            let elapsed = array::from_fn(|at| now[at].saturating_sub(start[at].load(Relaxed)));
            counts.call(&elapsed);
        }
    }

    /// Iterates over the groups of all threads.
    pub(super) fn groups(&self) -> impl Iterator<Item = Local<'_, Group, ()>> {
        self.memory.get().into_iter().flat_map(PerThread::iter).map(|local| local.map(|head| &head.group))
    }

    /// Iterates over the counts of a function on all threads.
    pub(super) fn parts(&self, function: usize) -> impl Iterator<Item = &CallCounts> {
        let memory = self.memory.get().into_iter().flat_map(PerThread::iter);
        memory.filter_map(move |local| local.parts().get(function))
    }

    /// Returns the number of hits for which there was no memory.
    pub(super) fn lost(&self) -> u64 {
        self.memory.get().map_or(0, PerThread::lost)
    }
}
