//! CPU time and waits of measured calls: what `latency(cpu)` and `call-tree(cpu)` share.
//!
//! A meter reads four [numbers](crate::engine::waits::NUMBERS). Their growth during a call is its
//! wall time, and the part of it in which the thread was off the processor. The rest is its CPU
//! time. No unit of time is compared with another until a report is made.

// Safety: relies on zeroes being no measurement.
#![expect(unsafe_code, reason = "see above")]

use std::sync::OnceLock;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use crate::engine::calls::add_single_writer;
use crate::engine::clock::{Clock, Scale};
use crate::engine::error::Error;
use crate::engine::os::perf::{ProcessNumber, paranoid, process};
use crate::engine::per_thread::{Local, Zeroed};
use crate::engine::waits::{self, NUMBERS, ThreadWaits};
use probe_report::{Split, count, perf_failure, perf_memory_failure};

/// The numbers of a meter: ticks, and those of [`ThreadWaits::now`].
pub(super) type Numbers = [u64; NUMBERS];

/// Reads the numbers of each thread.
#[derive(Debug)]
pub(super) struct WaitClock {
    clock: Clock,
    /// Once the kernel is known to permit it.
    process: OnceLock<ProcessNumber>,
}

impl WaitClock {
    pub(super) fn new(clock: Clock) -> Self {
        Self { clock, process: OnceLock::new() }
    }

    /// Checks that the kernel permits it.
    ///
    /// # Errors
    /// [`Error::Consumer`] with the reason.
    pub(super) fn prepare(&self) -> Result<(), Error> {
        permitted().map(|process| _ = self.process.set(process))
    }

    pub(super) fn clock(&self) -> Clock {
        self.clock
    }

    /// Reads the numbers on this thread.
    #[inline(always)]
    pub(super) fn read(&self, local: Local<'_, ThreadWaits, ()>) -> Numbers {
        let now = |process: &ProcessNumber| local.head().now(local.thread(), *process, self.clock, |_, _| ());
        self.process.get().map_or([0; NUMBERS], now)
    }

    /// Gives back the records of all threads. No thread hits any more.
    pub(super) fn close<'a>(&self, all: impl Iterator<Item = Local<'a, ThreadWaits, ()>>) {
        if let Some(process) = self.process.get() {
            all.for_each(|local| _ = local.head().close(process.get()));
        }
    }
}

/// Checks that the kernel permits records of switches. Returns the number of this process.
///
/// # Errors
/// [`Error::Consumer`] with the reason.
pub(super) fn permitted() -> Result<ProcessNumber, Error> {
    let no_number = || "forked children can't be told apart (MADV_WIPEONFORK, Linux 4.14)".to_owned();
    let permitted = process().ok_or_else(no_number);
    let permitted = permitted.and_then(|process| waits::permitted().map(|()| process).map_err(why));
    permitted.map_err(|why| Error::Consumer(format!("the kernel tells no waits of threads: {why}").into()))
}

/// Explains an error number of a thread that got no records.
fn why(error: i32) -> String {
    if error < 0 { perf_memory_failure(error.wrapping_neg()) } else { perf_failure(error, paranoid()) }
}

/// Threads that got no records of their waits, and why the last one did not.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct Refused {
    threads: u64,
    error: i32,
}

impl Refused {
    pub(super) fn of<'a>(all: impl Iterator<Item = Local<'a, ThreadWaits, ()>>) -> Self {
        all.map(|local| local.head().refused())
            .filter(|(threads, _)| *threads != 0)
            .fold(Self::default(), |sum, (threads, error)| Self { threads: sum.threads + threads, error })
    }

    /// Returns a line about them, if there are any.
    pub(super) fn note(self) -> Option<String> {
        let threads = || count(self.threads, "thread");
        (self.threads != 0).then(|| format!("waits of {} are unknown: {}", threads(), why(self.error)))
    }
}

/// Waits of calls on one thread.
#[repr(C)]
pub struct WaitSums {
    blocked: AtomicU64,
    ready: AtomicU64,
    /// Ticks of calls whose waits are not known.
    unknown: AtomicU64,
}

// SAFETY: atomics only.
unsafe impl Zeroed for WaitSums {}

impl WaitSums {
    /// Adds a part of a call: the growth of the numbers.
    #[inline(always)]
    pub(super) fn add(&self, grown: Numbers) {
        let [ticks, blocked, ready, breaks] = grown;
        if breaks != 0 {
            return add_single_writer(&self.unknown, ticks);
        }
        if blocked != 0 {
            add_single_writer(&self.blocked, blocked);
        }
        if ready != 0 {
            add_single_writer(&self.ready, ready);
        }
    }
}

/// The sums of all threads.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct Waited {
    blocked: u64,
    ready: u64,
    unknown: u64,
}

impl Waited {
    pub(super) fn of(sums: &WaitSums) -> Self {
        let [blocked, ready, unknown] =
            [&sums.blocked, &sums.ready, &sums.unknown].map(|it| it.load(Relaxed));
        Self { blocked, ready, unknown }
    }

    /// Returns these less others: those of an earlier reading, or of a part of the calls.
    pub(super) fn less(self, other: Self) -> Self {
        Self {
            blocked: self.blocked.saturating_sub(other.blocked),
            ready: self.ready.saturating_sub(other.ready),
            unknown: self.unknown.saturating_sub(other.unknown),
        }
    }

    /// Adds others.
    pub(super) fn add(&mut self, other: Self) {
        self.blocked += other.blocked;
        self.ready += other.ready;
        self.unknown += other.unknown;
    }

    /// Splits the wall time of the calls, in ticks.
    pub(super) fn split(self, ticks: u64, scale: Scale) -> Split {
        let Self { blocked, ready, unknown } = self;
        let wall = scale.nanoseconds(ticks.saturating_sub(unknown));
        // Two clocks have measured them, which differ by some millionths.
        let blocked = blocked.min(wall);
        let ready = ready.min(wall - blocked);
        Split { cpu: wall - blocked - ready, blocked, ready, unknown: scale.nanoseconds(unknown) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_split_if_its_waits_are_known() {
        let sums = WaitSums { blocked: 0.into(), ready: 0.into(), unknown: 0.into() };
        sums.add([1_000, 300, 200, 0]);
        sums.add([500, 400, 0, 1]);
        let mut waited = Waited::default();
        waited.add(Waited::of(&sums));
        assert_eq!(waited, Waited { blocked: 300, ready: 200, unknown: 500 });
        let nanoseconds = Scale::of(1.0);
        let split = waited.split(1_500, nanoseconds);
        assert_eq!(split, Split { cpu: 500, blocked: 300, ready: 200, unknown: 500 });
        // The other clock is a little faster.
        let split = Waited { blocked: 1_001, ..Waited::default() }.split(1_000, nanoseconds);
        assert_eq!(split, Split { cpu: 0, blocked: 1_000, ready: 0, unknown: 0 });
        assert_eq!(waited.less(waited), Waited::default());
    }
}
