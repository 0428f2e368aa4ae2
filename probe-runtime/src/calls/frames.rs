//! The stack of calls under way on one thread.
//!
//! Only the owning thread writes the stack; its fields are atomics because other threads may read
//! it at any time. A frame of C code that may end without an exit is *watched*: `watch` is the
//! stack pointer of the innermost such frame. A hit from further up in the stack shows that this
//! call is over.

// Safety: relies on zeroes being an empty stack.
#![expect(unsafe_code, reason = "see above")]

use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize};

use crate::per_thread::Zeroed;

/// Calls that a thread may have under way. Deeper calls are counted, but not measured.
pub(super) const DEPTH: usize = 8192;

/// No frame is watched. (The field is zero until the thread's first hit, which belongs to another
/// generation.)
const UNWATCHED: usize = usize::MAX;

/// A call that began.
#[repr(C)]
pub(super) struct Frame<const N: usize> {
    /// The function, and `MARKED` if the call also has a mark, and `WATCHED` if it is watched.
    key: AtomicU64,
    /// The note that the meter keeps with the call.
    pub(super) note: AtomicU64,
    start: [AtomicU64; N],
    inner: [AtomicU64; N],
    /// If `MARKED`: the future of a poll, or the stack pointer of a call.
    mark: AtomicUsize,
    /// If `WATCHED`: the previous value of `watch`; else 0.
    outer_watch: AtomicUsize,
}

/// The frame's call is identified by its function and its mark.
const MARKED: u64 = 1 << 32;
/// The frame's call is watched.
const WATCHED: u64 = 1 << 33;

/// A thread's stack of calls.
#[repr(C)]
pub(super) struct Frames<const N: usize> {
    /// The number of the thread that owns the stack.
    pub(super) thread: AtomicU64,
    /// The generation while no frame is watched and every call has a frame; else 0. Most hits check
    /// nothing else.
    pub(super) plain: AtomicU32,
    len: AtomicU32,
    /// The generation of all frames.
    pub(super) generation: AtomicU32,
    watch: AtomicUsize,
    /// Calls under way for which there was no frame.
    over: AtomicU32,
    /// The stack pointer of the first of these calls if that is watched; else 0.
    over_at: AtomicUsize,
    /// All calls so far for which there was no frame.
    pub(super) too_deep: AtomicU64,
    stack: [Frame<N>; DEPTH],
}

// SAFETY: atomics only.
unsafe impl<const N: usize> Zeroed for Frames<N> {}

/// Identifies a call of a function: the address of a future, or a stack pointer. 0 if the function
/// alone identifies it.
pub(super) type StackMark = usize;

impl<const N: usize> Frames<N> {
    #[inline(always)]
    pub(super) fn len(&self) -> usize {
        self.len.load(Relaxed) as usize
    }

    /// Returns whether a hit must look for calls that ended without an exit.
    pub(super) fn is_watched(&self) -> bool {
        self.watch.load(Relaxed) != UNWATCHED
    }

    /// Updates `plain` after a change of the fields that it depends on.
    fn settle(&self) {
        let is_plain = !self.is_watched() && self.over.load(Relaxed) == 0;
        self.plain.store(if is_plain { self.generation.load(Relaxed) } else { 0 }, Relaxed);
    }

    /// Returns the call at this depth, from 1.
    #[inline(always)]
    pub(super) fn at(&self, depth: usize) -> Option<&Frame<N>> {
        self.stack.get(depth.wrapping_sub(1))
    }

    /// Pushes a frame for a call that begins. Returns it, with the frame of its caller; `None` if
    /// there is no room, which is counted.
    pub(super) fn push(&self, function: u32, mark: StackMark) -> Option<(&Frame<N>, Option<&Frame<N>>)> {
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

    /// Pushes a frame for a call without a mark. Returns `None` if there is no room or `now`
    /// returns `None`; it calls no other function.
    #[inline(always)]
    pub(super) fn push_plain(
        &self,
        function: u32,
        now: impl FnOnce() -> Option<[u64; N]>,
    ) -> Option<(&Frame<N>, Option<&Frame<N>>)> {
        let len = self.len();
        let frame = self.stack.get(len)?;
        // Read before any write, so that no register has to be saved across a call.
        frame.start(now()?);
        frame.key.store(u64::from(function), Relaxed);
        frame.inner.iter().for_each(|inner| inner.store(0, Relaxed));
        #[expect(clippy::cast_possible_truncation, reason = "at most `DEPTH`")]
        self.len.store(len as u32 + 1, Relaxed);
        Some((frame, self.at(len)))
    }

    /// Pops the innermost call if it is one of this function and has no mark. Returns it, with the
    /// frame of its caller.
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

    /// Watches the innermost call, which has this stack pointer.
    pub(super) fn watch(&self, stack_pointer: usize) {
        let Some(frame) = self.at(self.len()) else { return };
        frame.key.store(frame.key.load(Relaxed) | WATCHED, Relaxed);
        frame.outer_watch.store(self.watch.load(Relaxed), Relaxed);
        self.watch.store(stack_pointer, Relaxed);
        self.plain.store(0, Relaxed);
    }

    #[cold]
    fn push_over(&self, mark: StackMark) {
        if self.over.load(Relaxed) == 0 {
            self.over_at.store(mark, Relaxed);
        }
        self.over.store(self.over.load(Relaxed).saturating_add(1), Relaxed);
        add_single_writer(&self.too_deep, 1);
        self.plain.store(0, Relaxed);
    }

    /// Notes the end of a call for which there was no frame. Returns whether there was one.
    pub(super) fn pop_over(&self) -> bool {
        let over = self.over.load(Relaxed);
        if over != 0 {
            self.over.store(over - 1, Relaxed);
            self.settle();
        }
        over != 0
    }

    /// Pops the innermost call if it is this one. Returns it, with the frame of its caller.
    pub(super) fn pop_if(&self, function: u32, mark: StackMark) -> Option<(&Frame<N>, Option<&Frame<N>>)> {
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

    /// Pops the innermost call, which is at this depth.
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

    /// Pops, innermost first, the calls that are over according to the stack pointer of a hit. If
    /// the hit begins a call in the place of another call's frame, that call is over, too.
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

    /// Pops all calls inside of the innermost call that ends here. `is_framed` says that the mark
    /// is a stack pointer.
    pub(super) fn drop_inside(
        &self,
        function: u32,
        mark: StackMark,
        is_framed: bool,
        mut dropped: impl FnMut(u32),
    ) {
        let found = self.stack[..self.len().min(DEPTH)].iter().rposition(|frame| frame.is(function, mark));
        let keep = match found {
            Some(at) => at + 1,
            // The call began before the first frame. In Rust, all calls inside of it are over.
            None if !is_framed => 0,
            None => return,
        };
        while self.len() > keep {
            if let Some(frame) = self.pop() {
                dropped(frame.function());
            }
        }
    }

    /// Pops all calls.
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

    /// Sets the generation and the thread to which all further frames belong.
    pub(super) fn begin(&self, generation: u32, thread: u64) {
        self.generation.store(generation, Relaxed);
        self.thread.store(thread, Relaxed);
        self.settle();
    }
}

/// Returns the key of a frame, as it is before the call is watched.
#[inline(always)]
fn key(function: u32, mark: StackMark) -> u64 {
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

    /// Adds the time, or the counts, of a call that this call made.
    #[inline(always)]
    pub(super) fn add_inner(&self, elapsed: [u64; N]) {
        let _ = std::array::from_fn::<_, N, _>(|at| add_single_writer(&self.inner[at], elapsed[at]));
    }

    fn function(&self) -> u32 {
        #[expect(clippy::cast_possible_truncation, reason = "the lower half")]
        let function = self.key.load(Relaxed) as u32;
        function
    }

    /// Returns whether the frame belongs to this call.
    pub(super) fn is(&self, function: u32, mark: StackMark) -> bool {
        let found = self.key.load(Relaxed) & !WATCHED;
        found == key(function, mark) && (mark == 0 || self.mark.load(Relaxed) == mark)
    }
}

/// Adds to a number that only this thread writes and other threads read, without a locked
/// instruction. Meant for the numbers that consumers keep [for each thread](crate::PerThread).
///
/// ```
/// let hits = std::sync::atomic::AtomicU64::new(1);
/// probe_runtime::calls::add_single_writer(&hits, 2);
/// assert_eq!(hits.into_inner(), 3);
/// ```
#[inline(always)]
pub fn add_single_writer(number: &AtomicU64, more: u64) {
    number.store(number.load(Relaxed).wrapping_add(more), Relaxed);
}
