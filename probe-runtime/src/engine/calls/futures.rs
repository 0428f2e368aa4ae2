//! Futures that were entered and have not ended: when they were entered, and how long their polls
//! have taken.
//!
//! Each thread has a table of the futures that it entered, and only that thread adds to it. The
//! hits of one future come one after the other, ordered by the code that moves it between threads.
//! So the thread that polls a future may write and free its entry with plain stores. If a future is
//! not in the thread's own table, the tables of all threads are searched.
//!
//! A leaked future is neither polled to its end nor dropped. It keeps its place until another
//! future of the same address and function is entered on the same thread, or until the sites are
//! switched. (A future would be mistaken for a leaked one if it had the same address and function,
//! was entered on another thread, and was polled on a third. That takes `unsafe` code that frees
//! the memory of a leaked future.)

// Safety: relies on zeroes being an empty table.
#![expect(unsafe_code, reason = "see above")]

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize};

use super::frames::add_single_writer;
use crate::engine::per_thread::Zeroed;

/// Pending futures that have a place in the table of the thread that entered them.
const PENDING: usize = 4096;
/// Consecutive places that are tried, from the hash of the future's address on.
const TRIES: usize = 32;

/// Identifies a future. Its address alone does not: another function's future, or a later one, may
/// have the same address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct FutureKey {
    pub(super) future: usize,
    pub(super) function: u32,
    pub(super) generation: u32,
}

#[repr(C)]
pub(super) struct PendingFuture<const N: usize> {
    /// The future's address; 0 if the place is free.
    future: AtomicUsize,
    function: AtomicU32,
    generation: AtomicU32,
    start: [AtomicU64; N],
    busy: [AtomicU64; N],
    /// The note of its entry, if the meter keeps it.
    pub(super) note: AtomicU64,
}

#[repr(C)]
pub(super) struct Futures<const N: usize> {
    /// Futures for which there was no place.
    pub(super) lost: AtomicU64,
    pending: [PendingFuture<N>; PENDING],
}

// SAFETY: atomics only.
unsafe impl<const N: usize> Zeroed for Futures<N> {}

impl<const N: usize> Futures<N> {
    fn places(&self, future: usize) -> impl Iterator<Item = &PendingFuture<N>> {
        // Fibonacci hashing: the upper bits of a product.
        let hash = (future as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 48;
        let hash = usize::try_from(hash).unwrap_or_default();
        (0..TRIES).map(move |at| &self.pending[(hash + at) % PENDING])
    }

    pub(super) fn find(&self, key: FutureKey) -> Option<&PendingFuture<N>> {
        self.places(key.future).find(|pending| pending.is(key))
    }

    /// Adds a future that is entered. Calls `dropped` with the function of a future whose place is
    /// taken because its end was missed.
    pub(super) fn enter(&self, key: FutureKey, now: [u64; N], mut dropped: impl FnMut(u32)) {
        let is_gone = |pending: &&PendingFuture<N>| {
            let future = pending.future.load(Acquire);
            let same = future == key.future && pending.function.load(Relaxed) == key.function;
            future == 0 || same || pending.generation.load(Relaxed) != key.generation
        };
        // A future of the same address and function comes first; there is at most one.
        let same = self.places(key.future).find(|pending| {
            pending.future.load(Acquire) == key.future && pending.function.load(Relaxed) == key.function
        });
        let Some(pending) = same.or_else(|| self.places(key.future).find(is_gone)) else {
            add_single_writer(&self.lost, 1);
            return;
        };
        if pending.future.load(Relaxed) != 0 {
            dropped(pending.function.load(Relaxed));
        }
        pending.function.store(key.function, Relaxed);
        pending.generation.store(key.generation, Relaxed);
        pending.note.store(0, Relaxed);
        for ((start, busy), now) in pending.start.iter().zip(&pending.busy).zip(now) {
            start.store(now, Relaxed);
            busy.store(0, Relaxed);
        }
        pending.future.store(key.future, Release);
    }
}

impl<const N: usize> PendingFuture<N> {
    fn is(&self, key: FutureKey) -> bool {
        self.future.load(Acquire) == key.future
            && self.function.load(Relaxed) == key.function
            && self.generation.load(Relaxed) == key.generation
    }

    /// Adds the time, or the counts, of a poll.
    pub(super) fn add(&self, elapsed: [u64; N]) {
        self.busy.iter().zip(elapsed).for_each(|(busy, elapsed)| add_single_writer(busy, elapsed));
    }

    pub(super) fn start(&self) -> [u64; N] {
        self.start.each_ref().map(|start| start.load(Relaxed))
    }

    pub(super) fn busy(&self) -> [u64; N] {
        self.busy.each_ref().map(|busy| busy.load(Relaxed))
    }

    /// Frees the place of a future that has ended.
    pub(super) fn free(&self) {
        self.future.store(0, Release);
    }
}
