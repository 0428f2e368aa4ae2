//! The calls that one thread is timing, the innermost last.
//!
//! Life: zeroed at the thread's first hit; a call is put on at its entry, and taken off at its
//! exit. What is no longer *current* is dropped by whoever meets it: a call whose function has
//! changed its mode since, or whose window is over, has lost its exit. Only the thread writes it.
//! Cost: 4 KiB a thread.

// Safety: relies on zeroes being an empty stack.
#![expect(unsafe_code, reason = "see above")]

use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU64, AtomicUsize};

use crate::calls::add;
use crate::per_thread::Zeroed;

/// How many calls a thread times at once. Deeper calls are only counted.
pub(in crate::consumers) const DEPTH: usize = 64;

/// What a thread keeps for all functions.
#[repr(C)]
pub(super) struct Head {
    /// Hits that were delivered, and calls that were timed.
    pub(super) hits: AtomicU64,
    pub(super) timed: AtomicU64,
    thread: AtomicU64,
    len: AtomicUsize,
    pub(super) pending: Pending,
    frames: [Frame; DEPTH],
}

// SAFETY: atomics only.
unsafe impl Zeroed for Head {}

/// Calls of a window whose caller is not known yet: it began before the window, and ends in it, or
/// it is the call that is always timed around them.
#[repr(C)]
pub(super) struct Pending {
    pub(super) owner: AtomicUsize,
    pub(super) window: AtomicU64,
    pub(super) time: AtomicU64,
    pub(super) calls: AtomicU64,
    /// How many of them were seen: each stands for others.
    pub(super) seen: AtomicU64,
}

/// A call that is timed.
#[repr(C)]
pub(super) struct Frame {
    /// Its function, and what tells whether it is current.
    pub(super) function: AtomicUsize,
    pub(super) key: AtomicU64,
    pub(super) start: AtomicU64,
    /// The thread's hits so far.
    pub(super) hits: AtomicU64,
    /// Timed calls right inside, and their time.
    pub(super) calls: AtomicU64,
    pub(super) inner: AtomicU64,
    /// Calls of the function under way then that are not timed.
    pub(super) untimed: AtomicU64,
    /// In C code: the stack pointer.
    mark: AtomicUsize,
}

impl Head {
    /// The stack is this thread's from here on.
    #[inline(always)]
    pub(super) fn belongs_to(&self, thread: u64) {
        if self.thread.load(Relaxed) != thread {
            self.thread.store(thread, Relaxed);
            self.len.store(0, Relaxed);
            self.pending.take();
        }
    }

    /// Drops the innermost calls that are over; returns the innermost that is not.
    #[inline(always)]
    pub(super) fn drop_while(&self, is_over: impl Fn(&Frame) -> bool) -> Option<&Frame> {
        loop {
            let len = self.len.load(Relaxed);
            let top = self.frames.get(len.wrapping_sub(1))?;
            if !is_over(top) {
                return Some(top);
            }
            self.cut(len - 1);
        }
    }

    /// Drops calls of C code that a hit with this stack pointer finds over, though no exit was seen.
    #[inline(always)]
    pub(super) fn drop_dead(&self, stack_pointer: usize, begins: bool) {
        self.drop_while(|top| {
            let mark = top.mark.load(Relaxed);
            mark != 0 && (mark < stack_pointer || begins && mark == stack_pointer)
        });
    }

    /// Where the next call is noted; it is not on the stack before [`push`](Self::push).
    #[inline(always)]
    pub(super) fn room(&self) -> Option<(usize, &Frame)> {
        let len = self.len.load(Relaxed);
        Some((len, self.frames.get(len)?))
    }

    #[inline(always)]
    pub(super) fn push(&self) {
        self.len.store(self.len.load(Relaxed) + 1, Relaxed);
        add(&self.timed, 1);
    }

    /// The innermost call of this function and key, with its depth; in C code, of this mark.
    #[inline(always)]
    pub(super) fn find(&self, function: usize, key: u64, mark: usize) -> Option<(usize, &Frame)> {
        let is = |frame: &Frame| {
            frame.function.load(Relaxed) == function
                && frame.key.load(Relaxed) == key
                && (mark == 0 || frame.mark.load(Relaxed) == mark)
        };
        let frames = self.frames.get(..self.len.load(Relaxed))?;
        let at = frames.iter().rposition(is)?;
        Some((at, &frames[at]))
    }

    /// Takes off the call at this depth, and what is inside of it.
    #[inline(always)]
    pub(super) fn cut(&self, depth: usize) {
        self.len.store(depth, Relaxed);
    }
}

impl Frame {
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

impl Pending {
    /// Forgets them, if they are of this window.
    #[inline(always)]
    pub(super) fn drop_of(&self, window: u64) {
        if self.window.load(Relaxed) == window {
            self.take();
        }
    }

    /// Their time, how many they stand for, and how many were seen.
    #[inline(always)]
    pub(super) fn take(&self) -> [u64; 3] {
        [&self.time, &self.calls, &self.seen].map(|it| {
            let taken = it.load(Relaxed);
            it.store(0, Relaxed);
            taken
        })
    }
}
