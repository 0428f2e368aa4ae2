//! The stack of calls under way on one thread.
//!
//! Only the owning thread writes the stack; its fields are atomics because other threads may read
//! it at any time. [`pairing`] decides which calls a hit ends. A frame of C code that may
//! end without an exit is *watched*: `watch` is the stack pointer of the innermost such frame. Hits
//! from further down need not look for calls that were left.
//!
//! Where a thread has several stacks, a call may end before one that began after it. Then its frame
//! is taken out of the middle. The frame above it is a *base* from then on: its caller is not
//! known.

// Safety: relies on zeroes being an empty stack.
#![expect(unsafe_code, reason = "see above")]

use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU32, AtomicU64};

use crate::engine::per_thread::Zeroed;
use probe_core::pairing::{self, CallKind, MAX_FRAME_BYTES, OpenCalls, Place, SAME_CALL_BYTES};

/// Calls that a thread may have under way. Deeper calls are counted, but not measured.
pub(super) const DEPTH: usize = 8192;

/// No frame is watched. (The field is zero until the thread's first hit, which belongs to another
/// generation.)
const UNWATCHED: u64 = u64::MAX;

/// A call that is not asked about: pairing passes it by.
pub(crate) const PASSED_BY: Place = Place { function: u32::MAX, kind: CallKind::Hooked, stack_pointer: 0 };

/// A call that began.
#[repr(C)]
pub(super) struct Frame<const N: usize> {
    /// The function, and flags.
    key: AtomicU64,
    stack_pointer: AtomicU64,
    /// The note that the meter keeps with the call.
    pub(super) note: AtomicU64,
    start: [AtomicU64; N],
    inner: [AtomicU64; N],
    /// If `POLL`: the future's address. If watched: the previous value of `watch`.
    extra: AtomicU64,
}

/// A key's part: the frame is of a future's poll.
const POLL: u64 = 1 << 32;
/// The frame's call may end without an exit.
const HOOKED: u64 = 1 << 33;
/// The same, and its stack pointer is its own.
const FRAMED: u64 = 1 << 34;
/// The frame below is not of the caller.
pub(crate) const BASE: u64 = 1 << 35;

/// A thread's stack of calls.
#[repr(C)]
pub(super) struct Frames<const N: usize> {
    /// The number of the thread that owns the stack.
    pub(super) thread: AtomicU64,
    /// The generation while every call has a frame; else 0.
    pub(super) steady: AtomicU32,
    len: AtomicU32,
    /// The generation of all frames.
    pub(super) generation: AtomicU32,
    watch: AtomicU64,
    /// Calls under way for which there was no frame.
    over: AtomicU32,
    /// The stack pointer of the first of these calls if that may skip its exit; else 0.
    over_at: AtomicU64,
    /// All calls so far for which there was no frame.
    pub(super) too_deep: AtomicU64,
    stack: [Frame<N>; DEPTH],
}

// SAFETY: atomics only.
unsafe impl<const N: usize> Zeroed for Frames<N> {}

impl<const N: usize> OpenCalls for Frames<N> {
    fn count(&self) -> usize {
        self.len()
    }

    fn call(&self, index: usize) -> Place {
        self.stack[index].place()
    }
}

impl<const N: usize> Frames<N> {
    #[inline(always)]
    pub(super) fn len(&self) -> usize {
        self.len.load(Relaxed) as usize
    }

    /// Returns whether a hit must look for calls that ended without an exit.
    #[inline(always)]
    pub(super) fn is_watched(&self) -> bool {
        self.watch.load(Relaxed) != UNWATCHED
    }

    /// Updates `steady` after a change of the fields that it depends on.
    fn settle(&self) {
        let is_steady = self.over.load(Relaxed) == 0;
        self.steady.store(if is_steady { self.generation.load(Relaxed) } else { 0 }, Relaxed);
    }

    /// Returns the call at this depth, from 1.
    #[inline(always)]
    pub(super) fn at(&self, depth: usize) -> Option<&Frame<N>> {
        self.stack.get(depth.wrapping_sub(1))
    }

    /// Pushes a frame for a call that begins. Returns it, with the frame of its caller; `None` if
    /// there is no room, which is counted.
    pub(super) fn push(&self, call: Place) -> Option<(&Frame<N>, Option<&Frame<N>>)> {
        let len = self.len();
        let Some(frame) = self.stack.get(len) else {
            self.push_over(call);
            return None;
        };
        frame.key.store(key(call), Relaxed);
        frame.stack_pointer.store(call.stack_pointer, Relaxed);
        if let CallKind::Poll(future) = call.kind {
            frame.extra.store(future, Relaxed);
        }
        frame.inner.iter().for_each(|inner| inner.store(0, Relaxed));
        #[expect(clippy::cast_possible_truncation, reason = "at most `DEPTH`")]
        self.len.store(len as u32 + 1, Relaxed);
        if frame.is_watched() {
            frame.extra.store(self.watch.load(Relaxed), Relaxed);
            self.watch.store(call.stack_pointer, Relaxed);
        }
        Some((frame, self.at(len)))
    }

    /// Does the same as [`drop_left`](Self::drop_left) and [`push`](Self::push), if no call is
    /// left. Returns `None` if one may be, if there is no room, or if `now` returns `None`; then
    /// nothing has changed. It calls no other function.
    #[inline(always)]
    pub(super) fn push_quickly(
        &self,
        call: Place,
        now: impl FnOnce() -> Option<[u64; N]>,
    ) -> Option<(&Frame<N>, Option<&Frame<N>>)> {
        let len = self.len();
        let frame = self.stack.get(len)?;
        if self.is_watched() {
            // The innermost call continues, and so do those around it.
            let innermost = self.at(len)?.stack_pointer.load(Relaxed);
            let replaces = call.kind == CallKind::Framed && innermost == call.stack_pointer;
            if innermost < call.stack_pointer || innermost == 0 || replaces {
                return None;
            }
        }
        // Read before any write, so that no register has to be saved across a call.
        frame.start(now()?);
        frame.key.store(key(call), Relaxed);
        frame.stack_pointer.store(call.stack_pointer, Relaxed);
        if call.may_skip_exit() && call.stack_pointer != 0 {
            frame.extra.store(self.watch.load(Relaxed), Relaxed);
            self.watch.store(call.stack_pointer, Relaxed);
        }
        frame.inner.iter().for_each(|inner| inner.store(0, Relaxed));
        #[expect(clippy::cast_possible_truncation, reason = "at most `DEPTH`")]
        self.len.store(len as u32 + 1, Relaxed);
        Some((frame, self.at(len)))
    }

    /// Pops the innermost call, if it is the one that ends here, whatever other calls there are.
    /// Returns it, with the frame of its caller. Else nothing has changed. It calls no other
    /// function.
    #[inline(always)]
    pub(super) fn pop_quickly(&self, exit: Place) -> Option<(&Frame<N>, Option<&Frame<N>>)> {
        let depth = self.len();
        let frame = self.at(depth)?;
        let (entered, around) = (frame.stack_pointer.load(Relaxed), frame.extra.load(Relaxed));
        if frame.key.load(Relaxed) != key(exit) || !surely_fits(exit, entered, around) {
            return None;
        }
        self.shorten(frame, depth);
        Some((frame, self.at(depth.wrapping_sub(1))))
    }

    #[cold]
    fn push_over(&self, call: Place) {
        if self.over.load(Relaxed) == 0 {
            self.over_at.store(if call.may_skip_exit() { call.stack_pointer } else { 0 }, Relaxed);
        }
        self.over.store(self.over.load(Relaxed).saturating_add(1), Relaxed);
        add_single_writer(&self.too_deep, 1);
        self.steady.store(0, Relaxed);
    }

    /// Forgets the calls without frames, if they are over according to a hit's stack pointer.
    pub(super) fn drop_over(&self, hit: Place, begins: bool) {
        let at = self.over_at.load(Relaxed);
        let replaces = begins && hit.kind == CallKind::Framed && at == hit.stack_pointer;
        if at != 0 && (at < hit.stack_pointer || replaces) {
            self.over.store(0, Relaxed);
            self.over_at.store(0, Relaxed);
            self.settle();
        }
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

    /// Pops the innermost call.
    fn pop(&self) -> Option<&Frame<N>> {
        let depth = self.len();
        let frame = self.at(depth)?;
        self.shorten(frame, depth);
        Some(frame)
    }

    /// Pops the innermost call, which is at this depth.
    #[inline(always)]
    fn shorten(&self, frame: &Frame<N>, depth: usize) {
        #[expect(clippy::cast_possible_truncation, reason = "at most `DEPTH`")]
        self.len.store(depth as u32 - 1, Relaxed);
        if frame.is_watched() {
            self.watch.store(frame.extra.load(Relaxed), Relaxed);
        }
    }

    /// Pops the calls that are over as an entry shows.
    pub(super) fn drop_left(&self, entry: Place, dropped: impl FnMut(u32)) {
        if self.is_watched() {
            self.drop_inside(pairing::open_at_entry(self, entry), dropped);
        }
    }

    /// Pops the calls that are over as an exit shows that has no entry.
    #[cold]
    pub(super) fn drop_left_by_exit(&self, exit: Place, dropped: impl FnMut(u32)) {
        if self.is_watched() {
            self.drop_inside(pairing::open_at_exit(self, exit), dropped);
        }
    }

    fn drop_inside(&self, keep: usize, mut dropped: impl FnMut(u32)) {
        while self.len() > keep
            && let Some(frame) = self.pop()
        {
            dropped(frame.function());
        }
    }

    /// Takes out the call that this hit ends, and pops those that were left inside of it. Returns
    /// it, with its place among the calls that are still open.
    pub(super) fn take(&self, exit: Place, mut dropped: impl FnMut(u32)) -> Option<(&Frame<N>, usize)> {
        let index = pairing::match_exit(self, exit)?;
        for inner in (index + 1..self.len()).rev() {
            if !goes_on_after(self.call(inner), exit)
                && let Some(frame) = self.remove(inner)
            {
                dropped(frame.function());
            }
        }
        let frame = self.remove(index)?;
        if let Some(above) = self.stack.get(index).filter(|_| index < self.len()) {
            above.key.store(above.key.load(Relaxed) | BASE, Relaxed);
        }
        Some((frame, index))
    }

    /// Takes a frame out. No call above it is watched.
    fn remove(&self, index: usize) -> Option<&Frame<N>> {
        (index + 1..self.len()).for_each(|above| self.stack[above - 1].swap(&self.stack[above]));
        self.pop()
    }

    /// Returns the frame of a call's caller, for the call at this place.
    pub(super) fn caller(&self, frame: &Frame<N>, index: usize) -> Option<&Frame<N>> {
        self.at(index).filter(|_| !frame.is_base())
    }

    /// Returns whether a call at this place has one of its function around it.
    pub(super) fn is_recursive(&self, frame: &Frame<N>, index: usize) -> bool {
        if frame.is_base() {
            return false;
        }
        let mut around = self.stack[..index.min(DEPTH)].iter().rev();
        let last = around.find(|it| it.function() == frame.function() || it.is_base());
        last.is_some_and(|it| it.function() == frame.function())
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
        self.steady.store(0, Relaxed);
    }

    /// Sets the generation and the thread to which all further frames belong.
    pub(super) fn begin(&self, generation: u32, thread: u64) {
        self.generation.store(generation, Relaxed);
        self.thread.store(thread, Relaxed);
        self.settle();
    }
}

/// Returns the call of this key; `future` is the address of a poll's future.
pub(crate) fn place_of(key: u64, stack_pointer: u64, future: u64) -> Place {
    let kind = match key & (POLL | HOOKED | FRAMED) {
        POLL => CallKind::Poll(future),
        HOOKED => CallKind::Hooked,
        FRAMED => CallKind::Framed,
        _ => CallKind::Plain,
    };
    #[expect(clippy::cast_possible_truncation, reason = "the lower half")]
    Place { function: key as u32, kind, stack_pointer }
}

/// Returns whether the innermost call ends here, whatever other calls there are; `entered` is its
/// stack pointer, and its function and kind are those of the exit. If these are watched, `around`
/// is the stack pointer of the next one outside that is.
#[inline(always)]
pub(crate) fn surely_fits(exit: Place, entered: u64, around: u64) -> bool {
    let at = exit.stack_pointer;
    match exit.kind {
        CallKind::Plain => entered.wrapping_sub(at).wrapping_add(SAME_CALL_BYTES) <= 2 * SAME_CALL_BYTES,
        CallKind::Framed => entered == at,
        // After the epilogue, a call further out may fit as well, unless the next one on this stack
        // began further up.
        CallKind::Hooked => {
            let is_inside =
                || at < around && (around == UNWATCHED || around.abs_diff(entered) < MAX_FRAME_BYTES);
            entered.abs_diff(at) < MAX_FRAME_BYTES && (at <= entered || is_inside())
        }
        CallKind::Poll(_) => false,
    }
}

/// Returns a call's function and kind, as a number.
#[inline(always)]
pub(crate) fn key(call: Place) -> u64 {
    u64::from(call.function)
        | match call.kind {
            CallKind::Plain => 0,
            CallKind::Poll(_) => POLL,
            CallKind::Hooked => HOOKED,
            CallKind::Framed => FRAMED,
        }
}

/// Returns whether an open call continues, although one further out has ended: it can't have
/// skipped its exit, and is on another stack.
pub(crate) fn goes_on_after(call: Place, exit: Place) -> bool {
    let are_known = call.stack_pointer != 0 && exit.stack_pointer != 0;
    let has_exit = matches!(call.kind, CallKind::Plain | CallKind::Poll(_));
    has_exit && are_known && call.stack_pointer.abs_diff(exit.stack_pointer) >= MAX_FRAME_BYTES
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

    pub(super) fn function(&self) -> u32 {
        #[expect(clippy::cast_possible_truncation, reason = "the lower half")]
        let function = self.key.load(Relaxed) as u32;
        function
    }

    fn place(&self) -> Place {
        place_of(self.key.load(Relaxed), self.stack_pointer.load(Relaxed), self.extra.load(Relaxed))
    }

    #[inline(always)]
    fn is_watched(&self) -> bool {
        self.key.load(Relaxed) & (HOOKED | FRAMED) != 0 && self.stack_pointer.load(Relaxed) != 0
    }

    pub(super) fn is_base(&self) -> bool {
        self.key.load(Relaxed) & BASE != 0
    }

    fn swap(&self, other: &Self) {
        let swap = |one: &AtomicU64, other: &AtomicU64| {
            let before = one.load(Relaxed);
            one.store(other.load(Relaxed), Relaxed);
            other.store(before, Relaxed);
        };
        swap(&self.key, &other.key);
        swap(&self.stack_pointer, &other.stack_pointer);
        swap(&self.note, &other.note);
        swap(&self.extra, &other.extra);
        self.start.iter().zip(&other.start).for_each(|(one, other)| swap(one, other));
        self.inner.iter().zip(&other.inner).for_each(|(one, other)| swap(one, other));
    }
}

/// Adds to a number that only this thread writes and other threads read, without a locked
/// instruction. Meant for the numbers that consumers keep [for each
/// thread](crate::consumer::PerThread).
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use probe_core::pairing::model;

    fn frames() -> Box<Frames<1>> {
        // SAFETY: zeroes are an empty stack.
        let frames: Box<Frames<1>> = unsafe { Box::new_zeroed().assume_init() };
        frames.clear(|_| ());
        frames.begin(1, 1);
        frames
    }

    /// The pairs of entries and exits, as [`Calls`](super::super::Calls) pairs them. Starts of
    /// calls are the numbers of their entries.
    fn paired(frames: &Frames<1>, history: &[model::Hit]) -> (Vec<(usize, usize)>, usize, usize) {
        let (mut pairs, mut dropped, mut without_entry) = (Vec::new(), 0, 0);
        for (number, hit) in history.iter().enumerate() {
            let (place, mark) = (hit.place, [number as u64]);
            let is_poll = matches!(place.kind, CallKind::Poll(_));
            if hit.ends.is_none() {
                if is_poll || frames.push_quickly(place, || Some(mark)).is_none() {
                    frames.drop_left(place, |_| dropped += 1);
                    frames.push(place).unwrap().0.start(mark);
                }
                continue;
            }
            let taken = (frames.pop_quickly(place))
                .map(|(frame, _)| frame)
                .or_else(|| frames.take(place, |_| dropped += 1).map(|(frame, _)| frame));
            if let Some(frame) = taken {
                pairs.push((usize::try_from(frame.started()[0]).unwrap(), number));
            } else {
                frames.drop_left_by_exit(place, |_| dropped += 1);
                without_entry += 1;
            }
        }
        (pairs, dropped, without_entry)
    }

    #[test]
    fn an_exit_after_the_epilogue_ends_the_innermost_call_at_once() {
        let hooked = |function, stack_pointer| Place { function, kind: CallKind::Hooked, stack_pointer };
        let frames = frames();
        frames.push_quickly(hooked(1, 1000), || Some([1])).unwrap();
        frames.push_quickly(hooked(1, 900), || Some([2])).unwrap();
        // Another function's, one of the call around, and one of none.
        for exit in [hooked(2, 950), hooked(1, 1000), hooked(1, 1000 + MAX_FRAME_BYTES)] {
            assert!(frames.pop_quickly(exit).is_none(), "{exit:?}");
        }
        for (exit, start) in [(hooked(1, 999), 2), (hooked(1, 1000 + MAX_FRAME_BYTES - 1), 1)] {
            assert_eq!(frames.pop_quickly(exit).unwrap().0.started(), [start]);
        }
        assert!(!frames.is_watched() && frames.len() == 0);
    }

    proptest! {
        #[test]
        fn each_exit_ends_its_own_entry(
            history in prop_oneof![model::one_stack(), model::coroutines()],
        ) {
            let frames = frames();
            let (pairs, dropped, without_entry) = paired(&frames, &history);
            prop_assert_eq!(&pairs, &model::pairs(&history), "{:#?}", history);
            // Each entry has ended, was left, or continues.
            let open = frames.len();
            prop_assert_eq!((2 * pairs.len() + dropped + open, without_entry), (history.len(), 0));
            frames.clear(|_| ());
            prop_assert!(!frames.is_watched() && frames.len() == 0);
        }
    }
}
