//! The state by which hits of the profiler are sampled; [`timing`](super::timing) handles them.
//!
//! While a function is only counted, the runtime counts it
//! ([`Switch::count`](crate::Switch::count)), and no hit comes here. A hit that comes here counts
//! its call, so each call is counted once. It also times the call if the function's [`MeasureMode`]
//! or an open window says so:
//!
//! ```text
//! mode       between windows          in a window: [begin, deadline)    before, and up to its end
//! Timed      each call is timed
//! Counted    the runtime counts       timed                             only paired
//! Sampled    latent                   timed                             only paired
//! ```
//! A window ends by the clock, so only a call's beginning decides whether it is timed. Entries and
//! exits stay active for as long again, so that the call can end. All data belongs to the thread.
//!
//! Functions of probes that [join](crate::Consumer::join) are added at the end, without a lock that
//! polls hold. The next poll or report [takes them in](super::core::Running::take_in).

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU32, AtomicU64};

use super::part::{FunctionSums, FunctionTotals};
use super::plan::MeasureMode;
use super::stack::ThreadStack;
use super::time::{Ticks, TimeSource};
use crate::engine::by_probe::Appended;
use crate::engine::calls::{AttachedFunctions, CallEffect, Function, LeftOut, PackedAction};
use crate::engine::control::{ProbeSet, Switch};
use crate::engine::error::Error;
use crate::engine::per_thread::PerThread;
use crate::engine::period::Since;
use crate::engine::registry::ProbeId;

/// The low bit of a mode's number: whether each call is timed.
pub(super) const TIMED_BIT: u32 = 1;

/// The probes of a function that belong to calls. Probes that begin a call or a poll come first.
#[derive(Clone, Default, Debug)]
struct Probes {
    all: Vec<ProbeId>,
    beginning: usize,
    /// When they were added: in ticks, and the CPU time of the process by then.
    added: (u64, f64),
}

impl Probes {
    fn add(&mut self, id: ProbeId, begins: bool) {
        self.all.insert(if begins { self.beginning } else { self.all.len() }, id);
        self.beginning += usize::from(begins);
    }
}

/// Returns whether a call or a poll begins; otherwise one ends.
#[inline(always)]
pub(super) fn begins(act: PackedAction) -> bool {
    act.is_among(&[CallEffect::Begin, CallEffect::Enter, CallEffect::Resume])
}

/// Returns whether a call or a poll begins or ends. Dropping a future does neither. Its probe stays
/// off, as points do.
#[inline(always)]
pub(super) fn is_of_call(act: PackedAction) -> bool {
    !act.is_among(&[CallEffect::Nothing, CallEffect::Cancel])
}

/// The window, in which functions are timed whose calls are not always timed.
#[derive(Default)]
pub(super) struct Window {
    /// Its number, which is even.
    pub(super) number: AtomicU32,
    /// Calls that begin from `begin` until before `deadline` are timed. In ticks.
    begin: AtomicU64,
    deadline: AtomicU64,
    /// The number of calls that each timed call stands for.
    pub(super) weight: AtomicU64,
}

impl Window {
    /// Returns its beginning and its deadline, which is 0 if there is none.
    #[inline(always)]
    pub(super) fn span(&self) -> (u64, u64) {
        // In this order: if the deadline is another window's, the beginning may be, too.
        let deadline = self.deadline.load(Acquire);
        (self.begin.load(Relaxed), deadline)
    }
}

/// Samples the hits of the functions of a selection.
pub(super) struct Sampler {
    known: AttachedFunctions,
    /// Indexed by function. The number changes with the function's mode.
    pub(super) modes: Appended<AtomicU32>,
    /// Indexed by function: when its mode last began or ceased to be `Timed`.
    pub(super) since: Appended<AtomicU64>,
    /// Indexed by function. Added last: a function that has probes has all of the above.
    probes: Appended<Probes>,
    pub(super) window: Window,
    pub(super) memory: PerThread<ThreadStack, FunctionSums>,
    pub(super) time: TimeSource,
    pub(super) made: Since,
}

impl Sampler {
    pub(super) fn new(probes: &ProbeSet, time: TimeSource) -> Result<Self, Error> {
        let sampler = Self::of(AttachedFunctions::new(probes), time)?;
        sampler.add(probes.ids());
        Ok(sampler)
    }

    /// Creates a sampler of a single function, with the entry as probe 0 and the exit as probe 1.
    pub(super) fn rehearsed(time: TimeSource) -> Result<Self, Error> {
        let sampler = Self::of(AttachedFunctions::rehearsed(), time)?;
        sampler.add(&[]);
        Ok(sampler)
    }

    fn of(known: AttachedFunctions, time: TimeSource) -> Result<Self, Error> {
        let room = known.room();
        let (window, memory) = (Window::default(), PerThread::new(room)?);
        let (modes, since) = (Appended::new(Vec::new(), room), Appended::new(Vec::new(), room));
        let probes = Appended::new(Vec::new(), room);
        Ok(Self { known, modes, since, probes, window, memory, time, made: Since::now() })
    }

    /// Adds the functions of which these are the last probes.
    pub(super) fn join(&self, probes: &ProbeSet) -> Result<(), Error> {
        self.add(self.known.join(probes)?.ids());
        Ok(())
    }

    /// Adds the known functions that it does not have yet; `ids` has their probes.
    fn add(&self, ids: &[ProbeId]) {
        let (first, added) = (self.len(), (self.time.now(), self.time.used().by_all));
        let more = self.known.functions.len() - first;
        let mut probes = vec![Probes { added, ..Probes::default() }; more];
        for id in ids {
            let act = self.known.action(*id);
            if is_of_call(act) {
                probes[act.function() as usize - first].add(*id, begins(act));
            }
        }
        // There is as much room as for functions.
        self.modes.add((0..more).map(|_| AtomicU32::new(0)).collect());
        self.since.add((0..more).map(|_| AtomicU64::new(0)).collect());
        self.probes.add(probes);
    }

    /// Returns the number of functions.
    pub(super) fn len(&self) -> usize {
        self.probes.len()
    }

    /// Returns the functions. There may be more of them than [`len`](Self::len) for a moment.
    pub(super) fn functions(&self) -> &[Function] {
        &self.known.functions
    }

    /// Returns the number of functions that there is room for.
    #[cfg(feature = "perf")]
    pub(super) fn room(&self) -> usize {
        self.known.room()
    }

    /// Returns the numbers of the functions that have any of these probes, in their order.
    pub(super) fn functions_with(&self, probes: &[ProbeId]) -> Vec<usize> {
        self.known.functions_with(probes)
    }

    /// Returns the functions of which some probes are missing.
    pub(super) fn left_out(&self) -> Vec<LeftOut> {
        self.known.left_out()
    }

    /// Returns a function's probes that begin calls, and the others.
    pub(super) fn probes(&self, function: usize) -> (&[ProbeId], &[ProbeId]) {
        let Probes { all, beginning, .. } = &self.probes[function];
        all.split_at(*beginning)
    }

    /// Returns when a function was added: in ticks, and the CPU time of the process by then.
    pub(super) fn added(&self, function: usize) -> (u64, f64) {
        self.probes[function].added
    }

    /// Returns the probes of these functions that begin calls.
    pub(super) fn entries(&self, functions: &[usize]) -> Vec<ProbeId> {
        functions.iter().flat_map(|function| self.probes(*function).0).copied().collect()
    }

    /// Returns the first such probe of each of these functions.
    pub(super) fn first_entries(&self, functions: impl IntoIterator<Item = usize>) -> Vec<ProbeId> {
        functions.into_iter().filter_map(|function| self.probes[function].all.first().copied()).collect()
    }

    /// Returns the number of sites of each of these functions.
    pub(super) fn sites(&self, functions: std::ops::Range<usize>) -> Vec<u32> {
        let of = |it: usize| self.probes[it].all.clone();
        Switch::site_counts(&functions.map(of).collect::<Vec<_>>())
    }

    /// Returns the other probes of these functions.
    pub(super) fn exits(&self, functions: &[usize]) -> Vec<ProbeId> {
        functions.iter().flat_map(|function| self.probes(*function).1).copied().collect()
    }

    /// Returns the effect of a probe's hits on calls.
    #[inline(always)]
    pub(super) fn act(&self, probe: ProbeId) -> PackedAction {
        self.known.action(probe)
    }

    /// Sets a function's mode. Like all methods that change the sampler, only one thread at a time
    /// may call this.
    pub(super) fn set_mode(&self, function: usize, mode: MeasureMode) {
        let low = if mode == MeasureMode::Timed { TIMED_BIT } else { 0 };
        let last = self.modes[function].load(Relaxed);
        if last & TIMED_BIT != low {
            self.since[function].store(self.time.now(), Relaxed);
            self.modes[function].store((last | TIMED_BIT).wrapping_add(1) | low, Release);
        }
    }

    /// Opens a window: it begins in `soon` ticks and takes `length` ticks. Each of its calls stands
    /// for `weight` calls.
    pub(super) fn open(&self, soon: u64, length: u64, weight: u64) {
        let begin = self.time.now().saturating_add(soon);
        self.window.weight.store(weight, Relaxed);
        self.window.begin.store(begin, Relaxed);
        self.window.number.fetch_add(2, Relaxed);
        self.window.deadline.store(begin.saturating_add(length), Release);
    }

    /// Closes the window. Call this before switching its functions' sites.
    pub(super) fn close(&self) {
        self.window.deadline.store(0, Relaxed);
    }

    /// Returns the number of delivered hits, and of timed calls, on all threads.
    pub(super) fn totals(&self) -> [f64; 2] {
        self.memory.iter().fold([0.0; 2], |[hits, timed], local| {
            let head = local.head();
            [hits + head.hits.load(Relaxed) as f64, timed + head.timed.load(Relaxed) as f64]
        })
    }

    /// Returns a function that sums up one function's delivered hits over all threads. A tick is
    /// `scale` nanoseconds.
    pub(super) fn seen(&self, scale: f64) -> impl Fn(usize) -> FunctionTotals + use<'_> {
        // Collected once: the heads are spaced so that they compete for the same lines of the
        // caches.
        let threads: Vec<_> = self.memory.iter().collect();
        move |function| {
            let mut seen = FunctionTotals::default();
            threads.iter().filter_map(|local| local.parts().get(function)).for_each(|part| seen.add(part));
            seen.scaled(scale)
        }
    }
}
