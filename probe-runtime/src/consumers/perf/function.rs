//! The counts of one function at one moment.

use std::sync::Arc;

use super::super::profiler::Estimated;
use super::counts::EventSums;
use super::event::PerfEvent;
use crate::engine::calls::{Function, Unpaired};

/// The counts of one function.
///
/// ```
/// use probe_runtime::{Perf, probe, select};
///
/// #[probe]
/// fn sort() {}
///
/// // `Perf::new()` counts what the machine has.
/// let perf = select("**::sort")?.attach(Perf::new().with_counts(|_| Ok(0)))?;
/// sort();
/// let counts = perf.event_counts();
/// for function in &counts {
///     println!("{}: {:.0} calls", function.path(), function.calls().value);
/// }
/// # Ok::<(), probe_runtime::Error>(())
/// ```
#[derive(Clone, PartialEq, Debug)]
pub struct FunctionEvents {
    pub(super) function: Function,
    pub(super) calls: Estimated,
    pub(super) sums: EventSums,
    pub(super) has_own: bool,
    pub(super) events: Arc<[PerfEvent]>,
    pub(super) unpaired: Unpaired,
}

impl FunctionEvents {
    /// Returns the number of calls that have ended; exact. If calls are
    /// [sampled](super::Perf::sampled), it is an estimate of the calls that began.
    pub fn calls(&self) -> Estimated {
        self.calls
    }

    /// Returns the number of calls whose events were counted. All sums are sums over these calls.
    pub fn counted(&self) -> u64 {
        self.sums.calls
    }

    /// Returns the number of calls whose events could not be read, for example on threads without
    /// events.
    pub fn uncounted(&self) -> u64 {
        self.sums.uncounted
    }

    /// Returns the sum of an event over all [counted](Self::counted) calls, from entry to exit.
    /// `None` if the event is not counted. Calls of a function inside of itself count twice.
    pub fn total(&self, event: PerfEvent) -> Option<u64> {
        Some(self.sums.total[self.place(event)?])
    }

    /// Returns the part of [`total`](Self::total) in no other measured function; for futures
    /// including polls of calls that have not ended. `None` if the event is not counted, or if
    /// calls are sampled.
    pub fn own(&self, event: PerfEvent) -> Option<u64> {
        let place = self.place(event)?;
        self.has_own.then_some(self.sums.own[place])
    }

    /// Returns the mean of an event per call, from entry to exit. `None` if no call was counted, or
    /// the event is not counted.
    pub fn mean(&self, event: PerfEvent) -> Option<f64> {
        self.per_call(self.total(event)?)
    }

    /// Returns the mean of [`own`](Self::own) per call.
    pub fn mean_own(&self, event: PerfEvent) -> Option<f64> {
        self.per_call(self.own(event)?)
    }

    /// Returns the instructions per cycle, from entry to exit. `None` unless both events are
    /// counted.
    pub fn ipc(&self) -> Option<f64> {
        let (instructions, cycles) = (self.total(PerfEvent::Instructions)?, self.total(PerfEvent::Cycles)?);
        (cycles != 0).then(|| instructions as f64 / cycles as f64)
    }

    /// Returns the hits without a partner. If calls are sampled, hits are not paired, and there are
    /// none.
    pub fn unpaired(&self) -> Unpaired {
        self.unpaired
    }

    fn per_call(&self, sum: u64) -> Option<f64> {
        (self.counted() != 0).then(|| sum as f64 / self.counted() as f64)
    }

    fn place(&self, event: PerfEvent) -> Option<usize> {
        self.events.iter().position(|it| *it == event)
    }

    /// Returns the count of the first event in the function itself, as far as it is known. Tables
    /// are sorted by it.
    pub(super) fn weight(&self) -> f64 {
        if self.has_own {
            self.sums.own[0] as f64
        } else {
            self.per_call(self.sums.total[0]).unwrap_or_default() * self.calls.value
        }
    }

    pub(super) fn is_seen(&self) -> bool {
        self.calls.value > 0.0 || self.sums != EventSums::default() || self.unpaired != Unpaired::default()
    }
}
