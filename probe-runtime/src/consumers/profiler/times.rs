//! Times of calls, apart by what may have made them longer than they are.
//!
//! | kind | which calls |
//! |---|---|
//! | cold | a thread's first two that are timed in a window: the code and the data of their hits have left the caches |
//! | long | those that took 16 times as long as the thread's usual ones, and more: a few of them may have been interrupted |
//! | usual | all others |

// Safety: relies on zeroes being no calls.
#![expect(unsafe_code, reason = "see above")]

use std::ops::{Add, Sub};
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use crate::calls::add;
use crate::per_thread::Zeroed;

/// What the calls of one kind took.
#[derive(Clone, Copy, PartialEq, Default, Debug)]
pub(super) struct Times {
    pub(super) samples: u64,
    /// In ticks, and the squares.
    pub(super) time: u64,
    pub(super) squares: f64,
    /// Hits inside of them, which have made them longer.
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

/// What has come since then.
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

/// The same of each kind.
#[derive(Clone, Copy, PartialEq, Default, Debug)]
pub(super) struct Kinds<T> {
    pub(super) cold: T,
    pub(super) usual: T,
    pub(super) long: T,
}

impl Kinds<Times> {
    /// Of all calls.
    pub(super) fn all(&self) -> Times {
        self.cold + self.usual + self.long
    }

    pub(super) fn since(&self, then: &Self) -> Self {
        Self { cold: self.cold - then.cold, usual: self.usual - then.usual, long: self.long - then.long }
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
    /// By the thread whose they are.
    #[inline(always)]
    fn add(&self, elapsed: u64, inner: u64) {
        add(&self.samples, 1);
        add(&self.time, elapsed);
        add(&self.inner, inner);
        #[expect(clippy::cast_precision_loss, reason = "of an error")]
        let squares = f64::from_bits(self.squares.load(Relaxed)) + (elapsed as f64).powi(2);
        self.squares.store(squares.to_bits(), Relaxed);
    }

    fn get(&self) -> Times {
        Times {
            samples: self.samples.load(Relaxed),
            time: self.time.load(Relaxed),
            squares: f64::from_bits(self.squares.load(Relaxed)),
            inner: self.inner.load(Relaxed),
        }
    }
}

impl Kinds<Sums> {
    /// A call that took so many ticks.
    #[inline(always)]
    pub(super) fn add(&self, is_cold: bool, elapsed: u64, inner: u64) {
        let kind = if is_cold {
            &self.cold
        } else if self.is_long(elapsed) {
            &self.long
        } else {
            &self.usual
        };
        kind.add(elapsed, inner);
    }

    /// So many times as long as usual, once so many are known.
    fn is_long(&self, elapsed: u64) -> bool {
        const LONG: u64 = 16;
        const KNOWN: u64 = 4;
        let (samples, time) = (self.usual.samples.load(Relaxed), self.usual.time.load(Relaxed));
        samples >= KNOWN && elapsed.saturating_mul(samples) > time.saturating_mul(LONG)
    }

    /// By any thread.
    pub(super) fn get(&self) -> Kinds<Times> {
        Kinds { cold: self.cold.get(), usual: self.usual.get(), long: self.long.get() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sums() -> Kinds<Sums> {
        let sums = || Sums {
            samples: AtomicU64::new(0),
            time: AtomicU64::new(0),
            squares: AtomicU64::new(0),
            inner: AtomicU64::new(0),
        };
        Kinds { cold: sums(), usual: sums(), long: sums() }
    }

    #[test]
    fn a_call_is_of_one_kind() {
        let sums = sums();
        for (is_cold, elapsed) in
            [(true, 900), (true, 50), (false, 500), (false, 10), (false, 20), (false, 30)]
        {
            sums.add(is_cold, elapsed, 1);
        }
        // Four are known, of 140 ticks each.
        sums.add(false, 2240, 0);
        let before = sums.get();
        assert_eq!(before.cold, Times { samples: 2, time: 950, squares: 812_500.0, inner: 2 });
        assert_eq!((before.usual.samples, before.usual.time, before.long), (5, 2800, Times::default()));
        sums.add(false, 8961, 7);
        let after = sums.get();
        let long = Times { samples: 1, time: 8961, squares: 8961.0 * 8961.0, inner: 7 };
        assert_eq!(after.since(&before), Kinds { long, ..Kinds::default() });
        assert_eq!((after.all().samples, after.all().time), (8, 950 + 2800 + 8961));
    }
}
