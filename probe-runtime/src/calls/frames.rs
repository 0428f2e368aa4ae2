//! The stack of calls under way on one thread.
//!
//! Only its thread writes it; atomics, since anybody may look. A frame of C code that may end
//! unseen is *watched*: `watch` is the stack pointer of the innermost of them, and a hit from above
//! it finds that call over.

// Safety: relies on zeroes being an empty stack.
#![expect(unsafe_code, reason = "see above")]

use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize};

use crate::per_thread::Zeroed;

/// Calls that a thread may have under way; what is called in deeper ones is counted, and not
/// measured.
pub(super) const DEPTH: usize = 8192;

/// No frame is watched. (Zero, as the field begins, lasts until the first hit, which belongs to
/// another generation.)
const UNWATCHED: usize = usize::MAX;

/// A call that began.
#[repr(C)]
pub(super) struct Frame<const N: usize> {
    /// The function, and of a poll or a call with a frame of its own: `MARKED`.
    key: AtomicU64,
    /// The meter's.
    pub(super) note: AtomicU64,
    start: [AtomicU64; N],
    inner: [AtomicU64; N],
    /// If it is marked: of a poll, the future; else the stack pointer.
    mark: AtomicUsize,
    /// Of a call that is watched: what was watched before; else 0.
    outer_watch: AtomicUsize,
}

/// A frame's call is not told by its function alone.
const MARKED: u64 = 1 << 32;
/// A frame's call is watched.
const WATCHED: u64 = 1 << 33;

/// A thread's stack of calls.
#[repr(C)]
pub(super) struct Frames<const N: usize> {
    /// Which thread's it is.
    pub(super) thread: AtomicU64,
    /// The generation, while nothing is watched, and there has been room for all: most hits need to
    /// know no more. Else 0.
    pub(super) plain: AtomicU32,
    len: AtomicU32,
    /// Of which generation all its frames are.
    pub(super) generation: AtomicU32,
    watch: AtomicUsize,
    /// Calls that began above the last frame there is room for, and have not ended.
    over: AtomicU32,
    /// The stack pointer of the first of those, if it is watched.
    over_at: AtomicUsize,
    /// All calls that there was no room for.
    pub(super) too_deep: AtomicU64,
    stack: [Frame<N>; DEPTH],
}

// SAFETY: atomics only.
unsafe impl<const N: usize> Zeroed for Frames<N> {}

/// Which call a hit belongs to, apart from its function: a future, or a stack pointer; 0 where the
/// function says it all.
pub(super) type Mark = usize;

impl<const N: usize> Frames<N> {
    #[inline(always)]
    pub(super) fn len(&self) -> usize {
        self.len.load(Relaxed) as usize
    }

    /// Whether a hit has to look whether calls are over that had no exit.
    pub(super) fn is_watched(&self) -> bool {
        self.watch.load(Relaxed) != UNWATCHED
    }

    /// Sets `plain` after a change of what it depends on.
    fn settle(&self) {
        let is_plain = !self.is_watched() && self.over.load(Relaxed) == 0;
        self.plain.store(if is_plain { self.generation.load(Relaxed) } else { 0 }, Relaxed);
    }

    /// The call at this depth, from 1.
    #[inline(always)]
    pub(super) fn at(&self, depth: usize) -> Option<&Frame<N>> {
        self.stack.get(depth.wrapping_sub(1))
    }

    /// A frame for a call that begins, and that of its caller; `None`, and counted, where there is
    /// no room.
    pub(super) fn push(&self, function: u32, mark: Mark) -> Option<(&Frame<N>, Option<&Frame<N>>)> {
        let len = self.len();
        let Some(frame) = self.stack.get(len) else {
            self.push_over(mark);
            return None;
        };
        frame.key.store(key(function, mark), Relaxed);
        if mark != 0 {
            frame.mark.store(mark, Relaxed);
        }
        frame.inner.iter().for_each(|inner| inner.store(0, Relaxed));
        #[expect(clippy::cast_possible_truncation, reason = "at most `DEPTH`")]
        self.len.store(len as u32 + 1, Relaxed);
        Some((frame, self.at(len)))
    }

    /// The same of a call that its function alone tells, where there is room, and `now` is known:
    /// without a way that leads elsewhere.
    #[inline(always)]
    pub(super) fn push_plain(
        &self,
        function: u32,
        now: impl FnOnce() -> Option<[u64; N]>,
    ) -> Option<(&Frame<N>, Option<&Frame<N>>)> {
        let len = self.len();
        let frame = self.stack.get(len)?;
        // Before anything is written, so that nothing has to be kept over a call for it.
        frame.start(now()?);
        frame.key.store(u64::from(function), Relaxed);
        frame.inner.iter().for_each(|inner| inner.store(0, Relaxed));
        #[expect(clippy::cast_possible_truncation, reason = "at most `DEPTH`")]
        self.len.store(len as u32 + 1, Relaxed);
        Some((frame, self.at(len)))
    }

    /// Takes off the innermost call, if it is one of this function, and its function alone tells
    /// it. With it, the call around it.
    #[inline(always)]
    pub(super) fn pop_plain(&self, function: u32) -> Option<(&Frame<N>, Option<&Frame<N>>)> {
        let depth = self.len();
        let frame = self.at(depth)?;
        if frame.key.load(Relaxed) != u64::from(function) {
            return None;
        }
        self.shorten(depth);
        Some((frame, self.at(depth.wrapping_sub(1))))
    }

    /// Watches the innermost call, whose stack pointer is this.
    pub(super) fn watch(&self, stack_pointer: usize) {
        let Some(frame) = self.at(self.len()) else { return };
        frame.key.store(frame.key.load(Relaxed) | WATCHED, Relaxed);
        frame.outer_watch.store(self.watch.load(Relaxed), Relaxed);
        self.watch.store(stack_pointer, Relaxed);
        self.plain.store(0, Relaxed);
    }

    #[cold]
    fn push_over(&self, mark: Mark) {
        if self.over.load(Relaxed) == 0 {
            self.over_at.store(mark, Relaxed);
        }
        self.over.store(self.over.load(Relaxed).saturating_add(1), Relaxed);
        add(&self.too_deep, 1);
        self.plain.store(0, Relaxed);
    }

    /// Whether a call that ends is one that there was no room for.
    pub(super) fn pop_over(&self) -> bool {
        let over = self.over.load(Relaxed);
        if over != 0 {
            self.over.store(over - 1, Relaxed);
            self.settle();
        }
        over != 0
    }

    /// Takes off the innermost call, if it is this one. With it, the call around it.
    pub(super) fn pop_if(&self, function: u32, mark: Mark) -> Option<(&Frame<N>, Option<&Frame<N>>)> {
        let frame = self.at(self.len())?;
        if !frame.is(function, mark) {
            return None;
        }
        self.pop();
        Some((frame, self.at(self.len())))
    }

    fn pop(&self) -> Option<&Frame<N>> {
        let depth = self.len();
        let frame = self.at(depth)?;
        self.shorten_watched(frame, depth);
        Some(frame)
    }

    /// Takes off the innermost call, which is at this depth.
    #[inline(always)]
    fn shorten(&self, depth: usize) {
        #[expect(clippy::cast_possible_truncation, reason = "at most `DEPTH`")]
        self.len.store(depth as u32 - 1, Relaxed);
    }

    fn shorten_watched(&self, frame: &Frame<N>, depth: usize) {
        self.shorten(depth);
        if frame.key.load(Relaxed) & WATCHED != 0 {
            self.watch.store(frame.outer_watch.load(Relaxed), Relaxed);
            self.settle();
        }
    }

    /// Takes off, innermost first, the calls that a hit with this stack pointer finds over. One
    /// that begins where another one's frame is finds that one over, too.
    #[cold]
    pub(super) fn drop_dead(&self, stack_pointer: usize, begins: bool, mut dropped: impl FnMut(u32)) {
        let is_dead = |at: usize| at < stack_pointer || (begins && at == stack_pointer);
        if self.over_at.load(Relaxed) != 0 && is_dead(self.over_at.load(Relaxed)) {
            self.over.store(0, Relaxed);
            self.over_at.store(0, Relaxed);
            self.settle();
        }
        while is_dead(self.watch.load(Relaxed)) {
            let Some(frame) = self.pop() else {
                self.watch.store(UNWATCHED, Relaxed);
                return;
            };
            dropped(frame.function());
        }
    }

    /// Takes off all that are inside of the innermost call that this is the end of.
    /// `is_framed` says that the mark is a stack pointer.
    pub(super) fn drop_inside(
        &self,
        function: u32,
        mark: Mark,
        is_framed: bool,
        mut dropped: impl FnMut(u32),
    ) {
        let found = self.stack[..self.len().min(DEPTH)].iter().rposition(|frame| frame.is(function, mark));
        let keep = match found {
            Some(at) => at + 1,
            // A call from before the first frame: in Rust, all inside of it are over.
            None if !is_framed => 0,
            None => return,
        };
        while self.len() > keep {
            if let Some(frame) = self.pop() {
                dropped(frame.function());
            }
        }
    }

    /// Takes off all.
    #[cold]
    pub(super) fn clear(&self, mut dropped: impl FnMut(u32)) {
        while let Some(frame) = self.pop() {
            dropped(frame.function());
        }
        self.watch.store(UNWATCHED, Relaxed);
        self.over.store(0, Relaxed);
        self.over_at.store(0, Relaxed);
        self.plain.store(0, Relaxed);
    }

    /// All its frames will be of this generation, and thread.
    pub(super) fn begin(&self, generation: u32, thread: u64) {
        self.generation.store(generation, Relaxed);
        self.thread.store(thread, Relaxed);
        self.settle();
    }
}

/// What tells a frame's call.
#[inline(always)]
fn key(function: u32, mark: Mark) -> u64 {
    u64::from(function) | if mark == 0 { 0 } else { MARKED }
}

impl<const N: usize> Frame<N> {
    #[inline(always)]
    pub(super) fn start(&self, now: [u64; N]) {
        let _ = std::array::from_fn::<_, N, _>(|at| self.start[at].store(now[at], Relaxed));
    }

    #[inline(always)]
    pub(super) fn started(&self) -> [u64; N] {
        std::array::from_fn(|at| self.start[at].load(Relaxed))
    }

    #[inline(always)]
    pub(super) fn inner(&self) -> [u64; N] {
        std::array::from_fn(|at| self.inner[at].load(Relaxed))
    }

    /// A call inside of it has taken so much.
    #[inline(always)]
    pub(super) fn add_inner(&self, elapsed: [u64; N]) {
        let _ = std::array::from_fn::<_, N, _>(|at| add(&self.inner[at], elapsed[at]));
    }

    fn function(&self) -> u32 {
        #[expect(clippy::cast_possible_truncation, reason = "the lower half")]
        let function = self.key.load(Relaxed) as u32;
        function
    }

    /// Whether a hit with this mark is of this call.
    pub(super) fn is(&self, function: u32, mark: Mark) -> bool {
        let found = self.key.load(Relaxed) & !WATCHED;
        found == key(function, mark) && (mark == 0 || self.mark.load(Relaxed) == mark)
    }
}

/// Adds to a number that only this thread writes, and others read: no locked instruction. For what
/// consumers keep [for each thread](crate::PerThread).
///
/// ```
/// let hits = std::sync::atomic::AtomicU64::new(1);
/// probe_runtime::calls::add(&hits, 2);
/// assert_eq!(hits.into_inner(), 3);
/// ```
#[inline(always)]
pub fn add(number: &AtomicU64, more: u64) {
    number.store(number.load(Relaxed).wrapping_add(more), Relaxed);
}
