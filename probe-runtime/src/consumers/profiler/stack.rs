//! The calls that one thread is timing, the innermost last.
//!
//! Life cycle: zeroed at the thread's first hit; a call is pushed at its entry and taken out at its
//! exit, as [the rule of pairing](pairing) says. A call is *current* while its function's mode or
//! its window lasts; otherwise it has lost its exit, and is dropped by the next hit that finds it.
//! Only the thread writes the stack. Cost: 5 KiB for each thread.

// Safety: relies on zeroes being an empty stack.
#![expect(unsafe_code, reason = "see above")]

use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU8, AtomicU64, AtomicUsize};

use crate::engine::calls::{self, BASE, PASSED_BY, add_single_writer, goes_on_after, place_of, surely_fits};
use crate::engine::per_thread::Zeroed;
use probe_core::pairing::{self, CallKind, OpenCalls, Place};

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
    what: AtomicU64,
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
struct SeenBy<'a> {
    stack: &'a ThreadStack,
    function: u32,
    key: u64,
}

impl OpenCalls for SeenBy<'_> {
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
    pub(super) fn belongs_to(&self, thread: u64) {
        if self.thread.load(Relaxed) != thread {
            self.thread.store(thread, Relaxed);
            self.cut(0);
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

    /// Drops all calls but so many of the outermost ones.
    #[inline(always)]
    fn cut(&self, keep: usize) {
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
    pub(super) fn drop_left(&self, hit: Place, key: u64, begins: bool) {
        if !self.goes_on(hit, begins) {
            self.drop_left_slowly(hit, key, begins);
        }
    }

    /// Returns whether the innermost call goes on for sure. Then so do those around it.
    #[inline(always)]
    fn goes_on(&self, hit: Place, begins: bool) -> bool {
        self.top().is_none_or(|top| {
            let at = top.stack_pointer.load(Relaxed);
            at != 0 && (at > hit.stack_pointer || (!begins && at == hit.stack_pointer))
        })
    }

    /// Returns whether a hit of this thread begins a call inside of those that are being timed, or
    /// ends the innermost one, or whether none is timed. `key` is that of the hit.
    #[inline(always)]
    pub(super) fn is_plain(&self, hit: Place, key: u64, thread: u64, begins: bool) -> bool {
        self.thread.load(Relaxed) == thread
            && match self.top() {
                None => true,
                Some(_) if begins => self.used.load(Relaxed) != u64::MAX && self.goes_on(hit, true),
                Some(top) => top.is_ended_by(hit, key) && self.goes_on(hit, false),
            }
    }

    /// Returns the innermost call, and its index.
    #[inline(always)]
    pub(super) fn innermost(&self) -> Option<(usize, &TimedCall)> {
        let last = self.len.load(Relaxed).checked_sub(1)?;
        Some((last, self.at(last)))
    }

    #[inline(never)]
    fn drop_left_slowly(&self, hit: Place, key: u64, begins: bool) {
        let open = SeenBy { stack: self, function: hit.function, key };
        let open_at = if begins { pairing::open_at_entry } else { pairing::open_at_exit };
        self.cut(open_at(&open, hit));
    }

    /// Returns the frame for the next call, with its number. The call is on the stack after
    /// [`push`](Self::push).
    #[inline(always)]
    pub(super) fn room(&self) -> Option<(usize, &TimedCall)> {
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
        let index = pairing::match_exit(&SeenBy { stack: self, function: exit.function, key }, exit)?;
        Some((index, self.at(index)))
    }

    /// Takes out the call at this index, with those inside that were left. Calls on other stacks go
    /// on. Returns the number of its frame.
    #[inline(always)]
    pub(super) fn take(&self, index: usize, exit: Place) -> usize {
        if index + 1 == self.len.load(Relaxed) {
            return self.take_innermost(index);
        }
        let slot = self.order[index % MAX_TIMED_CALLS].load(Relaxed);
        self.take_below(index, exit);
        slot.into()
    }

    /// Takes out the innermost call, which is at this index. Returns the number of its frame.
    #[inline(always)]
    pub(super) fn take_innermost(&self, index: usize) -> usize {
        let slot = self.order[index % MAX_TIMED_CALLS].load(Relaxed);
        self.pop(index);
        slot.into()
    }

    #[inline(never)]
    fn take_below(&self, index: usize, exit: Place) {
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
            let above = &self.at(index).what;
            above.store(above.load(Relaxed) | BASE, Relaxed);
        }
    }

    /// Returns the call around one that was taken out at this index; `None` if its caller is not
    /// known. `is_current` says whether the exit of a call can still come.
    #[inline(always)]
    pub(super) fn around(
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
        outer.filter(|_| call.what.load(Relaxed) & BASE == 0)
    }
}

impl TimedCall {
    #[inline(always)]
    pub(super) fn note(&self, call: Place, key: u64, hits: u64, untimed: u64) {
        self.what.store(calls::key(call), Relaxed);
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
        self.what.load(Relaxed) & !BASE == calls::key(exit)
            && self.key.load(Relaxed) == key
            && surely_fits(exit, entered, entered)
    }

    pub(super) fn function(&self) -> usize {
        #[expect(clippy::cast_possible_truncation, reason = "the lower half")]
        let function = self.what.load(Relaxed) as u32;
        function as usize
    }

    #[inline(always)]
    fn place(&self) -> Place {
        let of = |field: &AtomicU64| field.load(Relaxed);
        place_of(of(&self.what), of(&self.stack_pointer), of(&self.future))
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
