//! Hits of the profiler. A hit counts the call, and times it if it is one of the first since its
//! function was armed.
//!
//! While a function is only counted, the runtime does so ([`Switch::count`](crate::Switch::count)),
//! and no hit comes here. Hits that come here count their calls, whatever is being switched, so
//! that each call is counted once. Each function has an *era*, which tells whether its calls are
//! also timed. Each arming begins another era. The daemon writes the era after the sites became
//! active, and before they become latent. So the site of a timed call's exit was active for all of
//! the call's life.
//!
//! Calls are paired for each function by itself, and not along the thread's stack, since inner
//! calls may be latent. A thread notes the beginnings of timed calls, and the number of other calls
//! under way. A new call is timed only while there are none of the latter. So exits are told apart:
//! calls that are not timed lie inside of those that are. For C code, whose calls may end without
//! an exit, the stack pointer decides, see [`calls`](crate::calls).
//!
//! All data is the thread's own: no lock, no locked instruction. The clock is read for timed calls,
//! once at each end.

// Safety: relies on zeroes being no call.
#![expect(unsafe_code, reason = "see above")]

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU32, AtomicU64};

#[cfg(feature = "perf")]
pub(in crate::consumers) use super::part::DEPTH;
use super::part::Part;
pub(super) use super::part::Seen;
use super::time::Time;
use crate::calls::{Act, Function, LeftOut, Selected, Step, add};
use crate::control::ProbeSet;
use crate::dispatch::Event;
use crate::error::Error;
use crate::per_thread::{PerThread, Zeroed};
use crate::period::{Period, Since};
use crate::registry::ProbeId;

/// A hit of a timed call: its function, and the number of that function's calls that are timed on
/// this thread at once (fewer than [`DEPTH`]).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::consumers) enum Timed {
    /// The call begins.
    Began(usize, usize),
    /// The call has ended.
    Ended(usize, usize),
}

/// The low bit of an era: whether calls are timed.
const IS_TIMED: u32 = 1;

/// One thread's counts of all functions.
#[repr(C)]
struct Head {
    hits: AtomicU64,
}

// SAFETY: atomics only.
unsafe impl Zeroed for Head {}

/// The probes of a function.
#[derive(Clone, Default, Debug)]
struct Probes {
    /// Probes where calls begin are first.
    all: Vec<ProbeId>,
    beginning: usize,
    /// Of these, probes where a future's later polls begin are first.
    resuming: usize,
}

/// Samples the hits of the functions of a selection.
pub(super) struct Sampler {
    selected: Selected,
    /// Of each function.
    probes: Vec<Probes>,
    idle: Vec<ProbeId>,
    eras: Vec<AtomicU32>,
    memory: PerThread<Head, Part>,
    quota: u32,
    time: Time,
    since: Since,
}

impl Sampler {
    pub(super) fn new(probes: &ProbeSet, quota: u32, time: Time) -> Result<Self, Error> {
        let selected = Selected::new(&probes.probes());
        let functions = selected.functions.len();
        let mut of_functions = vec![Probes::default(); functions];
        let mut idle = Vec::new();
        for id in probes.ids() {
            match selected.acts.get(id.index()) {
                Some(Act { step: Step::Nothing | Step::Cancel, .. }) | None => idle.push(*id),
                Some(act) => of_functions[act.function as usize].add(*id, act.step),
            }
        }
        Self::of(selected, of_functions, idle, quota, time)
    }

    /// A sampler of a single function, with the entry as probe 0 and the exit as probe 1. It times
    /// as many calls as the quota says.
    pub(super) fn rehearsed(quota: u32, time: Time) -> Result<Self, Error> {
        let selected = Selected::rehearsed();
        let sampler = Self::of(selected, vec![Probes::default()], Vec::new(), quota, time)?;
        sampler.arm(0);
        Ok(sampler)
    }

    fn of(
        selected: Selected,
        probes: Vec<Probes>,
        idle: Vec<ProbeId>,
        quota: u32,
        time: Time,
    ) -> Result<Self, Error> {
        let functions = selected.functions.len();
        let eras = (0..functions).map(|_| AtomicU32::new(0)).collect();
        let memory = PerThread::new(functions)?;
        Ok(Self { selected, probes, idle, eras, memory, quota, time, since: Since::now() })
    }

    /// The period from its beginning until now.
    pub(super) fn period(&self) -> Period {
        self.since.period()
    }

    pub(super) fn functions(&self) -> &[Function] {
        &self.selected.functions
    }

    pub(super) fn left_out(&self) -> &[LeftOut] {
        &self.selected.left_out
    }

    /// A function's probes where calls begin, and the others.
    pub(super) fn probes(&self, function: usize) -> (&[ProbeId], &[ProbeId]) {
        let Probes { all, beginning, .. } = &self.probes[function];
        all.split_at(*beginning)
    }

    /// How many of a function's first probes are those where a future's later polls begin.
    pub(super) fn resuming(&self, function: usize) -> usize {
        self.probes[function].resuming
    }

    /// Probes without a meaning here: points, drops of futures, and those of left-out functions.
    pub(super) fn idle(&self) -> &[ProbeId] {
        &self.idle
    }

    /// Hits that found no memory.
    pub(super) fn lost(&self) -> u64 {
        self.memory.lost()
    }

    /// Times calls of this function from here on. Its sites are active.
    pub(super) fn arm(&self, function: usize) {
        self.change_era(function, IS_TIMED);
    }

    /// Times calls of this function no more. Its sites are about to become latent.
    pub(super) fn disarm(&self, function: usize) {
        self.change_era(function, 0);
    }

    /// Called by one thread at a time.
    fn change_era(&self, function: usize, low: u32) {
        let last = self.eras[function].load(Relaxed);
        if last & IS_TIMED != low {
            self.eras[function].store((last | IS_TIMED).wrapping_add(1) | low, Release);
        }
    }

    /// The counts of delivered hits, for each of these functions; thread by thread.
    pub(super) fn seen(&self, functions: &[usize]) -> Vec<Seen> {
        let mut all = vec![Seen { shortest: u64::MAX, ..Seen::default() }; functions.len()];
        for local in self.memory.iter() {
            for (seen, function) in all.iter_mut().zip(functions) {
                seen.add(local.parts().get(*function));
            }
        }
        all
    }

    /// Handles a hit. Returns whether it is one of a timed call.
    #[inline(always)]
    pub(super) fn hit(&self, event: &Event<'_>) -> Option<Timed> {
        let &Act { function, step } = self.selected.acts.get(event.probe().index())?;
        // Dropping a future is no poll; its probe is off.
        if matches!(step, Step::Nothing | Step::Cancel) {
            return None;
        }
        let begins = begins(step);
        let function = function as usize;
        let (local, era) = (self.memory.of(event)?, self.eras.get(function)?);
        let part = local.parts().get(function)?;
        let hits = &local.head().hits;
        add(hits, 1);
        if begins {
            add(&part.calls, 1);
            if step == Step::Resume {
                add(&part.resumed, 1);
            }
        }
        let era = era.load(Acquire);
        if era & IS_TIMED == 0 {
            return None;
        }
        let key = u64::from(era) << 32 | u64::from(event.generation());
        if part.key.load(Relaxed) != key || part.thread.load(Relaxed) != local.thread() {
            part.reset(key, local.thread(), self.quota);
        }
        let frame = if event.may_skip_exit() && event.has_frame() { event.stack_pointer() } else { None };
        if begins {
            part.begin(frame, hits, self.time).map(|depth| Timed::Began(function, depth))
        } else {
            part.end(frame, hits, self.time).map(|depth| Timed::Ended(function, depth))
        }
    }
}

/// Whether a call or a poll begins; otherwise one ends.
#[inline(always)]
fn begins(step: Step) -> bool {
    matches!(step, Step::Begin | Step::Enter | Step::Resume)
}

impl Probes {
    fn add(&mut self, id: ProbeId, step: Step) {
        if step == Step::Resume {
            self.all.insert(0, id);
            self.resuming += 1;
            self.beginning += 1;
        } else if begins(step) {
            self.all.insert(self.beginning, id);
            self.beginning += 1;
        } else {
            self.all.push(id);
        }
    }
}
