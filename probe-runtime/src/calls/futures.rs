//! Futures that have been entered and not ended: when that was, and how long their polls have taken
//! since.
//!
//! A table for each thread, of the futures that were entered there; only that thread adds to it. A
//! future's hits come one after the other, ordered by whoever moves it between threads, so
//! whichever thread polls it may write its entry, and free it, with plain stores. Who does not find
//! a future in its own table looks through those of all threads.
//!
//! A future that is leaked, neither polled to its end nor dropped, keeps its place until another
//! one of its address and function is entered on the same thread, or the sites are switched. (One
//! that is entered on another thread, in memory that was given back in spite of the leak, and
//! polled on a third, would be taken for it: `unsafe` code alone can do that.)

// Safety: relies on zeroes being an empty table.
#![expect(unsafe_code, reason = "see above")]

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize};

use super::frames::add;
use crate::per_thread::Zeroed;

/// Futures that may be pending of those that one thread has entered.
const PENDING: usize = 4096;
/// Places in which one may lie, from where its hash says.
const TRIES: usize = 32;

/// Which future: its address is another one's, of another function or later on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Which {
    pub(super) future: usize,
    pub(super) function: u32,
    pub(super) generation: u32,
}

#[repr(C)]
pub(super) struct Pending<const N: usize> {
    /// 0 if it is free.
    future: AtomicUsize,
    function: AtomicU32,
    generation: AtomicU32,
    start: [AtomicU64; N],
    busy: [AtomicU64; N],
}

#[repr(C)]
pub(super) struct Futures<const N: usize> {
    /// Futures that there was no room for.
    pub(super) lost: AtomicU64,
    pending: [Pending<N>; PENDING],
}

// SAFETY: atomics only.
unsafe impl<const N: usize> Zeroed for Futures<N> {}

impl<const N: usize> Futures<N> {
    fn places(&self, future: usize) -> impl Iterator<Item = &Pending<N>> {
        // Fibonacci hashing: the upper bits of a product.
        let hash = (future as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 48;
        let hash = usize::try_from(hash).unwrap_or_default();
        (0..TRIES).map(move |at| &self.pending[(hash + at) % PENDING])
    }

    pub(super) fn find(&self, which: Which) -> Option<&Pending<N>> {
        self.places(which.future).find(|pending| pending.is(which))
    }

    /// Takes note of one that is entered. `dropped` is told of those whose place it takes: their
    /// end was missed.
    pub(super) fn enter(&self, which: Which, now: [u64; N], mut dropped: impl FnMut(u32)) {
        let is_gone = |pending: &&Pending<N>| {
            let future = pending.future.load(Acquire);
            let same = future == which.future && pending.function.load(Relaxed) == which.function;
            future == 0 || same || pending.generation.load(Relaxed) != which.generation
        };
        // One of the same address and function first: there is at most one.
        let same = self.places(which.future).find(|pending| {
            pending.future.load(Acquire) == which.future && pending.function.load(Relaxed) == which.function
        });
        let Some(pending) = same.or_else(|| self.places(which.future).find(is_gone)) else {
            add(&self.lost, 1);
            return;
        };
        if pending.future.load(Relaxed) != 0 {
            dropped(pending.function.load(Relaxed));
        }
        pending.function.store(which.function, Relaxed);
        pending.generation.store(which.generation, Relaxed);
        for ((start, busy), now) in pending.start.iter().zip(&pending.busy).zip(now) {
            start.store(now, Relaxed);
            busy.store(0, Relaxed);
        }
        pending.future.store(which.future, Release);
    }
}

impl<const N: usize> Pending<N> {
    fn is(&self, which: Which) -> bool {
        self.future.load(Acquire) == which.future
            && self.function.load(Relaxed) == which.function
            && self.generation.load(Relaxed) == which.generation
    }

    /// A poll has taken so much.
    pub(super) fn add(&self, elapsed: [u64; N]) {
        self.busy.iter().zip(elapsed).for_each(|(busy, elapsed)| add(busy, elapsed));
    }

    pub(super) fn start(&self) -> [u64; N] {
        self.start.each_ref().map(|start| start.load(Relaxed))
    }

    pub(super) fn busy(&self) -> [u64; N] {
        self.busy.each_ref().map(|busy| busy.load(Relaxed))
    }

    /// It has ended.
    pub(super) fn free(&self) {
        self.future.store(0, Release);
    }
}
