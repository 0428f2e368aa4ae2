//! What a hit does: it counts the call, and times it if it is one of the first since its function was armed.
//!
//! While a function is only counted, the runtime does so ([`Switch::count`](crate::Switch::count)), and no hit comes here. Those that do count their calls, whatever
//! is being switched, so that each call is counted once. Each function has an *era*, which says whether its calls are timed as well; each time
//! that it is armed is another. The daemon writes it: once the sites are active, and before they become
//! latent. So what is timed has had its exit's site active for all of its life.
//!
//! Calls are paired for each function on its own, not along the thread's stack: what is called inside may be latent. A thread notes the
//! beginnings of calls that are timed, and how many calls are under way that are not. New ones are timed only while there are
//! none of the latter, so that the exits tell which is which: those that are not timed lie inside of those that are.
//! Of C code, whose calls may end without an exit, the stack pointer tells, see [`calls`](crate::calls).
//!
//! All is the thread's own: no lock, no locked instruction. The clock is read for calls that are timed, once at each end.

// Safety: relies on zeroes being no call.
#![expect(unsafe_code, reason = "see above")]

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize};

use super::time::Time;
use crate::calls::{Act, Function, LeftOut, Selected, Step, add};
use crate::control::ProbeSet;
use crate::dispatch::Event;
use crate::error::Error;
use crate::per_thread::{PerThread, Zeroed};
use crate::registry::ProbeId;

/// Calls of one function that a thread times at once; what is called deeper is counted only.
pub(in crate::consumers) const DEPTH: usize = 8;

/// A hit of a call that is timed: of which function, and of how many of its calls that are timed on this thread at once (fewer than [`DEPTH`]).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::consumers) enum Timed {
    /// It begins.
    Began(usize, usize),
    /// It has ended.
    Ended(usize, usize),
}

/// The low bit of an era: whether calls are timed.
const IS_TIMED: u32 = 1;

/// What a thread has for all functions.
#[repr(C)]
struct Head {
    hits: AtomicU64,
}

// SAFETY: atomics only.
unsafe impl Zeroed for Head {}

/// What a thread has seen of one function.
#[repr(C)]
struct Part {
    calls: AtomicU64,
    begun: AtomicU64,
    ended: AtomicU64,
    time: AtomicU64,
    /// Hits in between, of this function and others.
    inner: AtomicU64,
    /// The sum of the squares of the times, as the bits of an `f64`.
    squares: AtomicU64,
    /// Inverted: zero is as good as none.
    shortest: AtomicU64,
    longest: AtomicU64,
    /// Era and generation of what follows; 0 at first, which is never armed.
    key: AtomicU64,
    thread: AtomicU64,
    /// Calls that may be timed yet.
    left: AtomicU32,
    /// Calls under way that are timed.
    timed: AtomicU32,
    /// And that are not.
    untimed: AtomicU32,
    starts: [Start; DEPTH],
}

/// The beginning of a call that is timed.
#[repr(C)]
struct Start {
    time: AtomicU64,
    /// The thread's hits so far.
    hits: AtomicU64,
    /// In C code: the stack pointer.
    mark: AtomicUsize,
}

// SAFETY: atomics only.
unsafe impl Zeroed for Part {}

/// What all threads have seen of a function.
#[derive(Clone, Copy, PartialEq, Default, Debug)]
pub(super) struct Seen {
    /// Calls that began: those that the runtime has counted, and those whose hits were delivered.
    pub(super) counted: u64,
    pub(super) delivered: u64,
    /// Calls that were timed: begun, and ended.
    pub(super) begun: u64,
    pub(super) ended: u64,
    /// Their times in ticks, and the squares.
    pub(super) time: u64,
    pub(super) squares: f64,
    /// Hits inside of them, which have made them longer.
    pub(super) inner: u64,
    /// The shortest and the longest; `u64::MAX` and 0 without any.
    pub(super) shortest: u64,
    pub(super) longest: u64,
}

impl Seen {
    /// What a thread has seen, if it has.
    fn add(&mut self, part: Option<&Part>) {
        let Some(part) = part.filter(|part| part.calls.load(Relaxed) != 0) else { return };
        self.delivered += part.calls.load(Relaxed);
        // In this order: what has ended has begun.
        self.ended += part.ended.load(Acquire);
        self.begun += part.begun.load(Relaxed);
        self.time += part.time.load(Relaxed);
        self.inner += part.inner.load(Relaxed);
        self.squares += f64::from_bits(part.squares.load(Relaxed));
        self.shortest = self.shortest.min(!part.shortest.load(Relaxed));
        self.longest = self.longest.max(part.longest.load(Relaxed));
    }

    /// All calls that began.
    pub(super) fn calls(&self) -> u64 {
        self.counted + self.delivered
    }
}

/// The probes of a function.
#[derive(Clone, Default, Debug)]
struct Probes {
    /// Those at which calls begin are first.
    all: Vec<ProbeId>,
    beginning: usize,
}

/// The hits of a selection's functions.
pub(super) struct Sampler {
    selected: Selected,
    /// Of each function.
    probes: Vec<Probes>,
    idle: Vec<ProbeId>,
    eras: Vec<AtomicU32>,
    memory: PerThread<Head, Part>,
    quota: u32,
    time: Time,
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
                Some(act) => of_functions[act.function as usize].add(*id, begins(act.step)),
            }
        }
        Self::of(selected, of_functions, idle, quota, time)
    }

    /// One of a single function, whose entry is the probe 0, and its exit the probe 1; it times calls, as many as the quota says.
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
        Ok(Self { selected, probes, idle, eras, memory, quota, time })
    }

    pub(super) fn functions(&self) -> &[Function] {
        &self.selected.functions
    }

    pub(super) fn left_out(&self) -> &[LeftOut] {
        &self.selected.left_out
    }

    /// A function's probes at which calls begin, and the others.
    pub(super) fn probes(&self, function: usize) -> (&[ProbeId], &[ProbeId]) {
        let Probes { all, beginning } = &self.probes[function];
        all.split_at(*beginning)
    }

    /// The probes that mean nothing here: points, drops of futures, those of functions that are left out.
    pub(super) fn idle(&self) -> &[ProbeId] {
        &self.idle
    }

    /// Hits that found no memory.
    pub(super) fn lost(&self) -> u64 {
        self.memory.lost()
    }

    /// Calls of this function are timed from here on: its sites are active.
    pub(super) fn arm(&self, function: usize) {
        self.change_era(function, IS_TIMED);
    }

    /// Calls of this function are not timed any more: its sites are about to become latent.
    pub(super) fn disarm(&self, function: usize) {
        self.change_era(function, 0);
    }

    /// By one thread at a time.
    fn change_era(&self, function: usize, low: u32) {
        let last = self.eras[function].load(Relaxed);
        if last & IS_TIMED != low {
            self.eras[function].store((last | IS_TIMED).wrapping_add(1) | low, Release);
        }
    }

    /// Of what was delivered, of each of these functions; thread by thread.
    pub(super) fn seen(&self, functions: &[usize]) -> Vec<Seen> {
        let mut all = vec![Seen { shortest: u64::MAX, ..Seen::default() }; functions.len()];
        for local in self.memory.iter() {
            for (seen, function) in all.iter_mut().zip(functions) {
                seen.add(local.parts().get(*function));
            }
        }
        all
    }

    /// Tells if it is one of a call that is timed.
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

/// Whether a call begins, or a poll; else one ends.
#[inline(always)]
fn begins(step: Step) -> bool {
    matches!(step, Step::Begin | Step::Enter | Step::Resume)
}

impl Probes {
    fn add(&mut self, id: ProbeId, begins: bool) {
        if begins {
            self.all.insert(self.beginning, id);
            self.beginning += 1;
        } else {
            self.all.push(id);
        }
    }
}

impl Part {
    /// What is under way can't be paired any more.
    #[cold]
    #[inline(never)]
    fn reset(&self, key: u64, thread: u64, quota: u32) {
        self.key.store(key, Relaxed);
        self.thread.store(thread, Relaxed);
        self.timed.store(0, Relaxed);
        self.untimed.store(0, Relaxed);
        // While other sites of the attachment are being switched, some hits may be missing.
        let is_settled = !key.is_multiple_of(2);
        self.left.store(if is_settled { quota } else { 0 }, Relaxed);
    }

    /// Tells how deep the call is, if it is timed.
    #[inline(always)]
    fn begin(&self, frame: Option<usize>, hits: &AtomicU64, time: Time) -> Option<usize> {
        if let Some(stack_pointer) = frame {
            self.drop_dead(|mark| mark <= stack_pointer);
        }
        let (left, timed) = (self.left.load(Relaxed), self.timed.load(Relaxed));
        let start = self.starts.get(timed as usize).filter(|_| left != 0 && self.untimed.load(Relaxed) == 0);
        let Some(start) = start else {
            if frame.is_none() {
                self.untimed.store(self.untimed.load(Relaxed).wrapping_add(1), Relaxed);
            }
            return None;
        };
        self.left.store(left - 1, Relaxed);
        self.timed.store(timed + 1, Relaxed);
        add(&self.begun, 1);
        start.mark.store(frame.unwrap_or_default(), Relaxed);
        start.hits.store(hits.load(Relaxed), Relaxed);
        // As late as can be: what is done here is not the call's.
        start.time.store(time.now(), Relaxed);
        Some(timed as usize)
    }

    /// Tells how deep the call was, if it was timed.
    #[inline(always)]
    fn end(&self, frame: Option<usize>, hits: &AtomicU64, time: Time) -> Option<usize> {
        let untimed = self.untimed.load(Relaxed);
        if untimed != 0 {
            self.untimed.store(untimed - 1, Relaxed);
            return None;
        }
        if self.timed.load(Relaxed) == 0 {
            return None;
        }
        let now = time.now();
        self.end_timed(frame, hits, now)
    }

    #[inline(never)]
    fn end_timed(&self, frame: Option<usize>, hits: &AtomicU64, now: u64) -> Option<usize> {
        if let Some(stack_pointer) = frame {
            self.drop_dead(|mark| mark < stack_pointer);
        }
        let timed = self.timed.load(Relaxed);
        let depth = (timed as usize).wrapping_sub(1);
        let start = self.starts.get(depth)?;
        if frame.is_some_and(|stack_pointer| start.mark.load(Relaxed) != stack_pointer) {
            return None;
        }
        self.timed.store(timed - 1, Relaxed);
        let elapsed = now.saturating_sub(start.time.load(Relaxed));
        add(&self.time, elapsed);
        // Without its own exit.
        add(&self.inner, hits.load(Relaxed).wrapping_sub(start.hits.load(Relaxed)).wrapping_sub(1));
        #[expect(clippy::cast_precision_loss, reason = "of an error")]
        let squares = f64::from_bits(self.squares.load(Relaxed)) + (elapsed as f64).powi(2);
        self.squares.store(squares.to_bits(), Relaxed);
        if !elapsed > self.shortest.load(Relaxed) {
            self.shortest.store(!elapsed, Relaxed);
        }
        if elapsed > self.longest.load(Relaxed) {
            self.longest.store(elapsed, Relaxed);
        }
        self.ended.store(self.ended.load(Relaxed).wrapping_add(1), Release);
        Some(depth)
    }

    /// Forgets the innermost calls of C code that are over without an exit.
    fn drop_dead(&self, is_dead: impl Fn(usize) -> bool) {
        let mut timed = self.timed.load(Relaxed);
        let top = |timed: u32| self.starts.get((timed as usize).wrapping_sub(1));
        while top(timed).is_some_and(|start| is_dead(start.mark.load(Relaxed))) {
            timed -= 1;
        }
        self.timed.store(timed, Relaxed);
    }
}
