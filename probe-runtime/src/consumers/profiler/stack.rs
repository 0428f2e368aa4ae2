//! The calls that one thread is timing, the innermost last.
//!
//! Life cycle: zeroed at the thread's first hit; a call is pushed at its entry and popped at its
//! exit. A call is *current* while its function's mode or its window lasts; otherwise it has lost
//! its exit, and is dropped by the next hit that finds it. Only the thread writes the stack. Cost:
//! 4 KiB for each thread.

// Safety: relies on zeroes being an empty stack.
#![expect(unsafe_code, reason = "see above")]

use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU64, AtomicUsize};

use crate::calls::add_single_writer;
use crate::per_thread::Zeroed;

/// The number of calls that a thread times at once. Deeper calls are only counted.
pub(in crate::consumers) const DEPTH: usize = 64;

/// The data of a thread for all functions.
#[repr(C)]
pub(super) struct ThreadStack {
    /// The number of hits that were delivered, and of calls that were timed.
    pub(super) hits: AtomicU64,
    pub(super) timed: AtomicU64,
    thread: AtomicU64,
    len: AtomicUsize,
    pub(super) pending: UnattributedCalls,
    frames: [TimedCall; DEPTH],
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

#[repr(C)]
pub(super) struct TimedCall {
    /// The function, and the key that tells whether the call is current.
    pub(super) function: AtomicUsize,
    pub(super) key: AtomicU64,
    pub(super) start: AtomicU64,
    /// The thread's hits at the beginning of the call.
    pub(super) hits: AtomicU64,
    /// The timed calls directly inside, and their time.
    pub(super) calls: AtomicU64,
    pub(super) inner: AtomicU64,
    /// The function's untimed calls that were under way at the beginning.
    pub(super) untimed: AtomicU64,
    /// The stack pointer, in C code.
    mark: AtomicUsize,
}

impl ThreadStack {
    /// Gives the stack to this thread: forgets the calls of another one.
    #[inline(always)]
    pub(super) fn belongs_to(&self, thread: u64) {
        if self.thread.load(Relaxed) != thread {
            self.thread.store(thread, Relaxed);
            self.len.store(0, Relaxed);
            self.pending.take();
        }
    }

    /// Drops the innermost calls for which `is_over` holds; returns the innermost remaining call.
    #[inline(always)]
    pub(super) fn drop_while(&self, is_over: impl Fn(&TimedCall) -> bool) -> Option<&TimedCall> {
        loop {
            let len = self.len.load(Relaxed);
            let top = self.frames.get(len.wrapping_sub(1))?;
            if !is_over(top) {
                return Some(top);
            }
            self.cut(len - 1);
        }
    }

    /// Drops calls of C code that are over according to the stack pointer of a hit, although their
    /// exit was not seen.
    #[inline(always)]
    pub(super) fn drop_dead(&self, stack_pointer: usize, begins: bool) {
        self.drop_while(|top| {
            let mark = top.mark.load(Relaxed);
            mark != 0 && (mark < stack_pointer || begins && mark == stack_pointer)
        });
    }

    /// Returns the frame for the next call. The call is on the stack after [`push`](Self::push).
    #[inline(always)]
    pub(super) fn room(&self) -> Option<(usize, &TimedCall)> {
        let len = self.len.load(Relaxed);
        Some((len, self.frames.get(len)?))
    }

    #[inline(always)]
    pub(super) fn push(&self) {
        self.len.store(self.len.load(Relaxed) + 1, Relaxed);
        add_single_writer(&self.timed, 1);
    }

    /// Finds the innermost call of this function and key, and in C code of this mark. Returns its
    /// depth, too.
    #[inline(always)]
    pub(super) fn find(&self, function: usize, key: u64, mark: usize) -> Option<(usize, &TimedCall)> {
        let is = |frame: &TimedCall| {
            frame.function.load(Relaxed) == function
                && frame.key.load(Relaxed) == key
                && (mark == 0 || frame.mark.load(Relaxed) == mark)
        };
        let frames = self.frames.get(..self.len.load(Relaxed))?;
        let at = frames.iter().rposition(is)?;
        Some((at, &frames[at]))
    }

    /// Pops the call at this depth, and all calls inside of it.
    #[inline(always)]
    pub(super) fn cut(&self, depth: usize) {
        self.len.store(depth, Relaxed);
    }
}

impl TimedCall {
    #[inline(always)]
    pub(super) fn note(&self, function: usize, key: u64, hits: u64, untimed: u64, mark: usize) {
        self.function.store(function, Relaxed);
        self.key.store(key, Relaxed);
        self.hits.store(hits, Relaxed);
        self.calls.store(0, Relaxed);
        self.inner.store(0, Relaxed);
        self.untimed.store(untimed, Relaxed);
        self.mark.store(mark, Relaxed);
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
    pub(super) fn take(&self) -> [u64; 3] {
        [&self.time, &self.calls, &self.seen].map(|it| {
            let taken = it.load(Relaxed);
            it.store(0, Relaxed);
            taken
        })
    }
}
