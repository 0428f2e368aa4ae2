//! Hits of the profiler.
//!
//! While a function is only counted, the runtime does so ([`Switch::count`](crate::Switch::count)),
//! and no hit comes here. A hit that comes here counts its call, so that each is counted once, and
//! times it, if the function's [`Mode`] or an open window says so:
//!
//! ```text
//! mode       between windows          in a window: [begin, deadline)    before, and up to its end
//! Timed      each call is timed
//! Counted    the runtime counts       timed                             only paired
//! Sampled    latent                   timed                             only paired
//! ```
//! (Before that, the runtime counts for a while what is `Sampled`.)
//! A window is closed by the clock: whether a call is timed depends on nothing but when it began.
//! Entries and exits stay active for as long again, so that it can end.
//!
//! All data is the thread's own: no lock, no locked instruction. The clock is read for timed calls,
//! once at each end, and at exits that belong to none.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU32, AtomicU64};

use super::part::{Part, Seen};
use super::plan::Mode;
#[cfg(feature = "perf")]
pub(in crate::consumers) use super::stack::DEPTH;
use super::stack::{Frame, Head, Pending};
use super::time::Time;
use crate::calls::{Act, Selected, Step, add};
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

/// The probes of a function whose hits are of calls: those where calls, or polls, begin are first.
#[derive(Clone, Default, Debug)]
struct Probes {
    all: Vec<ProbeId>,
    beginning: usize,
}

/// Whether a call or a poll begins; otherwise one ends.
#[inline(always)]
pub(super) fn begins(step: Step) -> bool {
    matches!(step, Step::Begin | Step::Enter | Step::Resume)
}

/// Whether a call or a poll begins or ends. Dropping a future is neither; its probe stays off, as
/// points do.
#[inline(always)]
fn is_of_call(step: Step) -> bool {
    !matches!(step, Step::Nothing | Step::Cancel)
}

/// The window in which functions are timed that are not always.
#[derive(Default)]
struct Window {
    /// Its number; even.
    number: AtomicU32,
    /// Calls that begin in between are timed, in ticks.
    begin: AtomicU64,
    deadline: AtomicU64,
    /// How many calls each of them stands for.
    weight: AtomicU64,
}

impl Window {
    #[inline(always)]
    fn span(&self) -> (u64, u64) {
        // In this order: where the deadline is another window's, so may the beginning be.
        let deadline = self.deadline.load(Acquire);
        (self.begin.load(Relaxed), deadline)
    }
}

/// Samples the hits of the functions of a selection.
pub(super) struct Sampler {
    pub(super) selected: Selected,
    /// Of each function.
    probes: Vec<Probes>,
    /// Of each function: changes with its mode.
    modes: Vec<AtomicU32>,
    /// Since when each is timed.
    since: Vec<AtomicU64>,
    window: Window,
    pub(super) memory: PerThread<Head, Part>,
    time: Time,
    pub(super) made: Since,
}

impl Sampler {
    pub(super) fn new(probes: &ProbeSet, time: Time) -> Result<Self, Error> {
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

    /// A sampler of a single function, with the entry as probe 0 and the exit as probe 1.
    pub(super) fn rehearsed(time: Time) -> Result<Self, Error> {
        Self::of(Selected::rehearsed(), vec![Probes::default()], time)
    }

    fn of(selected: Selected, probes: Vec<Probes>, time: Time) -> Result<Self, Error> {
        let functions = selected.functions.len();
        let modes = (0..functions).map(|_| AtomicU32::new(0)).collect();
        let since = (0..functions).map(|_| AtomicU64::new(0)).collect();
        let (window, memory) = (Window::default(), PerThread::new(functions)?);
        Ok(Self { selected, probes, modes, since, window, memory, time, made: Since::now() })
    }

    /// A function's probes where calls begin, and the others.
    pub(super) fn probes(&self, function: usize) -> (&[ProbeId], &[ProbeId]) {
        let Probes { all, beginning, .. } = &self.probes[function];
        all.split_at(*beginning)
    }

    /// The probes of these functions where calls begin.
    pub(super) fn entries(&self, functions: &[usize]) -> Vec<ProbeId> {
        functions.iter().flat_map(|function| self.probes(*function).0).copied().collect()
    }

    /// One of these of each function.
    pub(super) fn first_entries(&self) -> Vec<ProbeId> {
        self.probes.iter().filter_map(|probes| probes.all.first().copied()).collect()
    }

    /// The others of these functions.
    pub(super) fn exits(&self, functions: &[usize]) -> Vec<ProbeId> {
        functions.iter().flat_map(|function| self.probes(*function).1).copied().collect()
    }

    /// What a hit of a probe means.
    pub(super) fn step(&self, probe: ProbeId) -> Step {
        self.selected.acts.get(probe.index()).map_or(Step::Nothing, |act| act.step)
    }

    /// A function's mode from here on. Called by one thread at a time, as all that changes
    /// something here.
    pub(super) fn set_mode(&self, function: usize, mode: Mode) {
        let low = if mode == Mode::Timed { ALWAYS } else { 0 };
        let last = self.modes[function].load(Relaxed);
        if last & ALWAYS != low {
            self.since[function].store(self.time.now(), Relaxed);
            self.modes[function].store((last | ALWAYS).wrapping_add(1) | low, Release);
        }
    }

    /// Opens a window of so many ticks, in so many ticks, each call of which stands for `weight`.
    pub(super) fn open(&self, soon: u64, length: u64, weight: u64) {
        let begin = self.time.now().saturating_add(soon);
        self.window.weight.store(weight, Relaxed);
        self.window.begin.store(begin, Relaxed);
        self.window.number.fetch_add(2, Relaxed);
        self.window.deadline.store(begin.saturating_add(length), Release);
    }

    /// Closes it. Its functions' sites are about to be switched.
    pub(super) fn close(&self) {
        self.window.deadline.store(0, Relaxed);
    }

    /// Hits that were delivered, and calls that were timed, on all threads.
    #[expect(clippy::cast_precision_loss, reason = "far fewer than 2^52")]
    pub(super) fn totals(&self) -> [f64; 2] {
        self.memory.iter().fold([0.0; 2], |[hits, timed], local| {
            let head = local.head();
            [hits + head.hits.load(Relaxed) as f64, timed + head.timed.load(Relaxed) as f64]
        })
    }

    /// Returns a function that sums up one function's delivered hits over all threads. A tick is
    /// `scale` nanoseconds.
    pub(super) fn seen(&self, scale: f64) -> impl Fn(usize) -> Seen + use<'_> {
        // Once: slots lie so far apart that their heads share a line of the caches.
        let threads: Vec<_> = self.memory.iter().collect();
        move |function| {
            let mut seen = Seen::default();
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
        add(&head.hits, 1);
        let mode = self.modes.get(function)?.load(Acquire);
        let key = self.key(mode, event.generation());
        let is_first =
            part.belongs_to(key, local.thread()) && mode & ALWAYS == 0 && self.window.span().1 != 0;
        head.belongs_to(local.thread());
        let mark = if event.may_skip_exit() && event.has_frame() { event.stack_pointer() } else { None };
        if let Some(stack_pointer) = mark {
            head.drop_dead(stack_pointer, begins(step));
        }
        let call = Call { function, mode, key, mark: mark.unwrap_or_default(), is_first };
        if begins(step) {
            add(&part.delivered, 1);
            add(&part.resumed, u64::from(step == Step::Resume));
            if is_first {
                part.hit_window(0);
            }
            self.begin(call, head, part).map(|depth| Timed::Began(function, depth))
        } else {
            self.end(call, head, part, local).map(|depth| Timed::Ended(function, depth))
        }
    }

    #[inline(always)]
    fn begin(&self, call: Call, head: &Head, part: &Part) -> Option<usize> {
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
            // As late as possible: the work before is not the call's.
            let now = self.time.now_in_order();
            if begin <= now && now < deadline {
                frame.start.store(now, Relaxed);
                add(&part.begun, 1);
                add(&part.nested, u64::from(is_nested));
                head.push();
                return Some(depth);
            }
        }
        // The stack pointer tells the exits of others.
        if call.mark == 0 {
            add(&part.untimed, 1);
        }
        None
    }

    #[inline(always)]
    fn end(&self, call: Call, head: &Head, part: &Part, local: Local<'_, Head, Part>) -> Option<usize> {
        let found = head.find(call.function, call.key, call.mark);
        // Of a timed call and others, those end first that began after it.
        let is_innermost =
            |frame: &Frame| call.mark != 0 || frame.untimed.load(Relaxed) == part.untimed.load(Relaxed);
        if let Some((depth, frame)) = found.filter(|(_, frame)| is_innermost(frame)) {
            let now = self.time.now();
            head.cut(depth);
            self.end_timed(call, frame, now, local, part);
            return Some(depth);
        }
        // In C code, calls that are not timed are not counted, either: the stack pointer tells.
        let began_before = !part.end_untimed() && call.mark == 0;
        let (begin, deadline) = self.window.span();
        if call.is_always() {
            if began_before {
                let since = self.since[call.function].load(Relaxed);
                add(&part.spanned, self.time.now().saturating_sub(since));
            }
        } else if deadline != 0 {
            let now = self.time.now();
            if call.is_first {
                part.hit_window(now.saturating_sub(begin));
            }
            if began_before || call.mark != 0 || now < deadline {
                // It began before the window: what was timed in it is none of who is around it.
                head.pending.drop_of(call.era());
            }
        }
        None
    }

    #[inline(never)]
    fn end_timed(&self, call: Call, frame: &Frame, now: u64, local: Local<'_, Head, Part>, part: &Part) {
        let head = local.head();
        let elapsed = now.saturating_sub(frame.start.load(Relaxed));
        // Without the call's own exit.
        let hits = head.hits.load(Relaxed).wrapping_sub(frame.hits.load(Relaxed)).wrapping_sub(1);
        part.end_timed(elapsed, hits, !call.is_always());
        let (begin, deadline) = self.window.span();
        let (inner, calls) = (frame.inner.load(Relaxed), frame.calls.load(Relaxed));
        let end_whole = |weight: u64| {
            add(&part.whole, weight);
            add(&part.own, weight * elapsed.saturating_sub(inner));
            add(&part.inside, weight * calls);
        };
        let weight = self.window.weight.load(Relaxed);
        if call.is_always() {
            add_below(&head.pending, local.parts());
            end_whole(1);
        } else if now < deadline {
            // The longer a call, the fewer are whole in a window.
            let length = deadline.saturating_sub(begin);
            let left = length.saturating_sub(elapsed).max(length / 8).max(1);
            end_whole(weight.saturating_mul(length) / left);
        }
        let Some(outer) = head.drop_while(|frame| !self.is_current(frame, call)) else { return };
        if call.is_always() || outer.key.load(Relaxed) >> 32 & u64::from(ALWAYS) == 0 {
            add(&outer.inner, elapsed);
            add(&outer.calls, 1);
            return;
        }
        let (pending, owner) = (&head.pending, outer.function.load(Relaxed));
        if pending.owner.load(Relaxed) != owner || pending.window.load(Relaxed) != call.era() {
            add_below(pending, local.parts());
            pending.owner.store(owner, Relaxed);
            pending.window.store(call.era(), Relaxed);
        }
        add(&pending.time, weight * elapsed);
        add(&pending.calls, weight);
        add(&pending.seen, 1);
    }

    /// What calls have in common that can be paired.
    #[inline(always)]
    fn key(&self, mode: u32, generation: u32) -> u64 {
        let era = if mode & ALWAYS != 0 { mode } else { self.window.number.load(Relaxed) };
        u64::from(era) << 32 | u64::from(generation)
    }

    /// Whether the exit of a call can still come, as of a hit.
    #[inline(always)]
    fn is_current(&self, frame: &Frame, hit: Call) -> bool {
        let mode = self.modes[frame.function.load(Relaxed)].load(Relaxed);
        #[expect(clippy::cast_possible_truncation, reason = "the lower half")]
        let generation = hit.key as u32;
        self.key(mode, generation) == frame.key.load(Relaxed)
    }
}

/// A hit's call.
#[derive(Clone, Copy)]
struct Call {
    function: usize,
    mode: u32,
    key: u64,
    /// In C code: the stack pointer; else 0.
    mark: usize,
    /// Of its function in this window, on this thread.
    is_first: bool,
}

impl Call {
    #[inline(always)]
    fn is_always(self) -> bool {
        self.mode & ALWAYS != 0
    }

    /// Its function's mode, or the window.
    fn era(self) -> u64 {
        self.key >> 32
    }
}

/// Nobody turned out to be between these calls and the one that is always timed.
#[inline]
fn add_below(pending: &Pending, parts: &[Part]) {
    let [time, calls, seen] = pending.take();
    if let Some(part) = parts.get(pending.owner.load(Relaxed)) {
        add(&part.below, time);
        add(&part.below_calls, calls);
        add(&part.below_seen, seen);
    }
}
