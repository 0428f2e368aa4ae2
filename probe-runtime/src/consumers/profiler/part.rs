//! One thread's sums of one function. Only the thread writes them; anybody may read.

// Safety: relies on zeroes being no call.
#![expect(unsafe_code, reason = "see above")]

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU32, AtomicU64};

use crate::calls::add;
use crate::per_thread::Zeroed;

/// One thread's sums of one function. Times in ticks, as they were measured.
#[repr(C)]
pub(super) struct Part {
    /// The mode, or window, and the generation that `untimed` is of; and the thread.
    key: AtomicU64,
    thread: AtomicU64,
    /// Calls under way that are not timed.
    untimed: AtomicU32,
    /// Delivered hits: calls that began, and polls; of these, polls after a future's first.
    pub(super) calls: AtomicU64,
    pub(super) resumed: AtomicU64,
    begun: AtomicU64,
    ended: AtomicU64,
    time: AtomicU64,
    /// As the bits of an `f64`.
    squares: AtomicU64,
    hits: AtomicU64,
    /// Inverted, so that zero means none.
    shortest: AtomicU64,
    longest: AtomicU64,
    /// Calls that were timed with all that is in them, weighted: their number, their time in no
    /// timed call right inside, and the number of those.
    whole: AtomicU64,
    own: AtomicU64,
    inside: AtomicU64,
    /// Calls right inside that are timed in windows, while this one is always: weighted.
    below: AtomicU64,
    below_calls: AtomicU64,
}

// SAFETY: atomics only.
unsafe impl Zeroed for Part {}

/// The sums of one function on all threads.
#[derive(Clone, Copy, PartialEq, Default, Debug)]
pub(super) struct Seen {
    /// Calls that began, and polls: counted by the runtime, or delivered.
    pub(super) calls: u64,
    /// Those of them that are polls after a future's first.
    pub(super) resumed: u64,
    /// Those that were delivered.
    pub(super) delivered: u64,
    /// Timed calls: begun, and ended; the time of these, its squares, the hits inside.
    pub(super) begun: u64,
    pub(super) ended: u64,
    pub(super) time: u64,
    pub(super) squares: f64,
    pub(super) hits: u64,
    /// Inverted, as in the parts.
    pub(super) shortest: u64,
    pub(super) longest: u64,
    pub(super) whole: u64,
    pub(super) own: u64,
    pub(super) inside: u64,
    pub(super) below: u64,
    pub(super) below_calls: u64,
}

impl Seen {
    /// Adds the sums of a thread.
    pub(super) fn add(&mut self, part: &Part) {
        let of = |number: &AtomicU64| number.load(Relaxed);
        if of(&part.calls) == 0 {
            return;
        }
        // In this order: a call with a time has begun, and one that has begun was delivered.
        let ended = part.ended.load(Acquire);
        self.ended += ended;
        self.time += of(&part.time);
        self.squares += f64::from_bits(of(&part.squares));
        self.hits += of(&part.hits);
        self.begun += of(&part.begun).max(ended);
        self.resumed += of(&part.resumed);
        self.delivered += of(&part.calls);
        self.shortest = self.shortest.max(of(&part.shortest));
        self.longest = self.longest.max(of(&part.longest));
        self.whole += of(&part.whole);
        self.own += of(&part.own);
        self.inside += of(&part.inside);
        self.below += of(&part.below);
        self.below_calls += of(&part.below_calls);
    }

    /// Calls that were not later polls of a future.
    #[expect(clippy::cast_precision_loss, reason = "far fewer than 2^52")]
    pub(super) fn first_calls(&self) -> f64 {
        self.calls.saturating_sub(self.resumed) as f64
    }

    /// The share of those.
    #[expect(clippy::cast_precision_loss, reason = "a part")]
    pub(super) fn first_polls(&self) -> f64 {
        if self.calls == 0 { 1.0 } else { self.first_calls() / self.calls as f64 }
    }
}

impl Part {
    /// Forgets what was under way in another mode, window or generation, or on another thread.
    #[inline(always)]
    pub(super) fn belongs_to(&self, key: u64, thread: u64) {
        if self.key.load(Relaxed) != key || self.thread.load(Relaxed) != thread {
            self.key.store(key, Relaxed);
            self.thread.store(thread, Relaxed);
            self.untimed.store(0, Relaxed);
        }
    }

    #[inline(always)]
    pub(super) fn count(&self, is_resumed: bool) {
        add(&self.calls, 1);
        if is_resumed {
            add(&self.resumed, 1);
        }
    }

    /// A call begins that is not timed.
    #[inline(always)]
    pub(super) fn begin_untimed(&self) {
        self.untimed.store(self.untimed.load(Relaxed).wrapping_add(1), Relaxed);
    }

    /// How many of those are under way.
    #[inline(always)]
    pub(super) fn untimed(&self) -> u32 {
        self.untimed.load(Relaxed)
    }

    /// One of those ends, if there is any.
    #[inline(always)]
    pub(super) fn end_untimed(&self) -> bool {
        let untimed = self.untimed();
        self.untimed.store(untimed.saturating_sub(1), Relaxed);
        untimed != 0
    }

    #[inline(always)]
    pub(super) fn begin_timed(&self) {
        add(&self.begun, 1);
    }

    /// A timed call has ended, with so many hits inside.
    #[inline(always)]
    pub(super) fn end_timed(&self, elapsed: u64, hits: u64) {
        add(&self.time, elapsed);
        add(&self.hits, hits);
        #[expect(clippy::cast_precision_loss, reason = "of an error")]
        let squares = f64::from_bits(self.squares.load(Relaxed)) + (elapsed as f64).powi(2);
        self.squares.store(squares.to_bits(), Relaxed);
        if !elapsed > self.shortest.load(Relaxed) {
            self.shortest.store(!elapsed, Relaxed);
        }
        if elapsed > self.longest.load(Relaxed) {
            self.longest.store(elapsed, Relaxed);
        }
        // Last: a reader that sees the call also sees its time.
        self.ended.store(self.ended.load(Relaxed).wrapping_add(1), Release);
    }

    /// The call was timed with all that is in it; so much of its time was in timed calls right
    /// inside, of this number.
    #[inline(always)]
    pub(super) fn end_whole(&self, weight: u64, elapsed: u64, inner: u64, calls: u64) {
        add(&self.whole, weight);
        add(&self.own, weight * elapsed.saturating_sub(inner));
        add(&self.inside, weight * calls);
    }

    /// So many calls right inside took so long, all weighted.
    #[inline(always)]
    pub(super) fn add_below(&self, time: u64, calls: u64) {
        add(&self.below, time);
        add(&self.below_calls, calls);
    }
}
