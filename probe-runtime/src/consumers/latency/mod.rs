//! How long calls take.

// Safety: relies on zeroes being no measurement.
#![expect(unsafe_code, reason = "see above")]

mod buckets;
mod distribution;
mod report;
mod sums;

use std::fmt;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use buckets::Buckets;
pub use report::{FunctionLatency, Latencies};

use super::shown::Shown;
use crate::calls::{Ended, Meter, OnceCalls, add};
use crate::clock::Clock;
use crate::control::{Baseline, Consumer, ProbeSet};
use crate::dispatch::Event;
use crate::error::Error;
use crate::per_thread::{Local, Zeroed};

/// Measures how long each call of the selected functions takes: a histogram for each function, the exact sums, the time in the
/// function itself, and of futures the time on a processor.
///
/// Entries and exits are paired as [`calls`](crate::calls) says; select both (`net::*`, without a `kind`). Its attachment prints as
/// a table, the function with the most time in itself first:
///
/// | column | of |
/// |---|---|
/// | `calls` | calls that have ended; a future's call is all of its polls |
/// | `total` | them, from entry to exit. Calls of a function inside of itself count twice |
/// | `self` | the time in the function, and in no other that is measured; also of polls of futures that have not ended yet |
/// | `polls`, `busy` | futures only: how often they were polled, and the time in these polls |
/// | `mean`, `p50`, `p99`, `max` | a call, from entry to exit |
/// | `unpaired` | hits that found no partner, and are in no other column |
/// | `cancelled`, `pending` | futures that were dropped before their end, and that have not ended yet |
///
/// Sums and the extremes are exact, to the clock's tick; quantiles are those of values at most 1.6 % off. After a [reset](Self::reset), the
/// extremes may be bounds, as of any [difference](Latencies::since). What measuring itself takes is not
/// subtracted: about half of a pair (figure `latency`) is in the call's own time, all of it in its caller's.
///
/// Cost: see the figure `latency`. Memory: for each thread that hits, half a megabyte of addresses and 11 KiB for each function, of which the pages that are
/// touched are real: one to three of 4 KiB for each function that it calls.
///
/// ```
/// use probe_runtime::{Latency, probe, select};
///
/// #[probe]
/// fn handle(n: u64) -> u64 {
///     (0..n).map(|n| parse(n)).sum()
/// }
///
/// #[probe]
/// fn parse(n: u64) -> u64 {
///     n ^ 1
/// }
///
/// let latency = select("**::handle, **::parse")?.attach(Latency::new())?;
/// handle(100);
/// let latencies = latency.latencies();
/// assert_eq!(latencies.iter().map(|function| function.calls()).sum::<u64>(), 101);
/// for function in &latencies {
///     println!("{}: {} ns at most in 99 of 100 calls", function.path(), function.quantile(0.99));
/// }
/// println!("{latency}");
/// # Ok::<(), probe_runtime::Error>(())
/// ```
#[derive(Default, Debug)]
pub struct Latency {
    clock: Clock,
    calls: OnceCalls<1, Self>,
    began: Baseline<Latencies>,
}

/// What a thread has measured of one function, in ticks.
#[repr(C)]
pub struct Times {
    busy: AtomicU64,
    /// From entry to exit: of futures only. That of other calls is `busy`.
    total: AtomicU64,
    own: AtomicU64,
    /// Of futures only.
    polls: AtomicU64,
    longest: AtomicU64,
    /// The bits of the shortest, inverted: zero is as good as none.
    shortest: AtomicU64,
    buckets: Buckets,
}

// SAFETY: atomics only.
unsafe impl Zeroed for Times {}

impl Latency {
    /// A new one, with the best [`Clock`] of this machine.
    pub fn new() -> Self {
        Self::default()
    }

    /// What has been measured so far, by all threads, also those that have ended. Calls that have ended before are in it, whole; threads
    /// go on meanwhile. After a [reset](Self::reset), what has been measured since.
    pub fn latencies(&self) -> Latencies {
        self.began.now(|| self.all_latencies(), Latencies::since)
    }

    /// Begins anew: what is measured from now on is all that [`latencies`](Self::latencies) and reports tell. Returns what was measured
    /// until now, since it was attached or last reset.
    ///
    /// Exact, while threads hit: each call is in one of two successive results, or in the readings after them. Nothing is written where
    /// calls are measured, so extremes are those of a [difference](Latencies::since). A `metrics::Exporter` goes on with all that was
    /// ever measured. Who wants a difference of his own, beside others who read the same attachment, keeps an earlier reading.
    ///
    /// ```
    /// use probe_runtime::{Latency, probe, select};
    ///
    /// #[probe]
    /// fn answer() {}
    ///
    /// let latency = select("**::answer")?.attach(Latency::new())?;
    /// answer();
    /// let warm_up = latency.reset();
    /// answer();
    /// answer();
    /// assert_eq!((warm_up[0].calls(), latency.latencies()[0].calls()), (1, 2));
    /// # Ok::<(), probe_runtime::Error>(())
    /// ```
    pub fn reset(&self) -> Latencies {
        self.began.reset(|| self.all_latencies(), Latencies::since)
    }

    /// All that was ever measured, whoever has reset what: what collectors get.
    pub(crate) fn all_latencies(&self) -> Latencies {
        self.calls.get().map_or_else(Latencies::default, |calls| Latencies::new(calls, self.clock.scale()))
    }
}

impl Meter<1> for Latency {
    type Head = ();
    type Part = Times;

    #[inline(always)]
    fn read(&self, _: Local<'_, (), ()>) -> [u64; 1] {
        [self.clock.now()]
    }

    #[inline(always)]
    fn glance(&self) -> Option<[u64; 1]> {
        self.clock.counter().map(|now| [now])
    }

    #[inline(always)]
    fn end(&self, ended: &Ended<'_, 1, (), Times>) {
        let times = ended.part;
        let raise = |number: &AtomicU64, to: u64| {
            if to > number.load(Relaxed) {
                number.store(to, Relaxed);
            }
        };
        add(&times.busy, ended.elapsed[0]);
        add(&times.own, ended.own()[0]);
        if ended.is_poll {
            add(&times.polls, 1);
        }
        let Some(whole) = ended.whole else { return };
        let [total] = whole.total;
        if ended.is_poll {
            add(&times.total, total);
        }
        raise(&times.longest, total);
        raise(&times.shortest, !total);
        times.buckets.record(total);
    }
}

impl Consumer for Latency {
    fn prepare(&self, probes: &ProbeSet) -> Result<(), Error> {
        self.calls.prepare(probes)
    }

    #[inline]
    fn hit(&self, event: &Event<'_>) {
        self.calls.hit(event, self);
    }
}

impl Shown for Latency {
    fn shown(&self) -> impl fmt::Display {
        self.latencies()
    }
}
