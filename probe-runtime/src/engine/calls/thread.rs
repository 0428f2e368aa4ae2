//! The data of one thread: its stack of calls, its pending futures, and the meter's part.

// Safety: relies on data being made of parts for which all zeroes is a valid value.
#![expect(unsafe_code, reason = "see above")]

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use super::frames::{Frame, Frames, add_single_writer};
use super::futures::{FutureKey, Futures, PendingFuture};
use super::meter::{CallEnd, CompletedCall, Meter, difference};
use crate::engine::per_thread::{Local, PerThread, Zeroed};
use probe_core::pairing::Place;

#[repr(C)]
pub(super) struct ThreadData<const N: usize, H> {
    pub(super) frames: Frames<N>,
    pub(super) own: H,
    pub(super) futures: Futures<N>,
}

// SAFETY: all of its parts are `Zeroed`.
unsafe impl<const N: usize, H: Zeroed> Zeroed for ThreadData<N, H> {}

#[repr(C)]
pub(super) struct FunctionData<P> {
    /// The thread's frames of the function, if the meter asks for recursion.
    pub(super) open: AtomicU64,
    pub(super) own: P,
    pub(super) without_entry: AtomicU64,
    pub(super) without_exit: AtomicU64,
    /// Futures that were entered, that have ended after a known entry, and that were dropped
    /// before.
    pub(super) entered: AtomicU64,
    pub(super) finished: AtomicU64,
    pub(super) cancelled: AtomicU64,
}

// SAFETY: all of its parts are `Zeroed`.
unsafe impl<P: Zeroed> Zeroed for FunctionData<P> {}

/// The data of all threads.
pub(super) type CallMemory<const N: usize, M> =
    PerThread<ThreadData<N, <M as Meter<N>>::Head>, FunctionData<<M as Meter<N>>::Part>>;

/// The frame of a call that has ended, and those of the calls around it.
#[derive(Clone, Copy)]
pub(super) struct Taken<'a, const N: usize> {
    pub(super) frame: &'a Frame<N>,
    pub(super) outer: Option<&'a Frame<N>>,
    /// Its place among the calls that are still open, if it was not the innermost one.
    pub(super) within: Option<usize>,
}

/// The data of the thread that made the hit.
pub(super) struct Thread<'a, const N: usize, M: Meter<N>> {
    pub(super) memory: &'a CallMemory<N, M>,
    pub(super) local: Local<'a, ThreadData<N, M::Head>, FunctionData<M::Part>>,
}

// Copied, so that it is passed in registers.
impl<const N: usize, M: Meter<N>> Clone for Thread<'_, N, M> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<const N: usize, M: Meter<N>> Copy for Thread<'_, N, M> {}

impl<'a, const N: usize, M: Meter<N>> Thread<'a, N, M> {
    #[inline(always)]
    pub(super) fn head(self) -> &'a ThreadData<N, M::Head> {
        self.local.head()
    }

    /// Returns the meter's data of the function whose call is the innermost one under way.
    #[inline(always)]
    pub(super) fn innermost(self) -> Option<&'a M::Part> {
        let frames = &self.head().frames;
        let function = frames.at(frames.len())?.function();
        self.local.parts().get(function as usize).map(|part| &part.own)
    }

    /// Adds one to a counter of a function.
    pub(super) fn count(self, function: u32, of: impl FnOnce(&FunctionData<M::Part>) -> &AtomicU64) {
        if let Some(part) = self.local.parts().get(function as usize) {
            add_single_writer(of(part), 1);
        }
    }

    /// Counts a call whose frame is dropped.
    pub(super) fn without_exit(self, function: u32) {
        self.count(function, |part| &part.without_exit);
        self.closed(function);
    }

    /// Notes that the function has one frame less. Returns the number that is left.
    #[inline(always)]
    fn closed(self, function: u32) -> u64 {
        if !M::RECURSION {
            return 0;
        }
        let Some(part) = self.local.parts().get(function as usize) else { return 0 };
        let open = part.open.load(Relaxed).saturating_sub(1);
        part.open.store(open, Relaxed);
        open
    }

    /// Notes that the function has one frame more.
    #[inline(always)]
    pub(super) fn opened(self, function: u32) {
        if M::RECURSION {
            self.count(function, |part| &part.open);
        }
    }

    pub(super) fn begin(self, meter: &M, call: Place) -> Option<&'a Frame<N>> {
        let frames = &self.head().frames;
        let (frame, outer) = frames.push(call)?;
        self.opened(call.function);
        self.note(meter, call.function, frame, outer);
        // Read as late as possible, so that the work above is not part of the call's time.
        frame.start(meter.read(self.own()));
        Some(frame)
    }

    /// Returns the meter's data of the thread.
    #[inline(always)]
    pub(super) fn own(self) -> Local<'a, M::Head, ()> {
        self.local.map(|head| &head.own)
    }

    #[inline(always)]
    pub(super) fn note(self, meter: &M, function: u32, frame: &Frame<N>, outer: Option<&Frame<N>>) {
        if M::NOTES {
            let outer = outer.map_or(0, |outer| outer.note.load(Relaxed));
            let note = meter.begin(self.own(), function as usize, outer);
            frame.note.store(note, Relaxed);
        }
    }

    /// Takes out the call or poll that ends.
    pub(super) fn take(self, meter: &M, exit: Place) -> Option<Taken<'a, N>> {
        let frames = &self.head().frames;
        let dropped = |function| self.without_exit(function);
        let Some((frame, index)) = frames.take(exit, dropped) else {
            frames.drop_left_by_exit(exit, dropped);
            self.count(exit.function, |part| &part.without_entry);
            return None;
        };
        let outer = frames.caller(frame, index);
        if index == frames.len() && !frame.is_base() {
            return Some(Taken { frame, outer, within: None });
        }
        // The calls above have another caller than it seemed when they began.
        for at in index..frames.len() {
            let Some(moved) = frames.at(at + 1) else { break };
            let outer = frames.caller(moved, at).map_or(0, |outer| outer.note.load(Relaxed));
            let function = moved.function() as usize;
            let note = meter.moved(self.own(), function, outer, moved.note.load(Relaxed));
            moved.note.store(note, Relaxed);
        }
        Some(Taken { frame, outer, within: Some(index) })
    }

    #[inline(always)]
    pub(super) fn ended(
        self,
        meter: &M,
        function: u32,
        Taken { frame, outer, within }: Taken<'_, N>,
        now: [u64; N],
        is_poll: bool,
        completed: impl FnOnce([u64; N]) -> Option<CompletedCall<N>>,
    ) {
        let (elapsed, inner) = (difference(now, frame.started()), frame.inner());
        if let Some(outer) = outer {
            outer.add_inner(elapsed);
        }
        let open = self.closed(function);
        let is_recursive = match within {
            None => open != 0,
            Some(index) => M::RECURSION && self.head().frames.is_recursive(frame, index),
        };
        let function = function as usize;
        let Some(part) = self.local.parts().get(function) else { return };
        let note = if M::NOTES { frame.note.load(Relaxed) } else { 0 };
        let completed = completed(elapsed);
        meter.end(&CallEnd {
            function,
            head: &self.head().own,
            part: &part.own,
            elapsed,
            inner,
            note,
            is_poll,
            is_recursive,
            completed,
        });
    }

    /// Finds the entry of a future: in the table of this thread, else in those of the others.
    pub(super) fn pending(self, key: FutureKey) -> Option<&'a PendingFuture<N>> {
        let own = self.head().futures.find(key);
        own.or_else(|| self.memory.iter().find_map(|local| local.head().futures.find(key)))
    }
}
