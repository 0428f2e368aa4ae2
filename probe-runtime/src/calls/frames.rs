//! The stack of calls under way on one thread.
//!
//! Only its thread writes it; atomics, since anybody may look. A frame of C code that may end unseen is *watched*: `watch` is
//! the stack pointer of the innermost of them, and a hit from above it finds that call over.

// Safety: relies on zeroes being an empty stack.
#![expect(unsafe_code, reason = "see above")]

use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize};

use crate::per_thread::Zeroed;

/// Calls that a thread may have under way; what is called in deeper ones is counted, and not measured.
pub(super) const DEPTH: usize = 8192;

/// No frame is watched. (Not zero, as the field begins: then a look at the stack makes it so.)
const UNWATCHED: usize = usize::MAX;

/// A call that began.
#[repr(C)]
pub(super) struct Frame<const N: usize> {
    pub(super) function: AtomicU32,
    /// Of a future's poll: the future.
    pub(super) future: AtomicUsize,
    /// Of a call that is watched: its stack pointer.
    stack_pointer: AtomicUsize,
    /// Of a call that is watched: what was watched before; else 0.
    outer_watch: AtomicUsize,
    /// The meter's.
    pub(super) note: AtomicU64,
    pub(super) start: [AtomicU64; N],
    pub(super) inner: [AtomicU64; N],
}

/// A thread's stack of calls.
#[repr(C)]
pub(super) struct Frames<const N: usize> {
    /// Which thread's it is.
    pub(super) thread: AtomicU64,
    /// Of which generation all its frames are.
    pub(super) generation: AtomicU32,
    len: AtomicU32,
    watch: AtomicUsize,
    /// Calls that began above the last frame there is room for, and have not ended.
    over: AtomicU32,
    /// The stack pointer of the first of those, if it is watched.
    over_at: AtomicUsize,
    /// All calls that there was no room for.
    pub(super) too_deep: AtomicU64,
    frames: [Frame<N>; DEPTH],
}

// SAFETY: atomics only.
unsafe impl<const N: usize> Zeroed for Frames<N> {}

/// Which call a hit belongs to, apart from its function.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Mark {
    /// The future, of a poll; else 0.
    pub(super) future: usize,
    /// The stack pointer, where it tells calls apart; else 0.
    pub(super) frame: usize,
}

impl<const N: usize> Frames<N> {
    #[inline(always)]
    pub(super) fn len(&self) -> usize {
        // Never more than there are: spares a check at each access.
        (self.len.load(Relaxed) as usize).min(DEPTH)
    }

    #[inline(always)]
    pub(super) fn is_watched(&self) -> bool {
        self.watch.load(Relaxed) != UNWATCHED
    }

    /// The innermost call.
    #[inline(always)]
    pub(super) fn top(&self) -> Option<&Frame<N>> {
        self.len().checked_sub(1).and_then(|at| self.frames.get(at))
    }

    /// A frame for a call that begins; `None`, and counted, where there is no room.
    #[inline(always)]
    pub(super) fn push(&self, function: u32, mark: Mark) -> Option<&Frame<N>> {
        let len = self.len();
        let Some(frame) = self.frames.get(len) else {
            self.push_over(mark.frame);
            return None;
        };
        frame.function.store(function, Relaxed);
        frame.future.store(mark.future, Relaxed);
        frame.stack_pointer.store(mark.frame, Relaxed);
        frame.outer_watch.store(0, Relaxed);
        for inner in &frame.inner {
            inner.store(0, Relaxed);
        }
        #[expect(clippy::cast_possible_truncation, reason = "at most `DEPTH`")]
        self.len.store(len as u32 + 1, Relaxed);
        Some(frame)
    }

    /// Watches the innermost call, whose stack pointer is this.
    pub(super) fn watch(&self, stack_pointer: usize) {
        let Some(frame) = self.top() else { return };
        frame.stack_pointer.store(stack_pointer, Relaxed);
        frame.outer_watch.store(self.watch.load(Relaxed), Relaxed);
        self.watch.store(stack_pointer, Relaxed);
    }

    #[cold]
    fn push_over(&self, stack_pointer: usize) {
        if self.over.load(Relaxed) == 0 {
            self.over_at.store(stack_pointer, Relaxed);
        }
        self.over.store(self.over.load(Relaxed).saturating_add(1), Relaxed);
        add(&self.too_deep, 1);
    }

    /// Whether a call that ends is one that there was no room for.
    #[inline(always)]
    pub(super) fn pop_over(&self) -> bool {
        let over = self.over.load(Relaxed);
        if over != 0 {
            self.over.store(over - 1, Relaxed);
        }
        over != 0
    }

    /// Takes off the innermost call.
    #[inline(always)]
    pub(super) fn pop(&self) -> Option<&Frame<N>> {
        let at = self.len().checked_sub(1)?;
        let frame = self.frames.get(at)?;
        #[expect(clippy::cast_possible_truncation, reason = "less than `DEPTH`")]
        self.len.store(at as u32, Relaxed);
        let outer = frame.outer_watch.load(Relaxed);
        if outer != 0 {
            self.watch.store(outer, Relaxed);
        }
        Some(frame)
    }

    /// Takes off, innermost first, the calls that a hit with this stack pointer finds over. One that begins where another one's frame is
    /// finds that one over, too.
    #[cold]
    pub(super) fn drop_dead(&self, stack_pointer: usize, begins: bool, mut dropped: impl FnMut(u32)) {
        if self.watch.load(Relaxed) == 0 {
            self.watch.store(UNWATCHED, Relaxed);
        }
        let is_dead = |at: usize| at < stack_pointer || (begins && at == stack_pointer);
        if self.over_at.load(Relaxed) != 0 && is_dead(self.over_at.load(Relaxed)) {
            self.over.store(0, Relaxed);
            self.over_at.store(0, Relaxed);
        }
        while is_dead(self.watch.load(Relaxed)) {
            let Some(frame) = self.pop() else {
                self.watch.store(UNWATCHED, Relaxed);
                return;
            };
            dropped(frame.function.load(Relaxed));
        }
    }

    /// Takes off all that are inside of the innermost call that this is the end of, and tells whether there is one.
    #[cold]
    pub(super) fn drop_inside(&self, function: u32, mark: Mark, mut dropped: impl FnMut(u32)) -> bool {
        let found = self.frames[..self.len()].iter().rposition(|frame| frame.is(function, mark));
        let keep = match found {
            Some(at) => at + 1,
            // A call from before the first frame: in Rust, all inside of it are over.
            None if mark.frame == 0 => 0,
            None => return false,
        };
        while self.len() > keep {
            if let Some(frame) = self.pop() {
                dropped(frame.function.load(Relaxed));
            }
        }
        found.is_some()
    }

    /// Takes off all.
    #[cold]
    pub(super) fn clear(&self, mut dropped: impl FnMut(u32)) {
        while let Some(frame) = self.pop() {
            dropped(frame.function.load(Relaxed));
        }
        self.watch.store(UNWATCHED, Relaxed);
        self.over.store(0, Relaxed);
        self.over_at.store(0, Relaxed);
    }
}

impl<const N: usize> Frame<N> {
    /// Whether a hit with this mark is of this call.
    #[inline(always)]
    pub(super) fn is(&self, function: u32, mark: Mark) -> bool {
        self.function.load(Relaxed) == function
            && self.future.load(Relaxed) == mark.future
            && (mark.frame == 0 || self.stack_pointer.load(Relaxed) == mark.frame)
    }
}

/// Adds to a number that only this thread writes: no locked instruction.
#[inline(always)]
pub(crate) fn add(number: &AtomicU64, more: u64) {
    number.store(number.load(Relaxed).wrapping_add(more), Relaxed);
}
