//! Measures how long calls take.

// Safety: relies on zeroes being no measurement.
#![expect(unsafe_code, reason = "see above")]

mod report;
#[cfg(feature = "perf")]
mod split;
mod sums;

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

pub use report::{FunctionLatency, Latencies};

use super::buckets::Buckets;
use crate::engine::calls::{CallEnd, LazyCalls, Meter, add_single_writer};
use crate::engine::clock::Clock;
use crate::engine::control::{Baseline, Consumer, ProbeSet};
use crate::engine::dispatch::Event;
use crate::engine::error::Error;
use crate::engine::per_thread::Zeroed;
use crate::engine::registry::ProbeId;
use probe_lang::{ParseError, Setting};
use sums::LatencySums;

/// Measures how long each call of the selected functions takes. For each function it keeps a
/// histogram of its calls, exact sums, the time in the function itself, and for futures the time of
/// their polls.
///
/// Entries and exits are paired as described in [`calls`](crate::calls); select both (`net::*`,
/// without a `kind`). The attachment prints as a table, with the function of the most time in
/// itself first. All times are wall time:
///
/// | column | meaning |
/// |---|---|
/// | `calls` | calls that have ended; all polls of a future are one call |
/// | `total` | the time of these calls, from entry to exit; for a future, of its polls, as in a `CallTree`. Of a recursion, the outermost call counts; futures of one function count each |
/// | `self` | the time in the function, and in no other measured function; includes polls of futures that have not ended |
/// | `polls`, `elapsed` | futures only: the number of their polls; and the time of all calls that have ended with the waits between polls, which is [`FunctionLatency::total`] |
/// | `mean`, `p50`, `p99`, `max` | the time of a call, from entry to exit; for a future, with the waits |
/// | `unpaired` | hits without a partner, which are in no other column |
/// | `cancelled`, `pending` | futures that were dropped before their end, and futures that have not ended yet |
///
/// Sums and extremes are exact to the clock's tick. Quantiles come from values with an error of at
/// most 1.6 %. After a [reset](Self::reset), extremes may be bounds, as in any
/// [difference](Latencies::since). The cost of measuring is not subtracted: about half of a pair of
/// hits (figure `latency`) is in the call's own time, and all of it in the caller's.
///
/// With [`cpu`](Self::cpu), the time is split into CPU time and waits.
///
/// Cost: see the figures `latency` and `sites`. Memory: for each thread that hits, half a megabyte
/// of addresses, and 11 KiB for each function. Only touched pages take memory: one to three of
/// 4 KiB for each function that the thread calls.
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
    /// Whether its JSON has the buckets of each function.
    shows_buckets: bool,
    calls: LazyCalls<1, Self>,
    /// In place of `calls`, if the time is split.
    #[cfg(feature = "perf")]
    split: Option<split::SplitCalls>,
    began: Baseline<Latencies>,
}

/// The measurements of one function on one thread, in ticks.
#[repr(C)]
pub struct FunctionTimes {
    busy: AtomicU64,
    /// The time from entry to exit, for futures only. For other calls, that is `busy`.
    total: AtomicU64,
    /// The part of `busy` in calls inside of a call of the function.
    recursive: AtomicU64,
    own: AtomicU64,
    /// For futures only.
    polls: AtomicU64,
    longest: AtomicU64,
    /// The inverted bits of the shortest time, so that zero means that there is none.
    shortest: AtomicU64,
    buckets: Buckets,
}

// SAFETY: atomics only.
unsafe impl Zeroed for FunctionTimes {}

impl Latency {
    /// Creates a consumer with the best [`Clock`] of this machine.
    pub fn new() -> Self {
        Self::default()
    }

    /// Splits the time of calls into [CPU time and waits](probe_report::Split), from the kernel's
    /// records of each thread's switches (Linux). They need no rights, unless
    /// `kernel.perf_event_paranoid` is above 2; attaching fails where they are not permitted. A hit
    /// makes no system call, but for a thread's first one. For a future, the time of its polls is
    /// split.
    ///
    /// | column | meaning |
    /// |---|---|
    /// | `self cpu`, `cpu` | the part of `self` and of `total` on a processor |
    /// | `blocked` | the part of `total` in which the thread slept, or waited for another thread, a file or a device |
    /// | `ready` | the part of `total` in which other threads had the processor |
    /// | `unknown` | the part of `total` whose waits are not known: the kernel keeps some seven hundred of them between two hits of a thread, and locks no memory beyond its limits |
    ///
    /// The kernel's work for the thread is CPU time. So is time that a host takes from a virtual
    /// machine.
    ///
    /// ```
    /// use std::time::Duration;
    /// use probe_runtime::{Latency, probe, select};
    ///
    /// #[probe]
    /// fn nap() {
    ///     std::thread::sleep(Duration::from_millis(1));
    /// }
    ///
    /// let latency = match select("**::nap")?.attach(Latency::new().cpu()) {
    ///     Ok(latency) => latency,
    ///     Err(error) => {
    ///         println!("the system does not permit it: {error}");
    ///         return Ok(());
    ///     }
    /// };
    /// nap();
    /// let latencies = latency.latencies();
    /// let split = latencies[0].split().unwrap();
    /// assert!(split.blocked > 0 && split.cpu < latencies[0].total());
    /// println!("{latencies}");
    /// # Ok::<(), probe_runtime::Error>(())
    /// ```
    #[cfg(feature = "perf")]
    #[must_use]
    pub fn cpu(mut self) -> Self {
        self.split = Some(split::SplitCalls::new(self.clock));
        self
    }

    /// Creates a consumer with the options of `PROBES`: `latency(buckets, cpu)`.
    pub(crate) fn with_settings(settings: &[Setting<'_>]) -> Result<Self, ParseError> {
        settings.iter().try_fold(Self::new(), |latency, it| match it.name() {
            name if !it.value().is_empty() => {
                Err(it.invalid_value(format!("`{name}` has no value; write `latency({name})`")))
            }
            #[cfg(feature = "perf")]
            "cpu" => Ok(latency.cpu()),
            _ => Ok(Self { shows_buckets: true, ..latency }),
        })
    }

    /// Returns everything measured so far, on all threads, including ended ones. Every call that
    /// ended before this is included; other threads keep measuring meanwhile. After a
    /// [reset](Self::reset), only later measurements are included.
    pub fn latencies(&self) -> Latencies {
        self.began.now(|| self.all_latencies(), Latencies::since)
    }

    /// Returns the same, of the functions with these probes only.
    pub(crate) fn latencies_only(&self, probes: &[ProbeId]) -> Latencies {
        self.began.now(|| self.read(Some(probes)), Latencies::since)
    }

    /// Restarts the measurement: from now on, [`latencies`](Self::latencies) and the reports
    /// include later calls only. Returns the measurements since the last reset, or since it was
    /// attached.
    ///
    /// This is exact while threads hit: each call is in exactly one of the successive results and
    /// the readings after them. It writes nothing on the measuring path, so extremes are those of a
    /// [difference](Latencies::since). A `metrics::Exporter` continues with the sums since
    /// attaching. To take differences without affecting other readers of the attachment, keep an
    /// earlier reading and use [`Latencies::since`].
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

    /// Returns everything measured since attaching, regardless of resets. Collectors get this.
    pub(crate) fn all_latencies(&self) -> Latencies {
        self.read(None)
    }

    /// Reads the functions with these probes, or all.
    fn read(&self, only: Option<&[ProbeId]>) -> Latencies {
        let (scale, shows_buckets) = (self.clock.scale(), self.shows_buckets);
        #[cfg(feature = "perf")]
        if let Some(split) = &self.split {
            return split.read(only, scale, shows_buckets);
        }
        let Some(calls) = self.calls.get() else { return Latencies::default() };
        let sums =
            |parts: &mut dyn Iterator<Item = &FunctionTimes>, is_future| LatencySums::new(parts, is_future);
        Latencies::new(calls, only, scale, shows_buckets, sums)
    }
}

/// The kind of call or poll that has ended.
#[derive(Clone, Copy)]
struct Ended {
    is_poll: bool,
    is_recursive: bool,
    /// The time from entry to exit, if that was the end of the call.
    total: Option<u64>,
}

impl Ended {
    #[inline(always)]
    fn of<const N: usize, H, P>(ended: &CallEnd<'_, N, H, P>) -> Self {
        let total = ended.completed.map(|call| call.total[0]);
        Self { is_poll: ended.is_poll, is_recursive: ended.is_recursive, total }
    }
}

impl FunctionTimes {
    /// Adds a call or a poll that has ended.
    #[inline(always)]
    fn add(&self, elapsed: u64, own: u64, ended: Ended) {
        let raise = |number: &AtomicU64, to: u64| {
            if to > number.load(Relaxed) {
                number.store(to, Relaxed);
            }
        };
        add_single_writer(&self.busy, elapsed);
        add_single_writer(&self.own, own);
        if ended.is_poll {
            add_single_writer(&self.polls, 1);
        }
        let Some(total) = ended.total else { return };
        if ended.is_poll {
            add_single_writer(&self.total, total);
        } else if ended.is_recursive {
            add_single_writer(&self.recursive, total);
        }
        raise(&self.longest, total);
        raise(&self.shortest, !total);
        self.buckets.record(total);
    }
}

impl Meter<1> for Latency {
    type Head = ();
    type Part = FunctionTimes;
    const RECURSION: bool = true;

    reads_clock!(clock);

    #[inline(always)]
    fn end(&self, ended: &CallEnd<'_, 1, (), FunctionTimes>) {
        ended.part.add(ended.elapsed[0], ended.own()[0], Ended::of(ended));
    }
}

hits_quickly!(Latency);

impl Consumer for Latency {
    fn pairs_calls(&self) -> bool {
        true
    }

    fn prepare(&self, probes: &ProbeSet) -> Result<(), Error> {
        #[cfg(feature = "perf")]
        if let Some(split) = &self.split {
            return split.prepare(probes);
        }
        self.calls.prepare(probes)
    }

    fn join(&self, probes: &ProbeSet) -> Result<(), Error> {
        #[cfg(feature = "perf")]
        if let Some(split) = &self.split {
            return split.join(probes);
        }
        self.calls.join(probes)
    }

    // Where the time is split, the quick part finds no calls, and leaves each hit to `hit`.
    hits_quickly!();

    #[inline]
    fn hit(&self, event: &Event<'_>) {
        #[cfg(feature = "perf")]
        if let Some(split) = &self.split {
            return split.hit(event);
        }
        self.calls.hit(event, self);
    }
}

impl_display!(Latency: latencies);
