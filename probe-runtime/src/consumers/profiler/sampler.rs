//! Handles the hits of the profiler: counts calls, and times them as the functions' modes and the
//! window say.
//!
//! While a function is only counted, the runtime counts it
//! ([`Switch::count`](crate::control::Switch::count)), and no hit comes here. A hit that comes here
//! counts its call, so each call is counted once. It also times the call if the function's
//! [`MeasureMode`] or an open window says so:
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
//! polls hold. The next poll or report [gives them
//! states](super::controller::Controller::add_functions).
//!
//! Cost of a timed call: two readings of the clock, and a frame on its thread's stack. A hit takes
//! no lock, executes no locked instruction, allocates nothing and makes no system call.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU32, AtomicU64};

use super::rebalance::MeasureMode;
use super::thread_state::{FunctionSums, FunctionTotals, ThreadStack, TimedCall, UnattributedCalls};
use super::time::{Counter, Ticks, TimeSource};
use crate::engine::by_probe::Appended;
use crate::engine::calls::{
    self, AttachedFunctions, CallEffect, Function, LeftOut, PackedAction, add_single_writer,
};
use crate::engine::control::{ProbeSet, Switch};
use crate::engine::dispatch::Event;
use crate::engine::error::Error;
use crate::engine::per_thread::{Local, PerThread};
use crate::engine::registry::ProbeId;
use probe_core::pairing::{CallKind, Place};
use probe_report::source::Since;

/// The low bit of a mode's number: whether each call is timed.
const TIMED_BIT: u32 = 1;

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
struct Window {
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
    fn span(&self) -> (u64, u64) {
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
    window: Window,
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
    pub(super) fn for_rehearsal(time: TimeSource) -> Result<Self, Error> {
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

    /// Opens a window: it begins in `delay` ticks and takes `length` ticks. Each of its calls
    /// stands for `weight` calls.
    pub(super) fn open(&self, delay: u64, length: u64, weight: u64) {
        let begin = self.time.now().saturating_add(delay);
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

/// A hit of a timed call: its function, and a number that no other call has that is being timed on
/// its thread (less than [`MAX_TIMED_CALLS`](super::thread_state::MAX_TIMED_CALLS)).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::consumers) enum Timed {
    /// The call begins.
    Began(usize, usize),
    /// The call has ended.
    Ended(usize, usize),
}

impl Sampler {
    /// Handles a hit. Returns whether it is one of a timed call.
    #[inline(always)]
    pub(super) fn sample(&self, event: &Event<'_>) -> Option<Timed> {
        let act = self.act(event.probe());
        if !is_of_call(act) {
            return None;
        }
        let local = self.memory.of(event)?;
        let mut call = self.sampled_call(event, act)?;
        if !act.is_among(&[CallEffect::Begin, CallEffect::End])
            && let Some(future) = event.future()
        {
            call.place.kind = CallKind::Poll(future as u64);
        }
        local.head().claim(local.thread());
        self.sample_on::<false>(local, act, call, self.time)
    }

    /// Does the same for a hit without surprises; for others it changes nothing and returns
    /// `false`. The time must be the processor's counter.
    #[inline(always)]
    pub(super) fn sample_quickly(&self, event: &Event<'_>) -> bool {
        let act = self.act(event.probe());
        if !act.is_among(&[CallEffect::Begin, CallEffect::End]) {
            return !is_of_call(act);
        }
        let (Some(local), Some(call)) = (self.memory.known(event), self.sampled_call(event, act)) else {
            return false;
        };
        let is_plain = local.head().is_plain(call.place, call.key, local.thread(), begins(act));
        if is_plain {
            let _ = self.sample_on::<true>(local, act, call, Counter);
        }
        is_plain
    }

    /// Returns the call that a hit belongs to.
    #[inline(always)]
    fn sampled_call(&self, event: &Event<'_>, act: PackedAction) -> Option<SampledCall> {
        let function = act.function() as usize;
        let mode = self.modes.get(function)?.load(Acquire);
        let (key, place) = (self.key(mode, event.generation()), calls::place(event, act.function()));
        Some(SampledCall { function, mode, key, place, is_first: false })
    }

    /// Handles a hit on this thread. If `PLAIN`, it must be [plain](ThreadStack::is_plain): then it
    /// calls no function but those of this module.
    #[inline(always)]
    fn sample_on<const PLAIN: bool>(
        &self,
        local: Local<'_, ThreadStack, FunctionSums>,
        act: PackedAction,
        call: SampledCall,
        time: impl Ticks,
    ) -> Option<Timed> {
        let SampledCall { function, key, place, .. } = call;
        let (head, part) = (local.head(), local.parts().get(function)?);
        add_single_writer(&head.hits, 1);
        let is_new = part.claim(key, local.thread());
        let call =
            SampledCall { is_first: is_new && !call.is_always_timed() && self.window.span().1 != 0, ..call };
        if begins(act) {
            if !PLAIN {
                head.drop_abandoned(place, key, true);
            }
            add_single_writer(&part.delivered, 1);
            add_single_writer(&part.resumed, u64::from(act.is(CallEffect::Resume)));
            if call.is_first {
                part.hit_window(0);
            }
            self.begin(call, head, part, time).map(|slot| Timed::Began(function, slot))
        } else {
            self.end::<PLAIN>(call, part, local, time).map(|slot| Timed::Ended(function, slot))
        }
    }

    #[inline(always)]
    fn begin(
        &self,
        call: SampledCall,
        head: &ThreadStack,
        part: &FunctionSums,
        time: impl Ticks,
    ) -> Option<usize> {
        let is_settled = !call.key.is_multiple_of(2);
        let (begin, deadline) = if call.is_always_timed() { (0, u64::MAX) } else { self.window.span() };
        let may_begin = is_settled && deadline != 0;
        let mut is_late = false;
        if may_begin && head.free_frame().is_none() {
            head.drop_while(|frame| !self.is_current(frame, call));
        }
        if let Some((slot, frame)) = head.free_frame().filter(|_| may_begin) {
            let untimed = part.untimed.load(Relaxed);
            frame.set(call.place, call.key, head.hits.load(Relaxed), untimed);
            let is_nested = untimed != 0 || head.has(call.place.function, call.key);
            // As late as possible: the work above is not part of the call.
            let now = time.now_in_order();
            if begin <= now && now < deadline {
                frame.start.store(now, Relaxed);
                add_single_writer(&part.begun, 1);
                add_single_writer(&part.nested, u64::from(is_nested));
                head.push(slot);
                return Some(slot);
            }
            is_late = now >= deadline;
        }
        if call.is_framed() {
            // Nothing in the window is inside of a call that begins after it.
            part.begin_untimed_at(if is_late { call.place.stack_pointer } else { 0 });
        } else {
            part.begin_untimed(call.place.stack_pointer);
        }
        None
    }

    #[inline(always)]
    fn end<const PLAIN: bool>(
        &self,
        call: SampledCall,
        part: &FunctionSums,
        local: Local<'_, ThreadStack, FunctionSums>,
        time: impl Ticks,
    ) -> Option<usize> {
        let head = local.head();
        let found = if PLAIN { head.innermost() } else { head.find(call.place, call.key) };
        // Among a timed call and untimed calls of one stack, the one that began last ends first.
        let is_innermost = |frame: &TimedCall| {
            call.is_framed()
                || frame.untimed.load(Relaxed) == part.untimed.load(Relaxed)
                || part.is_untimed_elsewhere(call.place.stack_pointer)
        };
        if let Some((index, frame)) = found.filter(|(_, frame)| is_innermost(frame)) {
            let now = time.now();
            let slot = if PLAIN { head.remove_innermost(index) } else { head.remove(index, call.place) };
            self.end_timed(call, index, frame, now, local, part);
            return Some(slot);
        }
        if !PLAIN {
            head.drop_abandoned(call.place, call.key, false);
        }
        let began_before = if call.is_framed() {
            !part.end_untimed_at(call.place.stack_pointer)
        } else {
            !part.end_untimed()
        };
        let (begin, deadline) = self.window.span();
        if call.is_always_timed() {
            if began_before && !call.is_framed() {
                let since = self.since[call.function].load(Relaxed);
                add_single_writer(&part.spanned, time.now().saturating_sub(since));
            }
        } else if deadline != 0 {
            let now = time.now();
            if call.is_first {
                part.hit_window(now.saturating_sub(begin));
            }
            if began_before || now < deadline {
                // The call began before the window, so the calls that the window timed inside of it
                // must not count for its caller.
                head.pending.drop_of(call.mode_or_window());
            }
        }
        None
    }

    #[inline(never)]
    fn end_timed(
        &self,
        call: SampledCall,
        index: usize,
        frame: &TimedCall,
        now: u64,
        local: Local<'_, ThreadStack, FunctionSums>,
        part: &FunctionSums,
    ) {
        let head = local.head();
        let elapsed = now.saturating_sub(frame.start.load(Relaxed));
        // Without the call's own exit.
        let hits = head.hits.load(Relaxed).wrapping_sub(frame.hits.load(Relaxed)).wrapping_sub(1);
        part.end_timed(elapsed, hits, !call.is_always_timed());
        let (begin, deadline) = self.window.span();
        let (inner, calls) = (frame.inner.load(Relaxed), frame.calls.load(Relaxed));
        let end_whole = |weight: u64| {
            add_single_writer(&part.whole, weight);
            add_single_writer(&part.own, weight * elapsed.saturating_sub(inner));
            add_single_writer(&part.inside, weight * calls);
        };
        let weight = self.window.weight.load(Relaxed);
        if call.is_always_timed() {
            attribute_pending(&head.pending, local.parts());
            end_whole(1);
        } else if now < deadline {
            // The longer a call, the less likely it fits a window.
            let length = deadline.saturating_sub(begin);
            let left = length.saturating_sub(elapsed).max(length / 8).max(1);
            end_whole(weight.saturating_mul(length) / left);
        }
        let Some(outer) = head.caller(frame, index, |it| self.is_current(it, call)) else { return };
        if call.is_always_timed() || outer.key.load(Relaxed) >> 32 & u64::from(TIMED_BIT) == 0 {
            add_single_writer(&outer.inner, elapsed);
            add_single_writer(&outer.calls, 1);
            return;
        }
        let (pending, owner) = (&head.pending, outer.function());
        if pending.owner.load(Relaxed) != owner || pending.window.load(Relaxed) != call.mode_or_window() {
            attribute_pending(pending, local.parts());
            pending.owner.store(owner, Relaxed);
            pending.window.store(call.mode_or_window(), Relaxed);
        }
        add_single_writer(&pending.time, weight * elapsed);
        add_single_writer(&pending.calls, weight);
        add_single_writer(&pending.seen, 1);
    }

    /// Returns the key that an entry and an exit must share to be paired.
    #[inline(always)]
    fn key(&self, mode: u32, generation: u32) -> u64 {
        let mode_or_window = if mode & TIMED_BIT != 0 { mode } else { self.window.number.load(Relaxed) };
        u64::from(mode_or_window) << 32 | u64::from(generation)
    }

    /// Returns whether the exit of a call can still come, as of this hit.
    #[inline(always)]
    fn is_current(&self, frame: &TimedCall, hit: SampledCall) -> bool {
        let mode = self.modes[frame.function()].load(Relaxed);
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
    place: Place,
    /// Whether it is the first hit of its function in this window on this thread.
    is_first: bool,
}

impl SampledCall {
    #[inline(always)]
    fn is_always_timed(self) -> bool {
        self.mode & TIMED_BIT != 0
    }

    /// Returns whether the stack pointer tells the call from all others of its function. Then those
    /// that are not timed need not be counted.
    #[inline(always)]
    fn is_framed(self) -> bool {
        self.place.kind == CallKind::Framed && self.place.stack_pointer != 0
    }

    /// Returns the number of its function's mode, or of the window.
    fn mode_or_window(self) -> u64 {
        self.key >> 32
    }
}

/// Adds the pending calls to the call that is always timed around them: no other call turned out to
/// be in between.
#[inline]
fn attribute_pending(pending: &UnattributedCalls, parts: &[FunctionSums]) {
    let (time, calls, seen) = pending.take();
    if let Some(part) = parts.get(pending.owner.load(Relaxed)) {
        add_single_writer(&part.sampled_inner, time);
        add_single_writer(&part.sampled_inner_calls, calls);
        add_single_writer(&part.sampled_inner_seen, seen);
    }
}
