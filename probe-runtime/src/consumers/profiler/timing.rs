//! Handles the hits of the profiler: counts calls, and times them as the [sampler](Sampler)'s modes
//! and its window say.
//!
//! Cost of a timed call: two readings of the clock, and a frame on its thread's stack. A hit takes
//! no lock, executes no locked instruction, allocates nothing and makes no system call.

use std::sync::atomic::Ordering::{Acquire, Relaxed};

use super::part::FunctionSums;
use super::sampler::{Sampler, TIMED_BIT, begins, is_of_call};
use super::stack::{ThreadStack, TimedCall, UnattributedCalls};
use super::time::{Counter, Ticks};
use crate::engine::calls::{self, CallEffect, PackedAction, add_single_writer};
use crate::engine::dispatch::Event;
use crate::engine::per_thread::Local;
use probe_core::pairing::{CallKind, Place};

/// A hit of a timed call: its function, and a number that no other call has that is being timed on
/// its thread (less than [`MAX_TIMED_CALLS`](super::stack::MAX_TIMED_CALLS)).
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
        let mut call = self.call(event, act)?;
        if !act.is_among(&[CallEffect::Begin, CallEffect::End])
            && let Some(future) = event.future()
        {
            call.place.kind = CallKind::Poll(future as u64);
        }
        local.head().belongs_to(local.thread());
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
        let (Some(local), Some(call)) = (self.memory.known(event), self.call(event, act)) else {
            return false;
        };
        let is_plain = local.head().is_plain(call.place, call.key, local.thread(), begins(act));
        if is_plain {
            let _ = self.sample_on::<true>(local, act, call, Counter);
        }
        is_plain
    }

    /// Returns what a hit tells of its call.
    #[inline(always)]
    fn call(&self, event: &Event<'_>, act: PackedAction) -> Option<SampledCall> {
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
        let is_new = part.belongs_to(key, local.thread());
        let call = SampledCall { is_first: is_new && !call.is_always() && self.window.span().1 != 0, ..call };
        if begins(act) {
            if !PLAIN {
                head.drop_left(place, key, true);
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
        let (begin, deadline) = if call.is_always() { (0, u64::MAX) } else { self.window.span() };
        let may_begin = is_settled && deadline != 0;
        let mut is_late = false;
        if may_begin && head.room().is_none() {
            head.drop_while(|frame| !self.is_current(frame, call));
        }
        if let Some((slot, frame)) = head.room().filter(|_| may_begin) {
            let untimed = part.untimed.load(Relaxed);
            frame.note(call.place, call.key, head.hits.load(Relaxed), untimed);
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
            let slot = if PLAIN { head.take_innermost(index) } else { head.take(index, call.place) };
            self.end_timed(call, index, frame, now, local, part);
            return Some(slot);
        }
        if !PLAIN {
            head.drop_left(call.place, call.key, false);
        }
        let began_before = if call.is_framed() {
            !part.end_untimed_at(call.place.stack_pointer)
        } else {
            !part.end_untimed()
        };
        let (begin, deadline) = self.window.span();
        if call.is_always() {
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
                head.pending.drop_of(call.era());
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
        let Some(outer) = head.around(frame, index, |it| self.is_current(it, call)) else { return };
        if call.is_always() || outer.key.load(Relaxed) >> 32 & u64::from(TIMED_BIT) == 0 {
            add_single_writer(&outer.inner, elapsed);
            add_single_writer(&outer.calls, 1);
            return;
        }
        let (pending, owner) = (&head.pending, outer.function());
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
        let era = if mode & TIMED_BIT != 0 { mode } else { self.window.number.load(Relaxed) };
        u64::from(era) << 32 | u64::from(generation)
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
    fn is_always(self) -> bool {
        self.mode & TIMED_BIT != 0
    }

    /// Returns whether the stack pointer tells the call from all others of its function. Then those
    /// that are not timed need not be counted.
    #[inline(always)]
    fn is_framed(self) -> bool {
        self.place.kind == CallKind::Framed && self.place.stack_pointer != 0
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
    let (time, calls, seen) = pending.take();
    if let Some(part) = parts.get(pending.owner.load(Relaxed)) {
        add_single_writer(&part.below, time);
        add_single_writer(&part.below_calls, calls);
        add_single_writer(&part.below_seen, seen);
    }
}
