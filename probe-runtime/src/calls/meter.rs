//! What a consumer says of its measurements, and what it is told of calls.

use crate::per_thread::{Local, Zeroed};

/// What is measured of calls: `N` numbers that only grow, read where a call begins and where it ends.
///
/// Its methods are called on hits: no heap, no lock, no panic.
pub trait Meter<const N: usize> {
    /// What it keeps for each thread.
    type Head: Zeroed;
    /// What it keeps for each function, on each thread.
    type Part: Zeroed;

    /// Whether [`begin`](Self::begin) is called. Where it is not, all notes are 0.
    const NOTES: bool = false;

    /// The numbers as they are now, on this thread, for which it keeps `local`.
    fn read(&self, local: Local<'_, Self::Head, ()>) -> [u64; N];

    /// The same, of numbers for which nothing is kept, if that takes no call of another function: then most hits need none, and no registers
    /// are kept over one; and a call's end is read before all else. `None` sends a hit the long way, which uses [`read`](Self::read).
    #[inline(always)]
    fn glance(&self) -> Option<[u64; N]> {
        None
    }

    /// A call, or a poll, begins. Returns a note that the call's [end](Ended::note) gets, and the calls inside as `outer`. The outermost
    /// calls of a thread get 0. Called if [`NOTES`](Self::NOTES) says so.
    fn begin(&self, local: Local<'_, Self::Head, ()>, function: usize, outer: u64) -> u64 {
        let _ = (local, function, outer);
        0
    }

    /// A call, or a poll, has ended.
    fn end(&self, ended: &Ended<'_, N, Self::Head, Self::Part>);
}

/// A call, or a poll of a future, that has ended, on the thread that made it.
#[derive(Debug)]
pub struct Ended<'a, const N: usize, H, P> {
    /// Which of [`Calls::functions`](super::Calls::functions).
    pub function: usize,
    /// What the meter keeps for this thread.
    pub head: &'a H,
    /// What it keeps for this function on this thread.
    pub part: &'a P,
    /// How much the numbers have grown from its begin to its end.
    pub elapsed: [u64; N],
    /// How much of that in calls inside, of functions that are measured, too.
    pub inner: [u64; N],
    /// What [`Meter::begin`] has returned.
    pub note: u64,
    /// Whether it is a poll of a future.
    pub is_poll: bool,
    /// The whole of it, if this was its end. `None` of a poll that ends without a result, and of a future whose entry was not seen.
    pub whole: Option<Whole<N>>,
}

impl<const N: usize, H, P> Ended<'_, N, H, P> {
    /// How much of it in no call inside.
    pub fn own(&self) -> [u64; N] {
        difference(self.elapsed, self.inner)
    }
}

/// A call from its entry to its exit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Whole<const N: usize> {
    /// From entry to exit. Of a future, only a clock tells something in between its polls; they may be on several threads.
    pub total: [u64; N],
    /// In all its polls. Of other calls the same as `total`.
    pub busy: [u64; N],
}

/// Hits of a function that found no partner, and futures that were cancelled.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Unpaired {
    /// Exits, of calls that began before the sites were switched on.
    pub without_entry: u64,
    /// Entries, of calls whose exits can't come any more: the sites were switched, or the call was left by `longjmp` or an exception.
    pub without_exit: u64,
    /// Futures that were dropped before their end. They had an entry, and have no exit.
    pub cancelled: u64,
    /// Futures that have been entered, and have neither ended nor been cancelled so far.
    pub pending: u64,
}

impl Unpaired {
    /// Entries without exits and exits without entries.
    pub fn total(self) -> u64 {
        self.without_entry + self.without_exit
    }
}

/// Of clocks that are not quite the same on all processors, never less than nothing.
#[inline(always)]
pub(super) fn difference<const N: usize>(now: [u64; N], start: [u64; N]) -> [u64; N] {
    std::array::from_fn(|at| now[at].saturating_sub(start[at]))
}
