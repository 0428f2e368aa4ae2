//! Latencies whose time is split into CPU time and waits.

// Safety: relies on zeroes being no measurement.
#![expect(unsafe_code, reason = "see above")]

use super::report::Latencies;
use super::sums::LatencySums;
use super::{Ended, FunctionTimes};
use crate::consumers::waits::{Numbers, Refused, WaitClock, WaitSums, Waited};
use crate::engine::calls::{CallEnd, Calls, LazyCalls, Meter};
use crate::engine::clock::{Clock, Scale};
use crate::engine::control::ProbeSet;
use crate::engine::dispatch::Event;
use crate::engine::error::Error;
use crate::engine::per_thread::{Local, Zeroed};
use crate::engine::registry::ProbeId;
use crate::engine::waits::{NUMBERS, ThreadWaits};
use probe_report::Split;

/// The calls, and what reads their numbers.
#[derive(Debug)]
pub(super) struct SplitCalls {
    waits: WaitClock,
    calls: LazyCalls<NUMBERS, Self>,
}

/// The measurements of one function on one thread.
#[repr(C)]
pub(super) struct FunctionParts {
    times: FunctionTimes,
    busy: WaitSums,
    /// The part of `busy` in calls inside of a call of the function.
    recursive: WaitSums,
    own: WaitSums,
}

// SAFETY: it consists of such parts.
unsafe impl Zeroed for FunctionParts {}

/// The waits of a function's calls on all threads.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct FunctionWaited {
    /// Without calls inside of a call of the function.
    once: Waited,
    own: Waited,
}

impl FunctionWaited {
    pub(super) fn since(self, earlier: Self) -> Self {
        Self { once: self.once.less(earlier.once), own: self.own.less(earlier.own) }
    }

    pub(super) fn split(&self, ticks: u64, scale: Scale) -> Split {
        self.once.split(ticks, scale)
    }

    pub(super) fn own_split(&self, ticks: u64, scale: Scale) -> Split {
        self.own.split(ticks, scale)
    }
}

impl SplitCalls {
    pub(super) fn new(clock: Clock) -> Self {
        Self { waits: WaitClock::new(clock), calls: LazyCalls::new() }
    }

    pub(super) fn prepare(&self, probes: &ProbeSet) -> Result<(), Error> {
        self.waits.prepare()?;
        self.calls.prepare(probes)
    }

    pub(super) fn join(&self, probes: &ProbeSet) -> Result<(), Error> {
        self.calls.join(probes)
    }

    #[inline]
    pub(super) fn hit(&self, event: &Event<'_>) {
        self.calls.hit(event, self);
    }

    pub(super) fn read(&self, only: Option<&[ProbeId]>, scale: Scale, shows_buckets: bool) -> Latencies {
        let Some(calls) = self.calls.get() else { return Latencies::default() };
        let mut latencies = Latencies::new(calls, only, scale, shows_buckets, |parts, is_future| {
            let parts: Vec<_> = parts.collect();
            let mut sums = LatencySums::new(parts.iter().map(|part| &part.times), is_future);
            let [mut busy, mut recursive, mut own] = [Waited::default(); 3];
            for part in parts {
                busy.add(Waited::of(&part.busy));
                recursive.add(Waited::of(&part.recursive));
                own.add(Waited::of(&part.own));
            }
            sums.waits = Some(FunctionWaited { once: busy.less(recursive), own });
            sums
        });
        latencies.refused = Refused::of(self.heads());
        latencies
    }

    fn heads(&self) -> impl Iterator<Item = Local<'_, ThreadWaits, ()>> {
        self.calls.get().into_iter().flat_map(Calls::heads)
    }
}

impl Meter<NUMBERS> for SplitCalls {
    type Head = ThreadWaits;
    type Part = FunctionParts;
    const RECURSION: bool = true;
    const READS_LOCALLY: bool = true;

    #[inline(always)]
    fn read(&self, local: Local<'_, ThreadWaits, ()>) -> Numbers {
        self.waits.read(local)
    }

    #[inline(always)]
    fn end(&self, ended: &CallEnd<'_, NUMBERS, ThreadWaits, FunctionParts>) {
        let part = ended.part;
        part.times.add(ended.elapsed[0], ended.own()[0], Ended::of(ended));
        part.busy.add(ended.elapsed);
        part.own.add(ended.own());
        if ended.is_recursive && !ended.is_poll {
            part.recursive.add(ended.elapsed);
        }
    }
}

impl Drop for SplitCalls {
    fn drop(&mut self) {
        self.waits.close(self.heads());
    }
}
