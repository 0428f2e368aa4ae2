//! The state of one thread: the calls that it is timing, and its sums of each function. Only the
//! thread writes them. Other threads may read the sums.
//!
//! The calls are a stack, the innermost last. Life cycle: zeroed at the thread's first hit; a call
//! is pushed at its entry and taken out at its exit, as [the rule of pairing](pairing) says. A call
//! is *current* while its function's mode or its window lasts; otherwise it has lost its exit, and
//! is dropped by the next hit that finds it. Cost: 5 KiB for each thread.

// Safety: relies on zeroes being an empty stack, and sums of no call.
#![expect(unsafe_code, reason = "see above")]

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU8, AtomicU64, AtomicUsize};

use crate::engine::calls::{self, BASE, PASSED_BY, add_single_writer, goes_on_after, place_of, surely_fits};
use crate::engine::per_thread::Zeroed;
use probe_core::pairing::{self, CallKind, MAX_FRAME_BYTES, OpenCalls, Place};

/// The number of calls that a thread times at once. Deeper calls are only counted.
pub(in crate::consumers) const MAX_TIMED_CALLS: usize = u64::BITS as usize;

/// The data of a thread for all functions.
#[repr(C)]
pub(super) struct ThreadStack {
    /// The number of hits that were delivered, and of calls that were timed.
    pub(super) hits: AtomicU64,
    pub(super) timed: AtomicU64,
    thread: AtomicU64,
    /// The number of calls; the numbers of their frames, the innermost last; and the frames in use,
    /// a bit for each.
    len: AtomicUsize,
    order: [AtomicU8; MAX_TIMED_CALLS],
    used: AtomicU64,
    pub(super) pending: UnattributedCalls,
    frames: [TimedCall; MAX_TIMED_CALLS],
}

// SAFETY: atomics only.
unsafe impl Zeroed for ThreadStack {}

/// Calls of a window whose caller is not known yet: either the caller began before the window and
/// ends in it, or it is the call around them that is always timed.
#[repr(C)]
pub(super) struct UnattributedCalls {
    pub(super) owner: AtomicUsize,
    pub(super) window: AtomicU64,
    pub(super) time: AtomicU64,
    pub(super) calls: AtomicU64,
    /// The unweighted number of these calls.
    pub(super) seen: AtomicU64,
}

/// A call that is being timed.
#[repr(C)]
pub(super) struct TimedCall {
    /// The function and its kind, and whether the call below is not of the caller.
    call_key: AtomicU64,
    /// Tells whether the call is current.
    pub(super) key: AtomicU64,
    pub(super) start: AtomicU64,
    /// The thread's hits at the beginning of the call.
    pub(super) hits: AtomicU64,
    /// The timed calls directly inside, and their time.
    pub(super) calls: AtomicU64,
    pub(super) inner: AtomicU64,
    /// The function's untimed calls that were under way at the beginning.
    pub(super) untimed: AtomicU64,
    stack_pointer: AtomicU64,
    /// The address of a poll's future.
    future: AtomicU64,
}

/// A thread's stack, as a hit of this function and key sees it.
struct CallsOfKey<'a> {
    stack: &'a ThreadStack,
    function: u32,
    key: u64,
}

impl OpenCalls for CallsOfKey<'_> {
    fn count(&self) -> usize {
        self.stack.len.load(Relaxed)
    }

    fn call(&self, index: usize) -> Place {
        let frame = self.stack.at(index);
        let place = frame.place();
        if place.function == self.function && frame.key.load(Relaxed) != self.key {
            return PASSED_BY;
        }
        place
    }
}

impl ThreadStack {
    /// Gives the stack to this thread: forgets the calls of another one.
    #[inline(always)]
    pub(super) fn claim(&self, thread: u64) {
        if self.thread.load(Relaxed) != thread {
            self.thread.store(thread, Relaxed);
            self.truncate(0);
            self.pending.take();
        }
    }

    /// Returns a call, the outermost first.
    #[inline(always)]
    fn at(&self, index: usize) -> &TimedCall {
        &self.frames[usize::from(self.order[index % MAX_TIMED_CALLS].load(Relaxed)) % MAX_TIMED_CALLS]
    }

    #[inline(always)]
    fn top(&self) -> Option<&TimedCall> {
        self.innermost().map(|(_, call)| call)
    }

    /// Drops all calls but this number of the outermost ones.
    #[inline(always)]
    fn truncate(&self, keep: usize) {
        while let Some(last) = self.len.load(Relaxed).checked_sub(1).filter(|last| *last >= keep) {
            self.pop(last);
        }
    }

    /// Drops the innermost call, which is at this index.
    #[inline(always)]
    fn pop(&self, last: usize) {
        let slot = self.order[last % MAX_TIMED_CALLS].load(Relaxed);
        self.used.store(self.used.load(Relaxed) & !(1 << (slot % 64)), Relaxed);
        self.len.store(last, Relaxed);
    }

    /// Drops the innermost calls for which `is_over` holds; returns the innermost remaining call.
    #[inline(always)]
    pub(super) fn drop_while(&self, is_over: impl Fn(&TimedCall) -> bool) -> Option<&TimedCall> {
        loop {
            let last = self.len.load(Relaxed).checked_sub(1)?;
            let top = self.at(last);
            if !is_over(top) {
                return Some(top);
            }
            self.pop(last);
        }
    }

    /// Drops calls that are over according to the stack pointer of an entry, or of an exit that has
    /// no entry, although their exit was not seen.
    #[inline(always)]
    pub(super) fn drop_abandoned(&self, hit: Place, key: u64, begins: bool) {
        if !self.is_surely_open(hit, begins) {
            self.drop_abandoned_slowly(hit, key, begins);
        }
    }

    /// Returns whether the innermost call is open for sure. Then so are those around it.
    #[inline(always)]
    fn is_surely_open(&self, hit: Place, begins: bool) -> bool {
        self.top().is_none_or(|top| {
            let at = top.stack_pointer.load(Relaxed);
            at != 0 && (at > hit.stack_pointer || (!begins && at == hit.stack_pointer))
        })
    }

    /// Returns whether a hit of this thread begins a call inside of those that are being timed, or
    /// ends the innermost one, or whether no call is timed. `key` is that of the hit.
    #[inline(always)]
    pub(super) fn is_plain(&self, hit: Place, key: u64, thread: u64, begins: bool) -> bool {
        self.thread.load(Relaxed) == thread
            && match self.top() {
                None => true,
                Some(_) if begins => self.used.load(Relaxed) != u64::MAX && self.is_surely_open(hit, true),
                Some(top) => top.is_ended_by(hit, key) && self.is_surely_open(hit, false),
            }
    }

    /// Returns the innermost call, and its index.
    #[inline(always)]
    pub(super) fn innermost(&self) -> Option<(usize, &TimedCall)> {
        let last = self.len.load(Relaxed).checked_sub(1)?;
        Some((last, self.at(last)))
    }

    #[inline(never)]
    fn drop_abandoned_slowly(&self, hit: Place, key: u64, begins: bool) {
        let open = CallsOfKey { stack: self, function: hit.function, key };
        let open_at = if begins { pairing::open_at_entry } else { pairing::open_at_exit };
        self.truncate(open_at(&open, hit));
    }

    /// Returns the frame for the next call, with its number. The call is on the stack after
    /// [`push`](Self::push).
    #[inline(always)]
    pub(super) fn free_frame(&self) -> Option<(usize, &TimedCall)> {
        let slot = self.used.load(Relaxed).trailing_ones() as usize;
        Some((slot, self.frames.get(slot)?))
    }

    #[inline(always)]
    pub(super) fn push(&self, slot: usize) {
        let len = self.len.load(Relaxed);
        #[expect(clippy::cast_possible_truncation, reason = "less than `MAX_TIMED_CALLS`")]
        self.order[len % MAX_TIMED_CALLS].store(slot as u8, Relaxed);
        self.used.store(self.used.load(Relaxed) | 1 << (slot % MAX_TIMED_CALLS), Relaxed);
        self.len.store(len + 1, Relaxed);
        add_single_writer(&self.timed, 1);
    }

    /// Returns whether there is a call of this function and key.
    #[inline(always)]
    pub(super) fn has(&self, function: u32, key: u64) -> bool {
        let mut all = (0..self.len.load(Relaxed)).map(|index| self.at(index));
        all.any(|it| it.key.load(Relaxed) == key && it.function() == function as usize)
    }

    /// Finds the call that an exit of this key ends. Returns its index, too.
    #[inline(always)]
    pub(super) fn find(&self, exit: Place, key: u64) -> Option<(usize, &TimedCall)> {
        let (last, top) = self.innermost()?;
        if top.is_ended_by(exit, key) { Some((last, top)) } else { self.find_slowly(exit, key) }
    }

    #[inline(never)]
    fn find_slowly(&self, exit: Place, key: u64) -> Option<(usize, &TimedCall)> {
        let index = pairing::match_exit(&CallsOfKey { stack: self, function: exit.function, key }, exit)?;
        Some((index, self.at(index)))
    }

    /// Takes out the call at this index, with those inside that were left. Calls on other stacks go
    /// on. Returns the number of its frame.
    #[inline(always)]
    pub(super) fn remove(&self, index: usize, exit: Place) -> usize {
        if index + 1 == self.len.load(Relaxed) {
            return self.remove_innermost(index);
        }
        let slot = self.order[index % MAX_TIMED_CALLS].load(Relaxed);
        self.remove_below(index, exit);
        slot.into()
    }

    /// Takes out the innermost call, which is at this index. Returns the number of its frame.
    #[inline(always)]
    pub(super) fn remove_innermost(&self, index: usize) -> usize {
        let slot = self.order[index % MAX_TIMED_CALLS].load(Relaxed);
        self.pop(index);
        slot.into()
    }

    #[inline(never)]
    fn remove_below(&self, index: usize, exit: Place) {
        for inner in (index..self.len.load(Relaxed)).rev() {
            if inner == index || !goes_on_after(self.at(inner).place(), exit) {
                let slot = self.order[inner % MAX_TIMED_CALLS].load(Relaxed);
                let order = self.order.get(inner..self.len.load(Relaxed)).unwrap_or_default();
                order.windows(2).for_each(|pair| pair[0].store(pair[1].load(Relaxed), Relaxed));
                if let Some(last) = order.last() {
                    last.store(slot, Relaxed);
                }
                self.pop(self.len.load(Relaxed) - 1);
            }
        }
        if index < self.len.load(Relaxed) {
            let above = &self.at(index).call_key;
            above.store(above.load(Relaxed) | BASE, Relaxed);
        }
    }

    /// Returns the call around one that was taken out at this index; `None` if its caller is not
    /// known. `is_current` says whether the exit of a call can still come.
    #[inline(always)]
    pub(super) fn caller(
        &self,
        call: &TimedCall,
        index: usize,
        is_current: impl Fn(&TimedCall) -> bool,
    ) -> Option<&TimedCall> {
        let outer = if self.len.load(Relaxed) <= index {
            self.drop_while(|it| !is_current(it))
        } else {
            (0..index).rev().map(|outer| self.at(outer)).find(|it| is_current(it))
        };
        outer.filter(|_| call.call_key.load(Relaxed) & BASE == 0)
    }
}

impl TimedCall {
    #[inline(always)]
    pub(super) fn set(&self, call: Place, key: u64, hits: u64, untimed: u64) {
        self.call_key.store(calls::key(call), Relaxed);
        self.key.store(key, Relaxed);
        self.hits.store(hits, Relaxed);
        self.calls.store(0, Relaxed);
        self.inner.store(0, Relaxed);
        self.untimed.store(untimed, Relaxed);
        self.stack_pointer.store(call.stack_pointer, Relaxed);
        if let CallKind::Poll(future) = call.kind {
            self.future.store(future, Relaxed);
        }
    }

    /// Returns whether an exit of this key surely ends the call, if it is the innermost one.
    #[inline(always)]
    fn is_ended_by(&self, exit: Place, key: u64) -> bool {
        let entered = self.stack_pointer.load(Relaxed);
        self.call_key.load(Relaxed) & !BASE == calls::key(exit)
            && self.key.load(Relaxed) == key
            && surely_fits(exit, entered, entered)
    }

    pub(super) fn function(&self) -> usize {
        #[expect(clippy::cast_possible_truncation, reason = "the lower half")]
        let function = self.call_key.load(Relaxed) as u32;
        function as usize
    }

    #[inline(always)]
    fn place(&self) -> Place {
        let of = |field: &AtomicU64| field.load(Relaxed);
        place_of(of(&self.call_key), of(&self.stack_pointer), of(&self.future))
    }
}

impl UnattributedCalls {
    /// Forgets the calls if they are of this window.
    #[inline(always)]
    pub(super) fn drop_of(&self, window: u64) {
        if self.window.load(Relaxed) == window {
            self.take();
        }
    }

    /// Takes the calls out: their time, the number of calls that they stand for, and their own
    /// number.
    #[inline(always)]
    pub(super) fn take(&self) -> (u64, u64, u64) {
        let taken = |it: &AtomicU64| {
            let taken = it.load(Relaxed);
            it.store(0, Relaxed);
            taken
        };
        (taken(&self.time), taken(&self.calls), taken(&self.seen))
    }
}

/// Declares the sums of a function: for each thread, and over all threads.
macro_rules! sums {
    ($($(#[$doc:meta])* $name:ident)*) => {
        /// One thread's sums of one function. Times in ticks, as they were measured.
        #[repr(C)]
        pub(super) struct FunctionSums {
            /// The mode or window, with the generation, to which `untimed` belongs; and the thread.
            key: AtomicU64,
            thread: AtomicU64,
            /// Calls under way that are not timed, and the stack pointer of the last that began.
            pub(super) untimed: AtomicU64,
            untimed_at: AtomicU64,
            /// Timed calls that have ended.
            ended: AtomicU64,
            /// The longest of the times that windows have measured.
            longest: AtomicU64,
            $($(#[$doc])* pub(super) $name: AtomicU64,)*
        }

        /// The sums of one function over all threads.
        #[derive(Clone, Copy, PartialEq, Default, Debug)]
        pub(super) struct FunctionTotals {
            /// Calls that began, and polls: counted by the runtime, or delivered.
            pub(super) calls: f64,
            /// Timed calls that have ended.
            pub(super) ended: f64,
            /// Threads on which windows were hit.
            pub(super) threads: f64,
            $($(#[$doc])* pub(super) $name: f64,)*
        }

        impl FunctionTotals {
            pub(super) fn add(&mut self, part: &FunctionSums) {
                if part.delivered.load(Relaxed) == 0 {
                    return;
                }
                // Read first: a call that counts as ended has a time, and was delivered.
                self.ended += part.ended.load(Acquire) as f64;
                self.threads += f64::from(u8::from(part.windows.load(Relaxed) != 0));
                $(self.$name += part.$name.load(Relaxed) as f64;)*
            }
        }
    };
}

sums! {
    /// Delivered hits that begin a call or a poll.
    delivered
    /// Polls after a future's first one: of the delivered hits, or in `FunctionTotals` of all
    /// calls.
    resumed
    /// Timed calls that began.
    begun
    /// The time of timed calls that have ended, and the hits inside.
    time
    hits
    /// Windows in which a thread hit the function, if the first hit began a call, or ended one that
    /// had been running no longer than the longest call that was timed.
    windows
    /// Calls that were timed inside of another call of the function.
    nested
    /// The time of calls that began before each call was timed, from then until their end.
    spanned
    /// Calls that were timed with all calls inside, weighted: their number, their time outside of
    /// timed calls directly inside, and the number of the latter.
    whole
    own
    inside
    /// Calls directly inside that windows time, while this function is timed at each call:
    /// weighted, and their unweighted number.
    sampled_inner
    sampled_inner_calls
    sampled_inner_seen
}

// SAFETY: atomics only.
unsafe impl Zeroed for FunctionSums {}

impl FunctionTotals {
    /// Converts times to nanoseconds; a tick takes `scale` of them.
    pub(super) fn scaled(self, scale: f64) -> Self {
        let [time, spanned, own, sampled_inner] =
            [self.time, self.spanned, self.own, self.sampled_inner].map(|it| it * scale);
        Self { time, spanned, own, sampled_inner, ..self }
    }
}

impl FunctionSums {
    /// Forgets the calls under way in another mode, window or generation, or on another thread.
    /// Returns whether there was such a change.
    #[inline(always)]
    pub(super) fn claim(&self, key: u64, thread: u64) -> bool {
        let is_new = self.key.load(Relaxed) != key || self.thread.load(Relaxed) != thread;
        if is_new {
            self.key.store(key, Relaxed);
            self.thread.store(thread, Relaxed);
            self.untimed.store(0, Relaxed);
            self.untimed_at.store(0, Relaxed);
        }
        is_new
    }

    /// Notes that a window was hit, first by a call that began this long before the window.
    #[inline(always)]
    pub(super) fn hit_window(&self, ago: u64) {
        if ago <= self.longest.load(Relaxed) {
            add_single_writer(&self.windows, 1);
        }
    }

    /// Begins an untimed call.
    #[inline(always)]
    pub(super) fn begin_untimed(&self, stack_pointer: u64) {
        add_single_writer(&self.untimed, 1);
        self.untimed_at.store(stack_pointer, Relaxed);
    }

    /// Begins an untimed call whose stack pointer no other open call has; 0 if nobody asks for its
    /// end. It is not counted: it may end without an exit.
    #[inline(always)]
    pub(super) fn begin_untimed_at(&self, stack_pointer: u64) {
        self.untimed_at.store(stack_pointer, Relaxed);
    }

    /// Ends such a call. Returns whether it was the one that began last.
    #[inline(always)]
    pub(super) fn end_untimed_at(&self, stack_pointer: u64) -> bool {
        let is_last = self.untimed_at.load(Relaxed) == stack_pointer;
        if is_last {
            self.untimed_at.store(0, Relaxed);
        }
        is_last
    }

    /// Returns whether the untimed call that began last is on another stack than this.
    #[inline(always)]
    pub(super) fn is_untimed_elsewhere(&self, stack_pointer: u64) -> bool {
        let at = self.untimed_at.load(Relaxed);
        at != 0 && stack_pointer != 0 && at.abs_diff(stack_pointer) >= MAX_FRAME_BYTES
    }

    /// Ends an untimed call. Returns whether there was one.
    #[inline(always)]
    pub(super) fn end_untimed(&self) -> bool {
        let untimed = self.untimed.load(Relaxed);
        self.untimed.store(untimed.saturating_sub(1), Relaxed);
        untimed != 0
    }

    /// Adds a timed call that has ended, with the number of hits inside.
    #[inline(always)]
    pub(super) fn end_timed(&self, elapsed: u64, hits: u64, is_of_window: bool) {
        add_single_writer(&self.time, elapsed);
        add_single_writer(&self.hits, hits);
        if is_of_window && elapsed > self.longest.load(Relaxed) {
            self.longest.store(elapsed, Relaxed);
        }
        // Last: a reader that sees the call also sees its time.
        self.ended.store(self.ended.load(Relaxed).wrapping_add(1), Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_untimed_call_that_began_last_is_known_by_its_place() {
        // SAFETY: zeroes are no call.
        let part: FunctionSums = unsafe { std::mem::zeroed() };
        part.claim(1, 1);
        part.begin_untimed_at(0x1000);
        part.begin_untimed_at(0x900);
        assert_eq!([0x1000, 0x900, 0x900].map(|at| part.end_untimed_at(at)), [false, true, false]);
        // Another window knows of none.
        part.begin_untimed_at(0x1000);
        part.claim(3, 1);
        assert!(!part.end_untimed_at(0x1000));
    }
}
