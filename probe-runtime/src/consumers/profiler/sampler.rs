//! Handles the hits of the profiler.
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

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU32, AtomicU64};

use super::part::{FunctionSums, FunctionTotals};
use super::plan::MeasureMode;
#[cfg(feature = "perf")]
pub(in crate::consumers) use super::stack::DEPTH;
use super::stack::{ThreadStack, TimedCall, UnattributedCalls};
use super::time::TimeSource;
use crate::calls::{Act, CallEffect, Selected, add_single_writer};
use crate::control::ProbeSet;
use crate::dispatch::Event;
use crate::error::Error;
use crate::per_thread::{Local, PerThread};
use crate::period::Since;
use crate::registry::ProbeId;

/// A hit of a timed call: its function, and how many calls are timed around it on its thread
/// (fewer than [`DEPTH`](super::stack::DEPTH)).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::consumers) enum Timed {
    /// The call begins.
    Began(usize, usize),
    /// The call has ended.
    Ended(usize, usize),
}

/// The low bit of a mode's number: whether each call is timed.
const ALWAYS: u32 = 1;

/// The probes of a function that belong to calls. Probes that begin a call or a poll come first.
#[derive(Clone, Default, Debug)]
struct Probes {
    all: Vec<ProbeId>,
    beginning: usize,
}

/// Returns whether a call or a poll begins; otherwise one ends.
#[inline(always)]
pub(super) fn begins(step: CallEffect) -> bool {
    matches!(step, CallEffect::Begin | CallEffect::Enter | CallEffect::Resume)
}

/// Returns whether a call or a poll begins or ends. Dropping a future does neither. Its probe stays
/// off, as points do.
#[inline(always)]
fn is_of_call(step: CallEffect) -> bool {
    !matches!(step, CallEffect::Nothing | CallEffect::Cancel)
}

/// The window, in which functions are timed whose calls are not always timed.
#[derive(Default)]
struct Window {
    /// Its number, which is even.
    number: AtomicU32,
    /// Calls that begin from `begin` until before `deadline` are timed. In ticks.
    begin: AtomicU64,
    deadline: AtomicU64,
    /// The number of calls that each timed call stands for.
    weight: AtomicU64,
}

impl Window {
    #[inline(always)]
    fn span(&self) -> (u64, u64) {
        // In this order: if the deadline is another window's, the beginning may be, too.
        let deadline = self.deadline.load(Acquire);
        (self.begin.load(Relaxed), deadline)
    }
}

/// Samples the hits of the functions of a selection.
pub(super) struct Sampler {
    pub(super) selected: Selected,
    /// Indexed by function.
    probes: Vec<Probes>,
    /// Indexed by function. The number changes with the function's mode.
    modes: Vec<AtomicU32>,
    /// Indexed by function: when its mode last began or ceased to be `Timed`.
    since: Vec<AtomicU64>,
    window: Window,
    pub(super) memory: PerThread<ThreadStack, FunctionSums>,
    time: TimeSource,
    pub(super) made: Since,
}

impl Sampler {
    pub(super) fn new(probes: &ProbeSet, time: TimeSource) -> Result<Self, Error> {
        let selected = Selected::of(probes);
        let mut of_functions = vec![Probes::default(); selected.functions.len()];
        for id in probes.ids() {
            let Some(act) = selected.acts.get(id.index()).filter(|act| is_of_call(act.step)) else {
                continue;
            };
            let Probes { all, beginning } = &mut of_functions[act.function as usize];
            all.insert(if begins(act.step) { *beginning } else { all.len() }, *id);
            *beginning += usize::from(begins(act.step));
        }
        Self::of(selected, of_functions, time)
    }

    /// Creates a sampler of a single function, with the entry as probe 0 and the exit as probe 1.
    pub(super) fn rehearsed(time: TimeSource) -> Result<Self, Error> {
        Self::of(Selected::rehearsed(), vec![Probes::default()], time)
    }

    fn of(selected: Selected, probes: Vec<Probes>, time: TimeSource) -> Result<Self, Error> {
        let functions = selected.functions.len();
        let modes = (0..functions).map(|_| AtomicU32::new(0)).collect();
        let since = (0..functions).map(|_| AtomicU64::new(0)).collect();
        let (window, memory) = (Window::default(), PerThread::new(functions)?);
        Ok(Self { selected, probes, modes, since, window, memory, time, made: Since::now() })
    }

    /// Returns a function's probes that begin calls, and the others.
    pub(super) fn probes(&self, function: usize) -> (&[ProbeId], &[ProbeId]) {
        let Probes { all, beginning, .. } = &self.probes[function];
        all.split_at(*beginning)
    }

    /// Returns the probes of these functions that begin calls.
    pub(super) fn entries(&self, functions: &[usize]) -> Vec<ProbeId> {
        functions.iter().flat_map(|function| self.probes(*function).0).copied().collect()
    }

    /// Returns the first such probe of each function.
    pub(super) fn first_entries(&self) -> Vec<ProbeId> {
        self.probes.iter().filter_map(|probes| probes.all.first().copied()).collect()
    }

    /// Returns the other probes of these functions.
    pub(super) fn exits(&self, functions: &[usize]) -> Vec<ProbeId> {
        functions.iter().flat_map(|function| self.probes(*function).1).copied().collect()
    }

    /// Returns the effect of a probe's hits on calls.
    pub(super) fn step(&self, probe: ProbeId) -> CallEffect {
        self.selected.acts.get(probe.index()).map_or(CallEffect::Nothing, |act| act.step)
    }

    /// Sets a function's mode. Like all methods that change the sampler, only one thread at a time
    /// may call this.
    pub(super) fn set_mode(&self, function: usize, mode: MeasureMode) {
        let low = if mode == MeasureMode::Timed { ALWAYS } else { 0 };
        let last = self.modes[function].load(Relaxed);
        if last & ALWAYS != low {
            self.since[function].store(self.time.now(), Relaxed);
            self.modes[function].store((last | ALWAYS).wrapping_add(1) | low, Release);
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

    /// Handles a hit. Returns whether it is one of a timed call.
    #[inline(always)]
    pub(super) fn sample(&self, event: &Event<'_>) -> Option<Timed> {
        let &Act { function, step } = self.selected.acts.get(event.probe().index())?;
        if !is_of_call(step) {
            return None;
        }
        let function = function as usize;
        let local = self.memory.of(event)?;
        let part = local.parts().get(function)?;
        let head = local.head();
        add_single_writer(&head.hits, 1);
        let mode = self.modes.get(function)?.load(Acquire);
        let key = self.key(mode, event.generation());
        let is_first =
            part.belongs_to(key, local.thread()) && mode & ALWAYS == 0 && self.window.span().1 != 0;
        head.belongs_to(local.thread());
        let mark = if event.may_skip_exit() && event.has_frame() { event.stack_pointer() } else { None };
        if let Some(stack_pointer) = mark {
            head.drop_dead(stack_pointer, begins(step));
        }
        let call = SampledCall { function, mode, key, mark: mark.unwrap_or_default(), is_first };
        if begins(step) {
            add_single_writer(&part.delivered, 1);
            add_single_writer(&part.resumed, u64::from(step == CallEffect::Resume));
            if is_first {
                part.hit_window(0);
            }
            self.begin(call, head, part).map(|depth| Timed::Began(function, depth))
        } else {
            self.end(call, head, part, local).map(|depth| Timed::Ended(function, depth))
        }
    }

    #[inline(always)]
    fn begin(&self, call: SampledCall, head: &ThreadStack, part: &FunctionSums) -> Option<usize> {
        let is_settled = !call.key.is_multiple_of(2);
        let (begin, deadline) = if call.is_always() { (0, u64::MAX) } else { self.window.span() };
        let may_begin = is_settled && deadline != 0;
        if may_begin && head.room().is_none() {
            head.drop_while(|frame| !self.is_current(frame, call));
        }
        if let Some((depth, frame)) = head.room().filter(|_| may_begin) {
            frame.note(
                call.function,
                call.key,
                head.hits.load(Relaxed),
                part.untimed.load(Relaxed),
                call.mark,
            );
            let is_nested =
                part.untimed.load(Relaxed) != 0 || head.find(call.function, call.key, 0).is_some();
            // As late as possible: the work above is not part of the call.
            let now = self.time.now_in_order();
            if begin <= now && now < deadline {
                frame.start.store(now, Relaxed);
                add_single_writer(&part.begun, 1);
                add_single_writer(&part.nested, u64::from(is_nested));
                head.push();
                return Some(depth);
            }
        }
        // The stack pointer identifies the exits of other calls.
        if call.mark == 0 {
            add_single_writer(&part.untimed, 1);
        }
        None
    }

    #[inline(always)]
    fn end(
        &self,
        call: SampledCall,
        head: &ThreadStack,
        part: &FunctionSums,
        local: Local<'_, ThreadStack, FunctionSums>,
    ) -> Option<usize> {
        let found = head.find(call.function, call.key, call.mark);
        // Among a timed call and untimed calls, the one that began last ends first.
        let is_innermost =
            |frame: &TimedCall| call.mark != 0 || frame.untimed.load(Relaxed) == part.untimed.load(Relaxed);
        if let Some((depth, frame)) = found.filter(|(_, frame)| is_innermost(frame)) {
            let now = self.time.now();
            head.cut(depth);
            self.end_timed(call, frame, now, local, part);
            return Some(depth);
        }
        // In C code, untimed calls are not counted: the stack pointer identifies timed ones.
        let began_before = !part.end_untimed() && call.mark == 0;
        let (begin, deadline) = self.window.span();
        if call.is_always() {
            if began_before {
                let since = self.since[call.function].load(Relaxed);
                add_single_writer(&part.spanned, self.time.now().saturating_sub(since));
            }
        } else if deadline != 0 {
            let now = self.time.now();
            if call.is_first {
                part.hit_window(now.saturating_sub(begin));
            }
            if began_before || call.mark != 0 || now < deadline {
                // The call began before the window, so the calls that the window timed inside of it
                // must not count for its caller.
                head.pending.drop_of(call.era());
            }
        }
        None
    }

    #[inline(never)]
    fn end_timed(
        &self,
        call: SampledCall,
        frame: &TimedCall,
        now: u64,
        local: Local<'_, ThreadStack, FunctionSums>,
        part: &FunctionSums,
    ) {
        let head = local.head();
        let elapsed = now.saturating_sub(frame.start.load(Relaxed));
        // Without the call's own exit.
        let hits = head.hits.load(Relaxed).wrapping_sub(frame.hits.load(Relaxed)).wrapping_sub(1);
        part.end_timed(elapsed, hits, !call.is_always());
        let (begin, deadline) = self.window.span();
        let (inner, calls) = (frame.inner.load(Relaxed), frame.calls.load(Relaxed));
        let end_whole = |weight: u64| {
            add_single_writer(&part.whole, weight);
            add_single_writer(&part.own, weight * elapsed.saturating_sub(inner));
            add_single_writer(&part.inside, weight * calls);
        };
        let weight = self.window.weight.load(Relaxed);
        if call.is_always() {
            add_below(&head.pending, local.parts());
            end_whole(1);
        } else if now < deadline {
            // The longer a call, the less likely it fits a window.
            let length = deadline.saturating_sub(begin);
            let left = length.saturating_sub(elapsed).max(length / 8).max(1);
            end_whole(weight.saturating_mul(length) / left);
        }
        let Some(outer) = head.drop_while(|frame| !self.is_current(frame, call)) else { return };
        if call.is_always() || outer.key.load(Relaxed) >> 32 & u64::from(ALWAYS) == 0 {
            add_single_writer(&outer.inner, elapsed);
            add_single_writer(&outer.calls, 1);
            return;
        }
        let (pending, owner) = (&head.pending, outer.function.load(Relaxed));
        if pending.owner.load(Relaxed) != owner || pending.window.load(Relaxed) != call.era() {
            add_below(pending, local.parts());
            pending.owner.store(owner, Relaxed);
            pending.window.store(call.era(), Relaxed);
        }
        add_single_writer(&pending.time, weight * elapsed);
        add_single_writer(&pending.calls, weight);
        add_single_writer(&pending.seen, 1);
    }

    /// Returns the key that an entry and an exit must share to be paired.
    #[inline(always)]
    fn key(&self, mode: u32, generation: u32) -> u64 {
        let era = if mode & ALWAYS != 0 { mode } else { self.window.number.load(Relaxed) };
        u64::from(era) << 32 | u64::from(generation)
    }

    /// Returns whether the exit of a call can still come, as of this hit.
    #[inline(always)]
    fn is_current(&self, frame: &TimedCall, hit: SampledCall) -> bool {
        let mode = self.modes[frame.function.load(Relaxed)].load(Relaxed);
        #[expect(clippy::cast_possible_truncation, reason = "the lower half")]
        let generation = hit.key as u32;
        self.key(mode, generation) == frame.key.load(Relaxed)
    }
}

/// The call of a hit.
#[derive(Clone, Copy)]
struct SampledCall {
    function: usize,
    mode: u32,
    key: u64,
    /// The stack pointer in C code; else 0.
    mark: usize,
    /// Whether it is the first hit of its function in this window on this thread.
    is_first: bool,
}

impl SampledCall {
    #[inline(always)]
    fn is_always(self) -> bool {
        self.mode & ALWAYS != 0
    }

    /// Returns the number of its function's mode, or of the window.
    fn era(self) -> u64 {
        self.key >> 32
    }
}

/// Adds the pending calls to the call that is always timed around them: no other call turned out to
/// be in between.
#[inline]
fn add_below(pending: &UnattributedCalls, parts: &[FunctionSums]) {
    let [time, calls, seen] = pending.take();
    if let Some(part) = parts.get(pending.owner.load(Relaxed)) {
        add_single_writer(&part.below, time);
        add_single_writer(&part.below_calls, calls);
        add_single_writer(&part.below_seen, seen);
    }
}
