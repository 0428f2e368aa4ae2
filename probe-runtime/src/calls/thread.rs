//! The data of one thread: its stack of calls, its pending futures, and the meter's part.

// Safety: relies on data being made of parts for which all zeroes is a valid value.
#![expect(unsafe_code, reason = "see above")]

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use super::frames::{Frame, Frames, StackMark, add_single_writer};
use super::futures::{Futures, PendingFuture, Which};
use super::meter::{CallEnd, CompletedCall, Meter, difference};
use crate::dispatch::Event;
use crate::per_thread::{Local, PerThread, Zeroed};

/// The data of each thread.
#[repr(C)]
pub(super) struct ThreadData<const N: usize, H> {
    pub(super) frames: Frames<N>,
    pub(super) own: H,
    pub(super) futures: Futures<N>,
}

// SAFETY: all of its parts are `Zeroed`.
unsafe impl<const N: usize, H: Zeroed> Zeroed for ThreadData<N, H> {}

/// The data of each function on each thread.
#[repr(C)]
pub(super) struct FunctionData<P> {
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

/// The frame of a call that has ended, and that of the call around it.
pub(super) type Taken<'a, const N: usize> = (&'a Frame<N>, Option<&'a Frame<N>>);

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

    /// Adds one to a counter of a function.
    pub(super) fn count(self, function: u32, of: impl FnOnce(&FunctionData<M::Part>) -> &AtomicU64) {
        if let Some(part) = self.local.parts().get(function as usize) {
            add_single_writer(of(part), 1);
        }
    }

    pub(super) fn without_exit(self, function: u32) {
        self.count(function, |part| &part.without_exit);
    }

    pub(super) fn begin(
        self,
        event: &Event<'_>,
        meter: &M,
        function: u32,
        mark: StackMark,
    ) -> Option<&'a Frame<N>> {
        let frames = &self.head().frames;
        let (frame, outer) = frames.push(function, mark)?;
        if let (true, Some(stack_pointer)) = (event.may_skip_exit(), event.stack_pointer()) {
            frames.watch(stack_pointer);
        }
        self.note(meter, function, frame, outer);
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

    /// Pops the call or poll that ends. Returns its frame and that of the call around it.
    pub(super) fn take(self, function: u32, mark: StackMark, is_framed: bool) -> Option<Taken<'a, N>> {
        let frames = &self.head().frames;
        let taken = frames.pop_if(function, mark).or_else(|| {
            frames.drop_inside(function, mark, is_framed, |function| self.without_exit(function));
            frames.pop_if(function, mark)
        });
        if taken.is_none() {
            self.count(function, |part| &part.without_entry);
        }
        taken
    }

    #[inline(always)]
    pub(super) fn ended(
        self,
        meter: &M,
        function: u32,
        (frame, outer): Taken<'_, N>,
        now: [u64; N],
        is_poll: bool,
        completed: impl FnOnce([u64; N]) -> Option<CompletedCall<N>>,
    ) {
        let (elapsed, inner) = (difference(now, frame.started()), frame.inner());
        if let Some(outer) = outer {
            outer.add_inner(elapsed);
        }
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
            completed,
        });
    }

    /// Finds the entry of a future: in the table of this thread, else in those of the others.
    pub(super) fn pending(self, which: Which) -> Option<&'a PendingFuture<N>> {
        let own = self.head().futures.find(which);
        own.or_else(|| self.memory.iter().find_map(|local| local.head().futures.find(which)))
    }
}
