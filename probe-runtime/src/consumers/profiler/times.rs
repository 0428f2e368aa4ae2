//! Times of calls, apart by circumstances that may have made them longer.
//!
//! | kind | which calls |
//! |---|---|
//! | cold | a thread's first two that are timed in a window: the code and the data of their hits have left the caches |
//! | long | those that took 16 times as long as the thread's lately, and more: a few of them may have been interrupted |
//! | usual | all others |

// Safety: relies on zeroes being no calls.
#![expect(unsafe_code, reason = "see above")]

use std::ops::{Add, Sub};
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use crate::calls::add;
use crate::per_thread::Zeroed;

/// The times of calls of one kind.
#[derive(Clone, Copy, PartialEq, Default, Debug)]
pub(super) struct Times {
    pub(super) samples: u64,
    /// Times in ticks, and their squares.
    pub(super) time: u64,
    pub(super) squares: f64,
    /// Hits inside of these calls, which have made them longer.
    pub(super) inner: u64,
}

impl Add for Times {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            samples: self.samples + other.samples,
            time: self.time + other.time,
            squares: self.squares + other.squares,
            inner: self.inner + other.inner,
        }
    }
}

/// The difference to an earlier reading.
impl Sub for Times {
    type Output = Self;

    fn sub(self, then: Self) -> Self {
        Self {
            samples: self.samples.saturating_sub(then.samples),
            time: self.time.saturating_sub(then.time),
            squares: (self.squares - then.squares).max(0.0),
            inner: self.inner.saturating_sub(then.inner),
        }
    }
}

/// The times of calls of each kind.
#[derive(Clone, Copy, PartialEq, Default, Debug)]
pub(super) struct Kinds<T> {
    pub(super) cold: T,
    pub(super) usual: T,
    pub(super) long: T,
}

impl Kinds<Times> {
    /// The times of all calls.
    pub(super) fn all(&self) -> Times {
        self.cold + self.usual + self.long
    }

    pub(super) fn since(&self, then: &Self) -> Self {
        self.by_kind(then, Times::sub)
    }

    /// Adds the times of another thread.
    pub(super) fn and(&self, others: &Self) -> Self {
        self.by_kind(others, Times::add)
    }

    fn by_kind(&self, other: &Self, of: impl Fn(Times, Times) -> Times) -> Self {
        Self {
            cold: of(self.cold, other.cold),
            usual: of(self.usual, other.usual),
            long: of(self.long, other.long),
        }
    }
}

/// One thread's times of one kind.
#[repr(C)]
pub(super) struct Sums {
    samples: AtomicU64,
    time: AtomicU64,
    /// As the bits of an `f64`.
    squares: AtomicU64,
    inner: AtomicU64,
}

// SAFETY: atomics only.
unsafe impl Zeroed for Sums {}

impl Sums {
    /// Called by the thread that owns them.
    #[inline(always)]
    fn add(&self, elapsed: u64, inner: u64) {
        add(&self.time, elapsed);
        add(&self.inner, inner);
        #[expect(clippy::cast_precision_loss, reason = "of an error")]
        let squares = f64::from_bits(self.squares.load(Relaxed)) + (elapsed as f64).powi(2);
        self.squares.store(squares.to_bits(), Relaxed);
        // Last: a reader that sees the call also sees its time.
        self.samples.store(self.samples.load(Relaxed).wrapping_add(1), Release);
    }

    fn get(&self) -> Times {
        Times {
            samples: self.samples.load(Acquire),
            time: self.time.load(Relaxed),
            squares: f64::from_bits(self.squares.load(Relaxed)),
            inner: self.inner.load(Relaxed),
        }
    }
}

/// One thread's times.
#[repr(C)]
pub(super) struct Told {
    kinds: Kinds<Sums>,
    /// Calls lately that were not cold, and their time: no more of each than makes it long.
    lately: AtomicU64,
    time_lately: AtomicU64,
}

// SAFETY: atomics only.
unsafe impl Zeroed for Told {}

impl Told {
    /// Adds a call that took so many ticks.
    #[inline(always)]
    pub(super) fn add(&self, is_cold: bool, elapsed: u64, inner: u64) {
        let kind = if is_cold {
            &self.kinds.cold
        } else if self.is_long(elapsed) {
            &self.kinds.long
        } else {
            &self.kinds.usual
        };
        kind.add(elapsed, inner);
    }

    /// Whether a call took so many times as long as recent ones, once enough are known. Afterwards
    /// it is one of them.
    fn is_long(&self, elapsed: u64) -> bool {
        const LONG: u64 = 16;
        const KNOWN: u64 = 4;
        const FORGOTTEN: u64 = 64;
        let (calls, time) = (self.lately.load(Relaxed), self.time_lately.load(Relaxed));
        let is_known = calls >= KNOWN && time > 0;
        let longest = if is_known { time.saturating_mul(LONG) / calls } else { u64::MAX };
        let (calls, time) = (calls + 1, time.saturating_add(elapsed.min(longest)));
        let halved = u32::from(calls >= FORGOTTEN);
        self.lately.store(calls >> halved, Relaxed);
        self.time_lately.store(time >> halved, Relaxed);
        elapsed > longest
    }

    /// Called by any thread.
    pub(super) fn get(&self) -> Kinds<Times> {
        let Kinds { cold, usual, long } = &self.kinds;
        Kinds { cold: cold.get(), usual: usual.get(), long: long.get() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told() -> Told {
        let none = || AtomicU64::new(0);
        let sums = || Sums { samples: none(), time: none(), squares: none(), inner: none() };
        let kinds = Kinds { cold: sums(), usual: sums(), long: sums() };
        Told { kinds, lately: none(), time_lately: none() }
    }

    #[test]
    fn a_call_is_of_one_kind() {
        let told = told();
        for (is_cold, elapsed) in
            [(true, 900), (true, 50), (false, 500), (false, 10), (false, 20), (false, 30)]
        {
            told.add(is_cold, elapsed, 1);
        }
        // Four are known, of 140 ticks each.
        told.add(false, 2240, 0);
        let before = told.get();
        assert_eq!(before.cold, Times { samples: 2, time: 950, squares: 812_500.0, inner: 2 });
        assert_eq!((before.usual.samples, before.usual.time, before.long), (5, 2800, Times::default()));
        told.add(false, 8961, 7);
        let after = told.get();
        let long = Times { samples: 1, time: 8961, squares: 8961.0 * 8961.0, inner: 7 };
        assert_eq!(after.since(&before), Kinds { long, ..Kinds::default() });
        assert_eq!((after.all().samples, after.all().time), (8, 950 + 2800 + 8961));
    }

    #[test]
    fn what_is_usual_may_change() {
        let (told, still) = (told(), told());
        (0..1000).for_each(|_| told.add(false, 50, 0));
        assert_eq!(told.get().usual.samples, 1000);
        (0..100).for_each(|_| told.add(false, 5000, 0));
        let Kinds { usual, long, .. } = told.get();
        assert!(long.samples < 20 && usual.samples + long.samples == 1100, "{long:?}");
        // A clock that stands still tells nothing.
        (0..10).for_each(|_| still.add(false, 0, 0));
        still.add(false, 1, 0);
        assert_eq!(still.get().usual.samples, 11);
    }
}
